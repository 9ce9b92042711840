"""This module defines the bodies of the queue's routes; names and units are those of the job table."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from serving.schemas import (
    LONGEST_NAME,
    NO_NUL,
    FailedItem,
    Identifier,
    ModelIdentity,
    Moment,
    Number,
    RequestFields,
    Text,
)

LONGEST_JOB_ID = 255  # characters, as the audit trail keeps them

JobId = (
    Annotated[str, Meta(min_length=1, max_length=LONGEST_JOB_ID, pattern=NO_NUL)]
    | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
)
Note = Annotated[str, Meta(max_length=LONGEST_NAME, pattern=NO_NUL)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, Meta(gt=0, le=1e10)]


class ForecastOverride(Struct, kw_only=True, forbid_unknown_fields=True):
    """The caller's own numbers, in place of the model's: one duration, or quantiles by name."""

    duration_s: Seconds | None = None
    quantiles_s: dict[str, Seconds] | None = None
    vram_mib: Number | None = None


class Submission(RequestFields, kw_only=True, forbid_unknown_fields=True):
    """A job for the queue.

    Without ``forecast`` the model that serves forecasts it on the way in. ``account`` is its team.
    """

    job_id: JobId
    pool: Text | None = None
    workload_class: Text | None = None
    deadline_at: Moment | None = None
    preemptible: bool | None = None
    checkpoint_kind: Literal["none", "application", "system"] | None = None
    checkpoint_interval_s: Number | None = None
    restart_cost_s: Number | None = None
    data_region: Text | None = None
    forecast: ForecastOverride | None = None


class SubmissionBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """Several jobs in one request, taken up at one moment."""

    jobs: list[Submission]


class JobOutcome(Struct, kw_only=True, forbid_unknown_fields=True):
    """What happened to a job: it began, saved ``saved_s`` seconds of its work (default: all), or ended."""

    event: Literal["started", "progress", "finished"]
    at: Moment | None = None
    state: Text | None = None
    saved_s: Number | None = None
    progress_ratio: Probability | None = None
    throughput_per_s: Number | None = None
    peak_vram_mib: Number | None = None
    peak_host_memory_mib: Number | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**32)] | None = None


class ClassChange(Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a waiting job."""

    workload_class: Text | None = None
    deadline_at: Moment | None = None


class NodeState(Struct, kw_only=True, forbid_unknown_fields=True):
    """A node, or a pool without nodes, and what it offers from now on."""

    pool: Text
    node: Annotated[int, Meta(ge=0)] | None = None
    capacity: Annotated[int, Meta(ge=0, le=10_000_000)] | None = None
    state: Literal["up", "drain", "down"] = "up"


class NodeChanges(Struct, kw_only=True, forbid_unknown_fields=True):
    """Changes of nodes that happen at one moment."""

    nodes: Annotated[list[NodeState], Meta(min_length=1, max_length=10_000)]


class PolicyUpdate(Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole policy, or the keys of it that change (a JSON merge patch, RFC 7396)."""

    policy: dict[str, object] | None = None
    patch: dict[str, object] | None = None
    note: Note = ""


class WhatIf(Struct, kw_only=True, forbid_unknown_fields=True):
    """A change to try without making it: jobs, a policy, nodes, or several of these together."""

    jobs: list[Submission] = []
    patch: dict[str, object] | None = None
    nodes: list[NodeState] = []
    job_id: Identifier | None = None
    change: ClassChange | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class ReasonView(Struct, kw_only=True, frozen=True):
    """Why something is as it is: a stable code, the numbers, and a sentence."""

    code: str
    sentence: str
    numbers: dict[str, float | None] = {}


class DecisionView(Struct, kw_only=True, frozen=True):
    """One decision of the scheduler."""

    kind: str
    job_id: str
    at_s: float
    reason: ReasonView | None = None
    details: dict[str, object] = {}


class JobReceipt(Struct, kw_only=True, frozen=True):
    """Proof that a change is on disk, as event ``sequence`` of the log, and what it led to."""

    status: Literal[200] = 200
    job_id: str
    sequence: int
    state: str
    decisions: list[DecisionView] = []


class ForecastView(Struct, kw_only=True, frozen=True):
    """The forecast that the queue plans with; ``source`` is model or caller."""

    source: str
    quantiles_s: dict[str, float]
    model: ModelIdentity | None = None


class SubmissionReceipt(Struct, kw_only=True, frozen=True):
    """Proof that a job is on disk, with its forecast and its place."""

    status: Literal[200] = 200
    job_id: str
    sequence: int
    state: str
    forecast: ForecastView | None = None
    decisions: list[DecisionView] = []
    reason: ReasonView | None = None


SubmissionItem = SubmissionReceipt | FailedItem


class SubmissionReceipts(Struct, kw_only=True, frozen=True):
    """Receipts in the order of the jobs; ``failed`` counts the items whose status is not 200."""

    jobs: list[SubmissionItem]
    failed: int


class ChangeReceipt(Struct, kw_only=True, frozen=True):
    """Proof that a change is on disk, and what it led to."""

    sequence: int
    decisions: list[DecisionView] = []


class SnapshotDocument(Struct, kw_only=True, forbid_unknown_fields=True):
    """The whole state of the queue after event ``sequence``; ``form`` names the encoding of ``state``."""

    form: str
    sequence: int
    at_s: float
    state: dict[str, object]

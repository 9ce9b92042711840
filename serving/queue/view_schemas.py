"""This module defines the answers that show the queue; times are UTC epoch seconds, spans seconds."""

from msgspec import Struct

from serving.queue.schemas import DecisionView, ReasonView

Numbers = dict[str, float | None]


class PromiseView(Struct, kw_only=True, frozen=True):
    """A promised start: planned, and the latest that is promised with the policy's confidence."""

    start_s: float
    latest_s: float


class EtaView(Struct, kw_only=True, frozen=True):
    """When the job starts, as median and q90; null = not within the horizon."""

    q50_s: float | None
    q90_s: float | None


class QueueItem(Struct, kw_only=True, frozen=True):
    """A waiting job."""

    position: int
    job_id: str
    user: str
    team: str
    workload_class: str
    pool: str
    gpu_type: str
    width: int
    submitted_s: float
    waited_s: float
    limit_s: float | None
    score: float | None
    factors: Numbers
    forecast: Numbers
    reason: ReasonView
    promise: PromiseView | None
    eta: EtaView | None


class QueuePage(Struct, kw_only=True, frozen=True):
    """A page of the queue in its order; ``next_cursor`` is null on the last one."""

    sequence: int
    at_s: float
    total: int
    items: list[QueueItem]
    next_cursor: str | None


class RunningItem(Struct, kw_only=True, frozen=True):
    """A running job; ``nodes`` are pairs of node index and units."""

    job_id: str
    user: str
    team: str
    workload_class: str
    pool: str
    width: int
    nodes: list[list[int]]
    started_s: float
    elapsed_s: float
    remaining: Numbers
    preemptible: bool


class RunningPage(Struct, kw_only=True, frozen=True):
    """A page of the running jobs."""

    sequence: int
    at_s: float
    total: int
    items: list[RunningItem]
    next_cursor: str | None


class ReservationItem(Struct, kw_only=True, frozen=True):
    """A promised start."""

    job_id: str
    pool: str
    width: int
    start_s: float
    latest_s: float


class Reservations(Struct, kw_only=True, frozen=True):
    """All promised starts."""

    sequence: int
    at_s: float
    items: list[ReservationItem]


class NodeView(Struct, kw_only=True, frozen=True):
    """A node: what it offers now of ``full`` units; nodes of one ``island`` are joined by NVLink.

    A drained node offers nothing while its last jobs still use some.
    """

    index: int
    island: int
    full: int
    total: int
    free: int
    used: int


class ProfileStep(Struct, kw_only=True, frozen=True):
    """Free units at a later time: with even odds, and with nine in ten."""

    at_s: float
    free_q50: int
    free_q10: int


class PoolView(Struct, kw_only=True, frozen=True):
    """A pool, now and later; ``down`` units are out of service."""

    pool: str
    gpu_type: str
    total: int
    free: int
    used: int
    down: int
    nodes: list[NodeView]
    profile: list[ProfileStep]


class CapacityView(Struct, kw_only=True, frozen=True):
    """All pools."""

    sequence: int
    at_s: float
    pools: list[PoolView]


class TeamItem(Struct, kw_only=True, frozen=True):
    """A team: its decayed usage relative to its share, and its quota (null = none)."""

    team: str
    usage_ratio: float
    running: int
    waiting: int
    quota: int | None


class TeamsView(Struct, kw_only=True, frozen=True):
    """All teams that are known."""

    sequence: int
    at_s: float
    teams: list[TeamItem]


class ExplanationView(Struct, kw_only=True, frozen=True):
    """Why a job is where it is; ``position`` is null for one that runs."""

    job_id: str
    at_s: float
    state: str
    position: int | None
    workload_class: str
    factors: Numbers
    reason: ReasonView | None
    promise: PromiseView | None
    eta: Numbers
    forecast: Numbers
    would_change: list[str]
    siblings: str = ""


class EditableField(Struct, kw_only=True, frozen=True):
    """A number of the policy that people turn: its dotted path, label, value and bounds."""

    path: str
    label: str
    value: float
    minimum: float | None
    maximum: float | None


class PolicyView(Struct, kw_only=True, frozen=True):
    """The policy in force; ``version`` is its entity tag."""

    version: int
    policy: dict[str, object]
    classes: list[str]
    editable: list[EditableField]


class PolicyHistoryItem(Struct, kw_only=True, frozen=True):
    """A version of the policy: who put it in force, when, why, and each key as [before, after]."""

    version: int
    moment_s: float
    actor: str
    actor_name: str
    note: str
    changed: dict[str, object]
    policy: dict[str, object]


class PolicyHistory(Struct, kw_only=True, frozen=True):
    """The latest versions, newest first; the first policy of a service comes from its file, not from here."""

    items: list[PolicyHistoryItem]


class PolicyReceipt(Struct, kw_only=True, frozen=True):
    """Proof that a policy is in force."""

    version: int
    sequence: int
    decisions: list[DecisionView]


class Move(Struct, kw_only=True, frozen=True):
    """A job's place before and after; null = not among the first, or started."""

    job_id: str
    before: int | None
    after: int | None


class WhatIfView(Struct, kw_only=True, frozen=True):
    """What a change would do: decisions at once, and places of the first jobs."""

    at_s: float
    decisions: list[DecisionView]
    moved: list[Move]
    queue: list[QueueItem]


class AlertView(Struct, kw_only=True, frozen=True):
    """Something that a person should know of."""

    key: str
    code: str
    severity: str
    subject: str
    sentence: str
    fix: str
    numbers: Numbers
    retrain: bool
    since_s: float


class AlertsView(Struct, kw_only=True, frozen=True):
    """What stands, critical first."""

    at_s: float
    alerts: list[AlertView]


class AuditItem(Struct, kw_only=True, frozen=True):
    """Who changed what."""

    moment_s: float
    actor: str
    action: str
    target: str
    detail: dict[str, object]
    request_id: str


class AuditPage(Struct, kw_only=True, frozen=True):
    """The latest changes, newest first."""

    items: list[AuditItem]

"""This module defines what views of the queue consist of; times are UTC seconds, spans seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from predictor.contracts.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A waiting job; ``factors`` are contributions to its key in seconds, smaller first."""

    job_id: str
    user: str
    team: str
    workload_class: str
    pool: str
    gpu_type: str
    width: int
    submitted_s: float
    limit_s: float
    score: float
    factors: Mapping[str, float]
    forecast: Mapping[str, float]
    reason: Reason
    promise: tuple[float, float] | None
    requeues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """A part of the queue in its order; ``total`` jobs wait, after filters."""

    total: int
    rows: tuple[QueueRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What a job has had so far, UTC seconds and seconds.

    Attributes:
        started_s: of the current attempt, nan = it waits.
        resumed_s: work of earlier attempts that the current one resumes.
        is_first: whether it has never run before.
    """

    submitted_s: float
    started_s: float
    resumed_s: float
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """A running job; ``nodes`` are (node index, units), ``remaining`` seconds by quantile."""

    job_id: str
    user: str
    team: str
    workload_class: str
    pool: str
    width: int
    nodes: tuple[tuple[int, int], ...]
    started_s: float
    remaining: Mapping[str, float]
    preemptible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPage:
    """A part of the running jobs, the longest running first."""

    total: int
    rows: tuple[RunningRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseRow:
    """A promised start, UTC seconds."""

    job_id: str
    pool: str
    width: int
    start_s: float
    latest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node; ``full`` units when nothing is out of service."""

    index: int
    total: int
    free: int
    full: int
    islands: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """A pool; ``profile`` holds (instant, units free with even odds, units free in nine of ten cases)."""

    pool: str
    gpu_type: str
    total: int
    free: int
    down: int
    full_total: int
    scarce: bool
    nodes: tuple[NodeRow, ...]
    profile: tuple[tuple[float, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRow:
    """A team: usage over what is due to it (1 = exactly), units held, jobs waiting, units owned."""

    team: str
    usage_ratio: float
    used: int
    waiting: int
    quota: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is where it is; ``position`` is None for one that runs."""

    job_id: str
    state: str
    position: int | None
    workload_class: str
    factors: Mapping[str, float]
    reason: Reason | None
    promise: tuple[float, float] | None
    eta: Mapping[str, float] = field(default_factory=dict)
    forecast: Mapping[str, float] = field(default_factory=dict)
    would_change: tuple[str, ...] = ()
    siblings: str = ""  # what its forecast has learnt from them since it was made

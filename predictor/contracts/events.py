"""This module names what can happen to the queue, as events that the Coordinator takes in.

Every event carries its instant ``now_s`` (UTC seconds): the Coordinator owns no clock. Events hold only
plain values, so that a log of them can be written, read and replayed (see ``event_codec``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

CHECKPOINT_KINDS = ("none", "application", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """A job asks for a place in the queue.

    Attributes:
        width: how many units (GPUs or processors) it holds at once, all or nothing.
        limit_s: enforced limit of its run time, ``inf`` = none.
        quantiles_s: forecast duration at ``contracts.forecast.LEVELS``, None = no forecast.
        estimate_s: the caller's own number for the duration; None = none. Policies that plan with a point
            use it, and it replaces the forecast where there is none.
        workload_class: name of a class of the policy, "" = the policy's default class.
        pool: the only pool it may use, "" = any.
        gpu_type: the only device type it may use, "" = any.
        nodes: over how many nodes its units are spread evenly, 0 = as few as possible.
        island: it must lie inside one NVLink island.
        vram_mib: device memory that it needs on each GPU (an upper bound), 0 = unknown.
        region: where its data must stay, "" = anywhere.
        preemptible: the caller's word on being evicted; None = as the class says.
        checkpoint: what survives an eviction: ``none``, ``application`` (the last one, every
            ``checkpoint_interval_s``) or ``system`` (all of it).
        restart_cost_s: seconds lost at each restart, beside the work that is repeated.
    """

    now_s: float
    job_id: str
    width: int
    limit_s: float = float("inf")
    quantiles_s: tuple[float, ...] | None = None
    estimate_s: float | None = None
    user: str = ""
    team: str = ""
    workload_class: str = ""
    pool: str = ""
    gpu_type: str = ""
    nodes: int = 0
    island: bool = False
    vram_mib: int = 0
    region: str = ""
    deadline_s: float | None = None
    preemptible: bool | None = None
    checkpoint: str = "none"
    checkpoint_interval_s: float = 0.0
    restart_cost_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """A job really runs since ``now_s``: confirms our decision, or tells of one made elsewhere.

    Attributes:
        pool: where it runs; needed only when the Coordinator had not started it itself.
    """

    now_s: float
    job_id: str
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgressed:
    """A running job has saved its state.

    Attributes:
        saved_s: seconds of work that would survive an eviction now, None = all that it has done.
    """

    now_s: float
    job_id: str
    saved_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished:
    """A running job has ended, whatever its outcome; its units are free."""

    now_s: float
    job_id: str
    outcome: str = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeued:
    """A running job was interrupted from outside (a node failed) and waits again.

    Attributes:
        saved_s: seconds of work that survive, None = what its checkpoints have saved.
    """

    now_s: float
    job_id: str
    saved_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled:
    """A waiting or running job is withdrawn by its owner."""

    now_s: float
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged:
    """A waiting job's class or deadline is edited; None = unchanged."""

    now_s: float
    job_id: str
    workload_class: str | None = None
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastUpdated:
    """A new forecast of a job's whole duration, waiting or running."""

    now_s: float
    job_id: str
    quantiles_s: tuple[float, ...] | None = None
    estimate_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChanged:
    """The capacity of a pool changes; what runs goes on running.

    Attributes:
        total: units of a pool that is only counted, None = unchanged.
        node_units: units per node index of a pool with nodes, 0 = drained or lost; others unchanged.
    """

    now_s: float
    pool: str
    total: int | None = None
    node_units: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """Another policy holds from now on, for waiting jobs; nothing that runs is touched.

    Attributes:
        policy: the policy as a document, see ``scheduling.policy``.
    """

    now_s: float
    policy: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed; sent when the Coordinator asked to be woken."""

    now_s: float


Event: TypeAlias = (
    JobSubmitted
    | JobStarted
    | JobProgressed
    | JobFinished
    | JobRequeued
    | JobCancelled
    | JobChanged
    | ForecastUpdated
    | NodesChanged
    | PolicyChanged
    | Tick
)

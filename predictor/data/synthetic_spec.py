"""This module says what a synthetic workload looks like: its size, its habits, its censoring, its seed."""

import math
from dataclasses import dataclass

from predictor.errors import ArgumentError

MONDAY_2026_01_05_TS = 1_767_571_200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """One GPU type of the synthetic cluster.

    Attributes:
        name: as the site names it, lower case.
        weight: relative number of job templates that prefer it, > 0.
        speed: work per second relative to the reference type; durations are divided by it, > 0.
        memory_mib: memory of one GPU, > 0.
    """

    name: str
    weight: float
    speed: float
    memory_mib: float


DEFAULT_GPU_TYPES = (
    GpuType(name="a100", weight=0.45, speed=1.0, memory_mib=81_920.0),
    GpuType(name="h100", weight=0.30, speed=1.9, memory_mib=81_559.0),
    GpuType(name="v100", weight=0.25, speed=0.55, memory_mib=32_768.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    """Everything that decides a synthetic log; two equal specs give two equal logs.

    Attributes:
        jobs: number of jobs, >= 1. The log has more rows than jobs where attempts are requeued.
        days: length of the log in days, > 0.
        users: number of users, >= 1.
        start_ts: UTC epoch seconds of the begin of the log, a whole number.
        gpu_types: GPU types with the weight, speed and memory of each; names are unique.
        gpu_job_share: share of job templates that ask for GPUs, in [0, 1].
        templates_per_user: mean number of job templates of one user, >= 1.
        newcomer_share: share of users who arrive after the begin of the log, in [0, 1].
        array_share: share of submissions that are job arrays, in [0, 1].
        burst_share: share of submissions that are a burst of similar jobs, in [0, 1];
            ``array_share + burst_share <= 1``.
        drift_strength: standard deviation of the weekly step of each template's log location, >= 0.
        failure_rate: mean probability that a job fails within minutes, in [0, 0.5]; a third of it
            fails later, at the duration it would have had.
        out_of_memory_rate: mean probability of an out-of-memory end, in [0, 0.5].
        tail_weight: weight of the Pareto tail among jobs that do their work, in [0, 1).
        censoring: off = every duration is seen in full: limits are not enforced, nothing is
            cancelled, evicted or hit by a node failure, and the log has no cut.
        cancel_running_ratio: hazard of cancelling a running job, times its typical duration, >= 0.
        cancel_pending_rate: probability that a job that waits is cancelled in the queue, in [0, 1].
        preemption_hazard_per_h: hazard of eviction of a preemptible job, 1/h, >= 0.
        node_failure_hazard_per_node_h: hazard of a node failure, 1/h for each node of the job, >= 0.
        unlimited_share: share of templates that ask for no walltime, in [0, 1].
        requeue: evicted attempts enter the queue again as one further attempt.
        mean_wait_s: scale of the time in queue of a one-GPU job, seconds, >= 0.
        cluster: name of the cluster.
        random_state: seed of the one generator that all randomness comes from, >= 0.

    Raises:
        ArgumentError: names every parameter that is outside of its range, all at once.
    """

    jobs: int = 20_000
    days: float = 60.0
    users: int = 60
    start_ts: float = MONDAY_2026_01_05_TS
    gpu_types: tuple[GpuType, ...] = DEFAULT_GPU_TYPES
    gpu_job_share: float = 0.7
    templates_per_user: float = 4.0
    newcomer_share: float = 0.4
    array_share: float = 0.04
    burst_share: float = 0.2
    drift_strength: float = 0.1
    failure_rate: float = 0.1
    out_of_memory_rate: float = 0.02
    tail_weight: float = 0.05
    censoring: bool = True
    cancel_running_ratio: float = 0.06
    cancel_pending_rate: float = 0.04
    preemption_hazard_per_h: float = 0.03
    node_failure_hazard_per_node_h: float = 0.001
    unlimited_share: float = 0.03
    requeue: bool = True
    mean_wait_s: float = 1200.0
    cluster: str = "synthetic"
    random_state: int = 0

    def __post_init__(self) -> None:
        faults = self._faults()
        if faults:
            raise ArgumentError("the workload cannot be generated", faults=faults)

    @property
    def span_s(self) -> float:
        """Length of the log in whole seconds."""
        return float(math.ceil(self.days * 86_400.0))

    @property
    def end_ts(self) -> float:
        """UTC epoch seconds at which the log is cut."""
        return self.start_ts + self.span_s

    def _faults(self) -> list[str]:
        at_least = {
            "jobs": (self.jobs, 1), "users": (self.users, 1), "random_state": (self.random_state, 0),
            "templates_per_user": (self.templates_per_user, 1), "drift_strength": (self.drift_strength, 0),
            "cancel_running_ratio": (self.cancel_running_ratio, 0), "mean_wait_s": (self.mean_wait_s, 0),
            "preemption_hazard_per_h": (self.preemption_hazard_per_h, 0),
            "node_failure_hazard_per_node_h": (self.node_failure_hazard_per_node_h, 0),
        }  # fmt: skip
        at_most = {
            "gpu_job_share": (self.gpu_job_share, 1.0), "newcomer_share": (self.newcomer_share, 1.0),
            "array_share": (self.array_share, 1.0), "burst_share": (self.burst_share, 1.0),
            "failure_rate": (self.failure_rate, 0.5), "out_of_memory_rate": (self.out_of_memory_rate, 0.5),
            "tail_weight": (self.tail_weight, 0.999), "unlimited_share": (self.unlimited_share, 1.0),
            "cancel_pending_rate": (self.cancel_pending_rate, 1.0),
        }  # fmt: skip
        faults = [
            f"{name}={value} is too small; pass a finite number of at least {low}"
            for name, (value, low) in at_least.items()
            if not (value >= low and math.isfinite(value))
        ]
        faults += [
            f"{name}={value} is outside of [0, {high}]"
            for name, (value, high) in at_most.items()
            if not 0.0 <= value <= high
        ]
        if not 0.0 < self.days <= 36_500.0:
            faults.append(f"days={self.days} is outside of (0, 36500]")
        if not float(self.start_ts).is_integer():
            faults.append(f"start_ts={self.start_ts} is not a whole second")
        if self.array_share + self.burst_share > 1.0:
            faults.append("array_share and burst_share sum to more than 1")
        names = [kind.name for kind in self.gpu_types]
        if not names or len(set(names)) != len(names):
            faults.append(f"gpu_types={names} must name at least one type, each once")
        faults += [
            f"gpu type '{kind.name}': weight, speed and memory_mib must be above zero"
            for kind in self.gpu_types
            if not all(0.0 < value < math.inf for value in (kind.weight, kind.speed, kind.memory_mib))
        ]
        return faults

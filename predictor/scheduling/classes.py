"""This module defines workload classes: what a site says once about every job of a kind.

Importance, permission to evict and being evictable stay separate: a class may come first in the queue
without the right to evict anybody, and may be evictable without coming last.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadClass:
    """One class of jobs.

    Attributes:
        tier: classes of a lower tier always come first, whatever their jobs' size.
        weight: divides the size that the order looks at; 2 = half as long counts as equal.
        may_preempt: its jobs may evict others.
        preemptible: its jobs may be evicted, where the job itself does not say otherwise.
        eviction_rank: classes of a higher rank are evicted first; nobody evicts its own rank or a lower one.
        outcome: what happens to an evicted job: ``requeue``, ``suspend`` or ``cancel``.
        pools: the only pools that it may use, () = all that admit it.
    """

    name: str
    tier: int = 1
    weight: float = 1.0
    may_preempt: bool = False
    preemptible: bool = False
    eviction_rank: int = 1
    outcome: str = "requeue"
    pools: tuple[str, ...] = ()

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        where = f"class {self.name!r}"
        faults = []
        if not self.name:
            faults.append("a class has no name")
        if not self.weight > 0:
            faults.append(f"{where}: weight={self.weight} must be above 0")
        if not 0 <= self.tier <= 1000:
            faults.append(f"{where}: tier={self.tier} must lie between 0 and 1000")
        if self.outcome not in OUTCOMES:
            faults.append(f"{where}: outcome={self.outcome!r} is not one of {', '.join(OUTCOMES)}")
        return faults


OUTCOMES = ("requeue", "suspend", "cancel")

DEFAULT_CLASSES: tuple[WorkloadClass, ...] = (
    WorkloadClass(name="emergency", tier=0, may_preempt=True, eviction_rank=0),
    WorkloadClass(name="production", weight=2.0, eviction_rank=1),
    WorkloadClass(name="experiment", preemptible=True, eviction_rank=2),
    WorkloadClass(name="background", tier=2, preemptible=True, eviction_rank=3),
)

"""This module holds all that the Coordinator knows: jobs, capacity, teams, demand, evictions; copyable."""

from collections.abc import Sequence

from predictor.contracts.events import JobSubmitted
from predictor.scheduling import columns as c
from predictor.scheduling.calibration import PromiseCalibration
from predictor.scheduling.capacity import Capacity, Pool
from predictor.scheduling.headroom import UrgentDemand
from predictor.scheduling.policy import Policy
from predictor.scheduling.siblings import leave_siblings
from predictor.scheduling.store import JobStore
from predictor.scheduling.teams import Teams


class SchedulingState:
    """Everything that decisions depend on, beside the policy.

    Attributes:
        now_s: instant of the latest event.
        specs: by slot, the submission as it was given, None where the slot is unused.
        evictions_s: instants of the evictions of the last hour.
        leaving: slots of evicted jobs that still write a final checkpoint -> who takes their units.
        evictors: by slot, ids of the jobs that have evicted a job, which it may not evict in turn.
    """

    def __init__(self, policy: Policy, pools: Sequence[Pool]) -> None:
        self.now_s = -float("inf")
        self.store = JobStore()
        self.capacity = Capacity(pools)
        self.teams = Teams(self.capacity.pools, policy.quotas, policy.fair_share)
        self.demand = UrgentDemand(len(self.capacity.pools), policy.headroom.weeks)
        self.promises = PromiseCalibration()
        self.specs: list[JobSubmitted | None] = []
        self.evictions_s: list[float] = []
        self.leaving: dict[int, str] = {}
        self.evictors: dict[int, set[str]] = {}

    def add(self, job: JobSubmitted) -> int:
        """Return the slot of a new job."""
        slot = self.store.add(job.job_id)
        if slot == len(self.specs):
            self.specs.append(job)
        else:
            self.specs[slot] = job
        return slot

    def forget(self, slot: int) -> None:
        """Forget a job that neither waits nor runs."""
        job = self.specs[slot]
        assert job is not None  # noqa: S101 - the slot of a live job
        leave_siblings(self.store, slot, job)
        self.store.remove(slot)
        self.specs[slot] = None
        self.evictors.pop(slot, None)

    def release(self, slot: int) -> None:
        """Give the units of a running job back."""
        ints = self.store.ints
        pool, width = int(ints[c.POOL, slot]), int(ints[c.WIDTH, slot])
        self.capacity.release(pool, width, int(ints[c.NODE_LIST, slot]))
        self.teams.hold(int(ints[c.TEAM, slot]), pool, -width)
        self.store.remove_running(slot)
        self.leaving.pop(slot, None)

    def copy(self) -> "SchedulingState":
        """Return an independent copy."""
        other = SchedulingState.__new__(SchedulingState)
        other.now_s = self.now_s
        other.store, other.capacity = self.store.copy(), self.capacity.copy()
        other.teams, other.demand = self.teams.copy(), self.demand.copy()
        other.promises = self.promises.copy()
        other.specs, other.evictions_s = list(self.specs), list(self.evictions_s)
        other.leaving = dict(self.leaving)
        other.evictors = {slot: set(ids) for slot, ids in self.evictors.items()}
        return other

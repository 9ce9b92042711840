"""This module decides who may evict, who may be evicted, and whose eviction costs least.

Evictions cannot go round for ever. By class, a job evicts only jobs of a higher eviction rank, and ranks are
a strict order; a job that claims its team's own quota back evicts only what others borrowed, never who may
evict it in turn. By order, a victim must hold its units ``advantage`` times longer than the job that takes
them, and hold no quota of its team's own. A changed class or forecast may still turn two jobs around, so no
job is evicted more often than ``most_evictions``, nor within ``least_runtime_s`` of its start; each eviction
is followed by a growing back-off, and all evictions together are bounded per hour.
"""

from dataclasses import dataclass

import numpy as np

from predictor.contracts.reasons import ReasonCode
from predictor.scheduling import checkpoint
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Capacity
from predictor.scheduling.classes import WorkloadClass
from predictor.scheduling.expected import still_to_run_s
from predictor.scheduling.gittins import gittins_ranks_s
from predictor.scheduling.order import Order
from predictor.scheduling.priority import service_level
from predictor.scheduling.store import FloatArray, IntArray, JobStore
from predictor.scheduling.teams import Teams
from predictor.scheduling.victims import cheapest_victims, first_victims

MODES = ("none", "class", "order")
VICTIMS = ("cheapest", "youngest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Rules of eviction.

    Attributes:
        mode: ``none``; ``class``: by right of class and quota; ``order``: also whoever comes before a running
            job by far, where interruptions are cheap.
        victim: ``cheapest`` (lost work and restart) or ``youngest`` (a common default
            elsewhere).
        least_runtime_s: an attempt is left alone so long.
        grace_s: time for a final checkpoint, for jobs that write their own.
        most_evictions: of one job.
        backoff_s: an evicted job waits so long at least, twice as long each further time.
        per_hour: evictions of all jobs within an hour.
        ending_soon_s: who is expected to end within this time is left alone.
        advantage: order mode: expected remaining time of a victim must exceed so many times that of the job
            that takes its units, the cost of the eviction added.
        tries: for how many waiting jobs, in order, a pass looks for victims.
        period_s: order mode: how often running jobs are compared with waiting ones when nothing happens.
    """

    mode: str = "class"
    victim: str = "cheapest"
    least_runtime_s: float = 300.0
    grace_s: float = 30.0
    most_evictions: int = 3
    backoff_s: float = 60.0
    per_hour: int = 120
    ending_soon_s: float = 60.0
    advantage: float = 2.0
    tries: int = 16
    period_s: float = 300.0

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = []
        if self.mode not in MODES:
            faults.append(f"preemption.mode={self.mode!r} is not one of {', '.join(MODES)}")
        if self.victim not in VICTIMS:
            faults.append(f"preemption.victim={self.victim!r} is not one of {', '.join(VICTIMS)}")
        spans = ("least_runtime_s", "grace_s", "most_evictions", "backoff_s", "per_hour", "ending_soon_s")
        faults += [
            f"preemption.{name}={getattr(self, name)} must be 0 or more"
            for name in spans
            if getattr(self, name) < 0
        ]
        if not self.advantage >= 1:
            faults.append(f"preemption.advantage={self.advantage} must be 1 or more, or jobs evict in turn")
        if not self.period_s > 0:
            faults.append(f"preemption.period_s={self.period_s} must be above 0")
        return faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """Running jobs to evict for one waiting job, and where it then starts.

    Attributes:
        slots: shape (v,). lost_s: shape (v,), what each loses, restart included. remaining_s: shape (v,).
    """

    slots: IntArray
    lost_s: FloatArray
    remaining_s: FloatArray
    pool: int
    code: ReasonCode


def choose_victims(
    store: JobStore,
    capacity: Capacity,
    teams: Teams,
    classes: tuple[WorkloadClass, ...],
    rules: Preemption,
    slot: int,
    now_s: float,
    order: Order,
    numbers: FloatArray,
) -> Victims | None:
    """Return the cheapest victims that make room for a waiting job, None = there are none.

    Pools are tried in order of preference; gangs get room on nodes where they really can start.
    """
    width = int(store.ints[c.WIDTH, slot])
    for pool in range(len(capacity.pools)):
        if not store.ints[c.POOLS, slot] >> pool & 1:
            continue
        running = store.running_slots
        here = running[store.ints[c.POOL, running] == pool]
        if not len(here) or not _within_most(teams, int(store.ints[c.TEAM, slot]), pool, width):
            continue
        lost_s = checkpoint.lost_work_s(store, here, now_s)
        remaining_s = np.maximum(store.floats[c.PLAN_END, here] - now_s, 1.0)
        allowed, code = _permission(
            store, teams, classes, rules, slot, pool, here, lost_s, remaining_s, now_s, order, numbers
        )
        if not allowed.any():
            continue
        here, lost_s, remaining_s = here[allowed], lost_s[allowed], remaining_s[allowed]
        if rules.victim == "youngest":
            latest = np.lexsort((-store.ints[c.SEQUENCE, here], -store.floats[c.START, here]))
            found = first_victims(store, capacity, slot, pool, here[latest])
            chosen = None if found is None else latest[found]
        else:
            costs = _costs(store, classes, here, lost_s)
            chosen = cheapest_victims(store, capacity, slot, pool, here, costs)
        if chosen is not None:
            return Victims(
                slots=here[chosen],
                lost_s=lost_s[chosen],
                remaining_s=remaining_s[chosen],
                pool=pool,
                code=code,
            )
    return None


def _within_most(teams: Teams, team: int, pool: int, width: int) -> bool:
    while team >= 0:
        if teams.used[team, pool] + width > teams.most[team, pool]:
            return False
        team = int(teams.parents[team])
    return True


def _permission(
    store: JobStore,
    teams: Teams,
    classes: tuple[WorkloadClass, ...],
    rules: Preemption,
    slot: int,
    pool: int,
    here: IntArray,
    lost_s: FloatArray,
    remaining_s: FloatArray,
    now_s: float,
    order: Order,
    numbers: FloatArray,
) -> tuple[np.ndarray, ReasonCode]:
    """Return which running jobs this waiting job may evict, and by which right."""
    floats, ints = store.floats, store.ints
    evictable = (
        (ints[c.PREEMPTIBLE, here] == 1)
        & (ints[c.STATE, here] == c.RUNNING)
        & (now_s - floats[c.START, here] >= rules.least_runtime_s)
        & (ints[c.EVICTIONS, here] < rules.most_evictions)
        & (remaining_s > rules.ending_soon_s)
    )
    kind = classes[ints[c.CLASS, slot]]
    their_ranks = np.array([each.eviction_rank for each in classes])[ints[c.CLASS, here]]
    if kind.may_preempt:
        return evictable & (their_ranks > kind.eviction_rank), ReasonCode.CHEAPEST_VICTIM
    team, their_teams = int(ints[c.TEAM, slot]), ints[c.TEAM, here].tolist()
    if teams.within_own(team, pool, int(ints[c.WIDTH, slot])):
        borrowed = np.array([teams.borrowed(each, pool) > 0 for each in their_teams], dtype=bool)
        with_right = np.array([each.may_preempt for each in classes])[ints[c.CLASS, here]]
        stronger = with_right & (their_ranks < kind.eviction_rank)
        return evictable & borrowed & ~stronger, ReasonCode.RECLAIMED
    if rules.mode == "order":
        # who may reclaim its units is no victim of those that would borrow them
        own = np.array([each != team and teams.within_own(each, pool, 0) for each in their_teams], dtype=bool)
        not_above = (their_ranks >= kind.eviction_rank) & ~own
        if order.by == "attained":
            served = checkpoint.work_done_s(store, here, now_s) * _width_factor(store, here, order)
            level = service_level(float(floats[c.SIZE, slot]), order.attained_step)
            later = np.floor(np.log2(1.0 + served / order.attained_step)) > level
        elif order.by == "gittins":
            done_s = checkpoint.work_done_s(store, here, now_s)
            ranks_s = gittins_ranks_s(store.log_quantiles[here], floats[c.LIMIT, here], done_s)
            ranks_s = ranks_s * _width_factor(store, here, order)
            later = ranks_s > float(floats[c.SIZE, slot]) * rules.advantage + lost_s
        else:
            # by the same part of its forecast as the job that waits: else two jobs evict each other in turn
            left_s = still_to_run_s(floats, ints, store.log_quantiles, here, now_s, numbers)
            later = left_s > float(floats[c.PLAN, slot]) * rules.advantage + lost_s
        return evictable & not_above & later, ReasonCode.OUTRANKED
    return np.zeros(len(here), dtype=bool), ReasonCode.OUTRANKED


def _width_factor(store: JobStore, slots: IntArray, order: Order) -> FloatArray:
    return np.asarray(store.ints[c.WIDTH, slots].astype(np.float64) ** order.width_exponent)


def _costs(
    store: JobStore,
    classes: tuple[WorkloadClass, ...],
    here: IntArray,
    lost_s: FloatArray,
) -> FloatArray:
    """Return what each eviction costs, unit-seconds; a unit of a lower rank outweighs all others."""
    widths = store.ints[c.WIDTH, here]
    costs = widths * (lost_s + 1.0)
    ranks = np.array([each.eviction_rank for each in classes])[store.ints[c.CLASS, here]]
    steps = np.unique(ranks)[::-1]  # evicted first, then next
    return np.asarray(costs + widths * costs.sum() * np.searchsorted(-steps, -ranks))

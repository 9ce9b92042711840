"""This module decides who may evict, who may be evicted, and whose eviction costs least.

Evictions cannot go round for ever. By class, a job evicts only jobs of a higher eviction rank, and ranks are
a strict order; a job that claims its team's own quota back evicts only what others borrowed, never who may
evict it in turn. By order, a victim must hold its units ``advantage`` times longer than the job that takes
them, and hold no quota of its team's own. Progress, a changed class or a changed forecast may still turn two
jobs around, so no job evicts one that has evicted it (unless ``in_turn``). Nor is any evicted more often than
``most_evictions``, nor within ``least_runtime_s`` of its start; each eviction is followed by a growing
back-off, and all evictions together are bounded per hour.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from predictor.contracts.reasons import ReasonCode
from predictor.scheduling import checkpoint
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Capacity
from predictor.scheduling.classes import WorkloadClass
from predictor.scheduling.holders import Holders
from predictor.scheduling.order import Order
from predictor.scheduling.priority import service_level
from predictor.scheduling.quota import within_most
from predictor.scheduling.store import BoolArray, FloatArray, IntArray, JobStore
from predictor.scheduling.teams import Teams
from predictor.scheduling.victims import cheapest_victims, first_victims, has_room

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
        in_turn: whether a job may evict one that has evicted it before, as where time is shared in slices.
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
    in_turn: bool = False
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


def holders_of(
    store: JobStore,
    capacity: Capacity,
    teams: Teams,
    classes: tuple[WorkloadClass, ...],
    rules: Preemption,
    now_s: float,
    order: Order,
    numbers: FloatArray,
) -> list[Holders]:
    """Return for each pool, in order of preference, the running jobs that anybody may evict now."""
    running = store.running_slots
    floats, ints = store.floats, store.ints
    ranks = np.array([each.eviction_rank for each in classes])
    entitled = np.array([each.may_preempt for each in classes])
    remaining_s = np.maximum(floats[c.PLAN_END, running] - now_s, 1.0)
    evictable = (
        (ints[c.PREEMPTIBLE, running] == 1)
        & (ints[c.STATE, running] == c.RUNNING)
        & (now_s - floats[c.START, running] >= rules.least_runtime_s)
        & (ints[c.EVICTIONS, running] < rules.most_evictions)
        & (remaining_s > rules.ending_soon_s)
    )
    found = []
    for pool in range(len(capacity.pools)):
        at = evictable & (ints[c.POOL, running] == pool)
        slots = running[at]
        their_teams = ints[c.TEAM, slots].tolist()
        found.append(
            Holders(
                pool=pool,
                slots=slots,
                lost_s=checkpoint.lost_work_s(store, slots, now_s),
                remaining_s=remaining_s[at],
                ranks=ranks[ints[c.CLASS, slots]],
                entitled=entitled[ints[c.CLASS, slots]],
                borrows=np.array([teams.borrowed(team, pool) > 0 for team in their_teams], dtype=bool),
                owns=np.array([teams.within_own(team, pool, 0) for team in their_teams], dtype=bool),
                store=store,
                now_s=now_s,
                order=order,
                numbers=numbers,
            )
        )
    return found


def choose_victims(
    store: JobStore,
    capacity: Capacity,
    teams: Teams,
    classes: tuple[WorkloadClass, ...],
    rules: Preemption,
    slot: int,
    holders: list[Holders],
    barred: Collection[str] = (),
) -> Victims | None:
    """Return the cheapest victims that make room for a waiting job, None = there are none.

    Pools are tried in order of preference; gangs get room on nodes where they really can start.

    Args:
        barred: ids of jobs that it may not evict, whatever its rights.
    """
    width = int(store.ints[c.WIDTH, slot])
    for each in holders:
        pool = each.pool
        if not store.ints[c.POOLS, slot] >> pool & 1 or not len(each.slots):
            continue
        if not within_most(teams.used, teams.most, teams.parents, int(store.ints[c.TEAM, slot]), pool, width):
            continue
        allowed, code = _permission(teams, classes, rules, slot, each)
        if barred:
            allowed &= np.array([store.ids[each_slot] not in barred for each_slot in each.slots.tolist()])
        if int(each.widths[allowed].sum()) < width - int(capacity.free[pool]) or not allowed.any():
            continue
        if has_room(store, capacity, slot, pool):  # it waits for a promise to another, not for room
            continue
        here, lost_s = each.slots[allowed], each.lost_s[allowed]
        if rules.victim == "youngest":
            latest = np.lexsort((-store.ints[c.SEQUENCE, here], -store.floats[c.START, here]))
            found = first_victims(store, capacity, slot, pool, here[latest])
            chosen = None if found is None else latest[found]
        else:
            costs = _costs(each.widths[allowed], each.ranks[allowed], lost_s)
            chosen = cheapest_victims(store, capacity, slot, pool, here, costs)
        if chosen is not None:
            return Victims(
                slots=here[chosen],
                lost_s=lost_s[chosen],
                remaining_s=each.remaining_s[allowed][chosen],
                pool=pool,
                code=code,
            )
    return None


def _permission(
    teams: Teams,
    classes: tuple[WorkloadClass, ...],
    rules: Preemption,
    slot: int,
    holders: Holders,
) -> tuple[BoolArray, ReasonCode]:
    """Return which of the holders this waiting job may evict, and by which right."""
    store, pool = holders.store, holders.pool
    floats, ints = store.floats, store.ints
    kind = classes[ints[c.CLASS, slot]]
    if kind.may_preempt:
        return holders.ranks > kind.eviction_rank, ReasonCode.CHEAPEST_VICTIM
    team = int(ints[c.TEAM, slot])
    if teams.within_own(team, pool, int(ints[c.WIDTH, slot])):
        stronger = holders.entitled & (holders.ranks < kind.eviction_rank)
        return holders.borrows & ~stronger, ReasonCode.RECLAIMED
    if rules.mode != "order":
        return np.zeros(len(holders.slots), dtype=np.bool_), ReasonCode.OUTRANKED
    # who may reclaim its units is no victim of those that would borrow them
    own = holders.owns & (ints[c.TEAM, holders.slots] != team)
    not_above = (holders.ranks >= kind.eviction_rank) & ~own
    order = holders.order
    if order.by == "attained":
        later = holders.levels > service_level(float(floats[c.SIZE, slot]), order.attained_step)
    elif order.by == "gittins":
        later = holders.gittins_s > float(floats[c.SIZE, slot]) * rules.advantage + holders.lost_s
    else:
        # by the same part of its forecast as the job that waits: else two jobs evict each other in turn
        later = holders.left_s > float(floats[c.PLAN, slot]) * rules.advantage + holders.lost_s
    return not_above & later, ReasonCode.OUTRANKED


def _costs(widths: IntArray, ranks: IntArray, lost_s: FloatArray) -> FloatArray:
    """Return what each eviction costs, unit-seconds; a unit of a lower rank outweighs all others."""
    costs = widths * (lost_s + 1.0)
    steps = np.unique(ranks)[::-1]  # evicted first, then next
    return np.asarray(costs + widths * costs.sum() * np.searchsorted(-steps, -ranks))

"""This module orders waiting jobs: expected size first, made safe by ageing, guards, tiers and deadlines.

With linear ageing the key of a job is ``size - rate * wait``. A job i submitted after j precedes it only
if ``size_i + rate * submit_i < size_j + rate * submit_j``, so only jobs submitted within ``size_j / rate``
seconds after j can ever come before it: that bounds how often a job is overtaken, whatever arrives.
Beyond ``guard_s`` of waiting a job comes before all that wait less, oldest first.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling import parameters as p
from predictor.scheduling.quota import within_most
from predictor.scheduling.store import FloatArray, IntArray, JobStore

_LONGEST_S = 1e12  # infinity less infinity would be no key
_LEVEL_APART = 1e10  # seconds, more than any instant
_DEFERRED = 1 << 20  # more than any rank


@compiled
def service_level(served: float, step: float) -> float:
    """Return the level of attained service: levels double in width (Gu et al., Tiresias, 2019)."""
    return float(np.floor(np.log2(1.0 + served / step)))


@compiled
def aged_size(size: float, wait_s: float, ageing: float, rate: float, tau_s: float, power: float) -> float:
    """Return the key of a size that has waited so long, smaller first."""
    if ageing == p.LINEAR:
        return size - rate * wait_s
    if ageing == p.RATIO:
        aged = 1.0 + wait_s / tau_s
        if power == 1.0:  # a general power costs more, and a million jobs need it
            return float(size / aged)
        return float(size / aged**power)
    return size


@compiled
def guard_s(width: int, widest: float, backlog_s: float, parameters: FloatArray) -> float:
    """Return after how many seconds of waiting a job comes before all others.

    Args:
        width, widest: units of the job and of the widest pool.
        backlog_s: seconds that the cluster needed, at the job's submission, for all that was before it.
    """
    own_s, exponent = parameters[p.GUARD], parameters[p.GUARD_EXPONENT]
    if own_s == np.inf:
        return np.inf
    if exponent != 0.0:
        own_s = min(own_s / (width / widest) ** exponent, max(parameters[p.GUARD_MOST], own_s))
    if parameters[p.GUARD_BACKLOGS] < np.inf:
        own_s = min(own_s, parameters[p.GUARD_BACKLOGS] * backlog_s + parameters[p.GUARD_LEAST])
    return float(own_s)


@compiled
def rank_and_key(
    floats: FloatArray,
    ints: IntArray,
    queue: IntArray,
    n_queue: int,
    now_s: float,
    parameters: FloatArray,
    share: FloatArray,
    widest: float,
    ranks: IntArray,
    keys: FloatArray,
) -> bool:
    """Set rank (tier, and whether guarded) and key of waiting jobs; return whether ranks differ."""
    submits_s, sizes, plans_s = floats[c.SUBMIT], floats[c.SIZE], floats[c.PLAN]
    deadlines_s, backlogs_s, left = floats[c.DEADLINE], floats[c.BACKLOG], floats[c.KEY]
    tiers, teams, widths = ints[c.TIER], ints[c.TEAM], ints[c.WIDTH]
    by, ageing, rate = parameters[p.ORDER_BY], parameters[p.AGEING], parameters[p.AGEING_RATE]
    tau_s, power = parameters[p.AGEING_TAU], parameters[p.AGEING_POWER]
    weight, horizon_s = parameters[p.DEADLINE_WEIGHT], parameters[p.DEADLINE_HORIZON]
    step = parameters[p.ATTAINED_STEP]
    most_backlogs = parameters[p.GUARD_BACKLOGS]
    shortest_s = parameters[p.GUARD]  # no job is wider than the widest pool, so its width lengthens the guard
    if shortest_s < np.inf and most_backlogs < np.inf:
        shortest_s = min(shortest_s, parameters[p.GUARD_LEAST])
    differ = False
    for k in range(n_queue):
        slot = queue[k]
        wait_s = now_s - submits_s[slot]
        guarded = wait_s >= shortest_s
        if guarded and not wait_s >= most_backlogs * backlogs_s[slot] + parameters[p.GUARD_LEAST]:
            # A power costs more than all the rest: asked only where it decides (inf * 0 decides nothing).
            guarded = wait_s >= parameters[p.GUARD] and wait_s >= guard_s(
                widths[slot], widest, backlogs_s[slot], parameters
            )
        if guarded or by == p.BY_SUBMIT:
            key = submits_s[slot]
        elif by == p.BY_ATTAINED:
            key = service_level(sizes[slot], step) * _LEVEL_APART + submits_s[slot]
        else:
            key = aged_size(sizes[slot] * share[teams[slot]], wait_s, ageing, rate, tau_s, power)
            # A deadline pulls forward as its slack gets short; without one the comparison is false.
            short_s = horizon_s - (deadlines_s[slot] - now_s - plans_s[slot])
            if short_s > 0.0:
                key -= weight * min(short_s, _LONGEST_S)
        ranks[k] = 2 * tiers[slot] + (0 if guarded else 1)
        keys[k] = key
        left[slot] = key
        differ = differ or ranks[k] != ranks[0]
    return differ


@compiled
def defer_ineligible(
    floats: FloatArray,
    ints: IntArray,
    queue: IntArray,
    n_queue: int,
    now_s: float,
    used: IntArray,
    most: IntArray,
    parents: IntArray,
    ranks: IntArray,
) -> bool:
    """Rank jobs that back off, or are beyond all their quotas, after all others; return whether any are.

    A pass looks at so many jobs, in order: those that cannot start whatever is free shall not use that up.
    """
    deferred = False
    for k in range(n_queue):
        slot = queue[k]
        eligible = False
        if floats[c.NOT_BEFORE, slot] <= now_s:
            for pool in range(most.shape[1]):
                if (ints[c.POOLS, slot] >> pool) & 1 and not eligible:
                    width = ints[c.WIDTH, slot]
                    eligible = within_most(used, most, parents, ints[c.TEAM, slot], pool, width)
        if not eligible:
            ranks[k] += _DEFERRED
            deferred = True
    return deferred


def ranks_and_keys(
    store: JobStore, slots: IntArray, now_s: float, numbers: FloatArray, share: FloatArray, widest: float
) -> tuple[IntArray, FloatArray]:
    """Return rank and key of waiting jobs as of now, shape (n,) each; the store stays as it is.

    Passes look at no job while all units are taken, so the keys they left may be old.
    """
    ranks, keys = np.empty(len(slots), dtype=np.int64), np.empty(len(slots))
    left = store.floats[c.KEY, slots]  # a copy
    rank_and_key(store.floats, store.ints, slots, len(slots), now_s, numbers, share, widest, ranks, keys)
    store.floats[c.KEY, slots] = left
    return ranks, keys


@compiled
def first_in_order(
    keys: FloatArray, ranks: IntArray, n: int, count: int, differ: bool, in_order: bool
) -> IntArray:
    """Return the positions of the ``count`` first jobs by (rank, key, position), in that order.

    With more jobs than asked for it keeps the best in a bounded heap, so the cost grows with n only by
    one comparison for each job.
    """
    if in_order and not differ:
        return np.arange(min(n, count))
    chosen = np.arange(n) if n <= count else _smallest(keys, ranks, n, count)
    order = chosen[np.argsort(keys[chosen], kind="mergesort")]
    if differ:
        order = order[np.argsort(ranks[order], kind="mergesort")]
    return order


@compiled
def _later(keys: FloatArray, ranks: IntArray, a: int, b: int) -> bool:
    """Return whether job a comes after job b."""
    if ranks[a] != ranks[b]:
        return bool(ranks[a] > ranks[b])
    if keys[a] != keys[b]:
        return bool(keys[a] > keys[b])
    return a > b


@compiled
def _smallest(keys: FloatArray, ranks: IntArray, n: int, count: int) -> IntArray:
    """Return the positions of the first ``count`` jobs, ascending by position."""
    heap = np.arange(count)
    for root in range(count // 2 - 1, -1, -1):
        _sink(heap, root, keys, ranks)
    for k in range(count, n):
        if _later(keys, ranks, heap[0], k):
            heap[0] = k
            _sink(heap, 0, keys, ranks)
    heap.sort()
    return heap


@compiled
def _sink(heap: IntArray, root: int, keys: FloatArray, ranks: IntArray) -> None:
    """Restore the heap (the last job in order at its top) below ``root``."""
    n = heap.shape[0]
    while True:
        child = 2 * root + 1
        if child >= n:
            return
        if child + 1 < n and _later(keys, ranks, heap[child + 1], heap[child]):
            child += 1
        if not _later(keys, ranks, heap[child], heap[root]):
            return
        heap[root], heap[child] = heap[child], heap[root]
        root = child

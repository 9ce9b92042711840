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
from predictor.scheduling.store import FloatArray, IntArray

_LEVEL_APART = 1e10  # seconds, more than any instant


@compiled
def service_level(served: float, step: float) -> float:
    """Return the level of attained service: levels double in width (Gu et al., Tiresias, 2019)."""
    return float(np.floor(np.log2(1.0 + served / step)))


@compiled
def order_key(
    floats: FloatArray, ints: IntArray, slot: int, now_s: float, parameters: FloatArray, share: FloatArray
) -> float:
    """Return the key of a waiting job that its guard does not protect, smaller first."""
    submit_s = floats[c.SUBMIT, slot]
    if parameters[p.ORDER_BY] == p.BY_SUBMIT:
        return float(submit_s)
    if parameters[p.ORDER_BY] == p.BY_ATTAINED:
        level = service_level(floats[c.SIZE, slot], parameters[p.ATTAINED_STEP])
        return float(level * _LEVEL_APART + submit_s)
    wait_s = now_s - submit_s
    key = floats[c.SIZE, slot] * share[ints[c.TEAM, slot]]
    ageing = parameters[p.AGEING]
    if ageing == p.LINEAR:
        key -= parameters[p.AGEING_RATE] * wait_s
    elif ageing == p.RATIO:
        aged = 1.0 + wait_s / parameters[p.AGEING_TAU]
        power = parameters[p.AGEING_POWER]
        key /= aged if power == 1.0 else aged**power
    deadline_s = floats[c.DEADLINE, slot]
    if not np.isnan(deadline_s):
        slack_s = deadline_s - now_s - floats[c.PLAN, slot]
        short_s = parameters[p.DEADLINE_HORIZON] - slack_s
        if short_s > 0.0:
            key -= parameters[p.DEADLINE_WEIGHT] * short_s
    return float(key)


@compiled
def guard_s(ints: IntArray, slot: int, parameters: FloatArray, widest: float) -> float:
    """Return after how many seconds of waiting a job comes before all others."""
    exponent = parameters[p.GUARD_EXPONENT]
    if exponent == 0.0:
        return float(parameters[p.GUARD])
    return float(parameters[p.GUARD] / (ints[c.WIDTH, slot] / widest) ** exponent)


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
    differ = False
    guards = parameters[p.GUARD] < np.inf
    for k in range(n_queue):
        slot = queue[k]
        guarded = guards and now_s - floats[c.SUBMIT, slot] >= guard_s(ints, slot, parameters, widest)
        ranks[k] = 2 * ints[c.TIER, slot] + (0 if guarded else 1)
        if guarded:
            keys[k] = floats[c.SUBMIT, slot]
        else:
            keys[k] = order_key(floats, ints, slot, now_s, parameters, share)
        floats[c.KEY, slot] = keys[k]
        differ = differ or ranks[k] != ranks[0]
    return differ


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

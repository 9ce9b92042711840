"""This module says when waiting jobs may start, as a distribution, by planning the queue forward.

Each scenario fixes a level: what runs ends at that quantile of its remaining time given its elapsed time, and
what waits runs for that quantile of its forecast. Jobs are placed in the order of the queue, each at its
earliest start that delays none before it (conservative backfilling, Mu'alem and Feitelson 2001), as no job of
today waits for one of tomorrow. The starts over the scenarios are read as quantiles; a promised start caps
what lies above it.
"""

from dataclasses import dataclass

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling.profile import build_profile, carve, earliest_start
from predictor.scheduling.remaining import quantile_s, remaining_s
from predictor.scheduling.state import SchedulingState
from predictor.scheduling.store import FloatArray, IntArray

SCENARIOS = (0.1, 0.5, 0.9)
MOST_PLANNED = 2000  # jobs ahead of and including those asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Eta:
    """When a job starts: UTC seconds at three levels; inf = not foreseeable."""

    q10_s: float
    q50_s: float
    q90_s: float


@compiled
def expected_ends(
    floats: FloatArray, logs: FloatArray, running: IntArray, n_running: int, now_s: float, level: float
) -> FloatArray:
    """Return when each running job ends at a level of its remaining time, shape (n_running,)."""
    ends = np.empty(n_running)
    for k in range(n_running):
        slot = running[k]
        elapsed_s = max(now_s - floats[c.START, slot] + floats[c.BASE, slot], 0.0)
        ends[k] = now_s + remaining_s(logs[slot], floats[c.LIMIT, slot], elapsed_s, level)
    return ends


@compiled
def plan_starts(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    running: IntArray,
    n_running: int,
    order: IntArray,
    free: IntArray,
    now_s: float,
    level: float,
) -> FloatArray:
    """Return the planned start of each job of ``order``, shape (n,); inf = it never fits.

    Args:
        order: slots of waiting jobs in the order of the queue.
        free: shape (P,), free units of the pools.
    """
    n_pools, count = free.shape[0], order.shape[0]
    room = n_running + 2 * count + 4
    times = np.empty((n_pools, room))
    frees = np.empty((n_pools, room), np.int64)
    steps = np.zeros(n_pools, np.int64)
    kept = floats[c.PLAN_END].copy()
    ends = expected_ends(floats, logs, running, n_running, now_s, level)
    for k in range(n_running):
        floats[c.PLAN_END, running[k]] = ends[k]
    for pool in range(n_pools):
        steps[pool] = build_profile(
            floats, ints, running, n_running, pool, free[pool], now_s, times[pool], frees[pool]
        )
    floats[c.PLAN_END] = kept
    starts = np.full(count, np.inf)
    for k in range(count):
        slot = order[k]
        plan_s = quantile_s(logs[slot], floats[c.LIMIT, slot], level)
        best_pool, best_step = -1, -1
        for pool in range(n_pools):
            if not (ints[c.POOLS, slot] >> pool) & 1:
                continue
            step = earliest_start(times[pool], frees[pool], steps[pool], ints[c.WIDTH, slot], plan_s)
            if step >= 0 and times[pool, step] < starts[k]:
                best_pool, best_step, starts[k] = pool, step, times[pool, step]
        if best_pool >= 0:
            steps[best_pool] = carve(
                times[best_pool], frees[best_pool], steps[best_pool], best_step, plan_s, ints[c.WIDTH, slot]
            )
    return starts


@compiled
def room_at_s(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    running: IntArray,
    n_running: int,
    pool: int,
    free: int,
    width: int,
    now_s: float,
    level: float,
) -> float:
    """Return when running jobs, each ending at a level of its remaining time, leave so many units of a pool.

    It counts units, not nodes; inf = running jobs do not hold so many.
    """
    here = np.empty(n_running, np.int64)
    n = 0
    for k in range(n_running):
        if ints[c.POOL, running[k]] == pool:
            here[n] = running[k]
            n += 1
    ends = expected_ends(floats, logs, here, n, now_s, level)
    at_s = now_s
    for k in np.argsort(ends):
        if free >= width:
            break
        free += ints[c.WIDTH, here[k]]
        at_s = ends[k]
    return at_s if free >= width else np.inf


def forecast_starts(state: SchedulingState, order: IntArray, now_s: float) -> list[Eta]:
    """Return the ETA of each waiting job of ``order`` (slots, the head of the queue first).

    Jobs beyond MOST_PLANNED get no finite ETA.
    """
    store = state.store
    planned = order[:MOST_PLANNED]
    scenarios = [
        plan_starts(
            store.floats, store.ints, store.log_quantiles, store.running, store.n_running, planned,
            state.capacity.free, now_s, level,
        )
        for level in SCENARIOS
    ]  # fmt: skip
    starts = np.sort(np.array(scenarios), axis=0)  # one scenario may overtake another for a single job
    latest = store.floats[c.LATEST, planned]
    starts = np.where(latest >= now_s, np.fmin(starts, latest), starts)
    etas = [Eta(q10_s=a, q50_s=b, q90_s=d) for a, b, d in starts.T.tolist()]
    never = Eta(q10_s=float("inf"), q50_s=float("inf"), q90_s=float("inf"))
    return etas + [never] * (len(order) - len(planned))

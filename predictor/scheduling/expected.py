"""This module works out what one job is expected to take: its size for the order, its plan, its end.

Compiled; all functions read the columns of the job store (``columns``) and a policy's ``parameters``.
"""

import numpy as np

from predictor.contracts.reasons import ReasonCode
from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling import parameters as p
from predictor.scheduling.gittins import gittins_rank_s
from predictor.scheduling.remaining import quantile_s, remaining_s
from predictor.scheduling.store import FloatArray, IntArray

# Tsafrir, Etsion, Feitelson, Backfilling using system-generated predictions, 2007: seconds by which a
# prediction that was exceeded grows, the first time, the second, ...
_INCREMENTS = np.array(
    [60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0]
)
_LOOK_AGAIN = 0.05
_HEADROOM = int(ReasonCode.HEADROOM_HELD)


@compiled
def whole_duration_s(
    floats: FloatArray, logs: FloatArray, slot: int, source: float, level: float, done_s: float
) -> float:
    """Return the seconds that are left of a waiting job of which ``done_s`` are done, at one level."""
    limit_s = floats[c.LIMIT, slot]
    if source == p.FROM_FORECAST:
        if done_s > 0.0 and level > 0.0:
            return remaining_s(logs[slot], limit_s, done_s, level)
        return max(quantile_s(logs[slot], limit_s, level) - done_s, 1.0)
    whole = limit_s
    if source == p.FROM_ESTIMATE and not np.isnan(floats[c.ESTIMATE, slot]):
        whole = min(floats[c.ESTIMATE, slot], limit_s)
    return float(max(whole - done_s, 1.0))


@compiled
def assess(
    floats: FloatArray, ints: IntArray, logs: FloatArray, slots: IntArray, parameters: FloatArray
) -> None:
    """Set SIZE and PLAN of waiting jobs, after a submission, a new forecast or a change of policy."""
    for slot in slots:
        done_s = floats[c.SAVED, slot]
        restart_s = floats[c.RESTART_COST, slot] if ints[c.EVICTIONS, slot] > 0 else 0.0
        if parameters[p.ORDER_BY] == p.BY_ATTAINED:
            size = floats[c.SERVED, slot]
        elif parameters[p.ORDER_BY] == p.BY_GITTINS:
            size = gittins_rank_s(logs[slot], floats[c.LIMIT, slot], done_s)
        else:
            size = whole_duration_s(
                floats, logs, slot, parameters[p.ORDER_SOURCE], parameters[p.ORDER_LEVEL], done_s
            )
        exponent = parameters[p.WIDTH_EXPONENT]
        if exponent != 0.0:
            size *= ints[c.WIDTH, slot] ** exponent
        floats[c.SIZE, slot] = size / floats[c.WEIGHT, slot]
        floats[c.PLAN, slot] = restart_s + whole_duration_s(
            floats, logs, slot, parameters[p.PLAN_SOURCE], parameters[p.BACKFILL_LEVEL], done_s
        )


@compiled
def plan_behind_s(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    slot: int,
    parameters: FloatArray,
    guarded: bool,
    head_width: int,
    careful: bool,
    by_limit: bool,
) -> float:
    """Return what is planned for a waiting job that would go ahead of a promised job beyond its guard.

    The promised job waits for ``head_width`` units, so about ``head_width / width`` such jobs may go ahead of
    it at once, and each that runs for longer delays it. With ``careful``, guarded ones count with the
    quantile ``level ** (width / head_width)``: if they err independently, none does with that level.

    Args:
        guarded: whether the job that would go ahead is beyond its own guard.
        careful, by_limit: whether the promised job has waited for so long that guarded jobs, or all, count
            with more than usual.
    """
    plan_s = floats[c.PLAN, slot]
    if parameters[p.PLAN_SOURCE] != p.FROM_FORECAST or (guarded and not careful and not by_limit):
        return float(plan_s)
    limit_s, done_s = floats[c.LIMIT, slot], floats[c.SAVED, slot]
    level = parameters[p.GUARDED_LEVEL]
    if by_limit:
        level = 1.0
    elif guarded:
        level = parameters[p.BACKFILL_LEVEL] ** min(ints[c.WIDTH, slot] / head_width, 1.0)
    restart_s = floats[c.RESTART_COST, slot] if ints[c.EVICTIONS, slot] > 0 else 0.0
    if limit_s == np.inf:  # nothing ends it for certain: count with it as if it ran
        level = min(level, parameters[p.RUNNING_LEVEL])
    elif level >= 1.0:
        return float(max(restart_s + limit_s - done_s, plan_s))
    whole_s = whole_duration_s(floats, logs, slot, p.FROM_FORECAST, level, done_s)
    return float(max(restart_s + whole_s, plan_s))


@compiled
def begin(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    slot: int,
    pool: int,
    now_s: float,
    parameters: FloatArray,
) -> None:
    """Let an attempt of a waiting job begin now, and say when it is expected to end."""
    floats[c.START, slot] = now_s
    ints[c.CONFIRMED, slot] = 0
    floats[c.BASE, slot] = floats[c.SAVED, slot]
    ints[c.POOL, slot] = pool
    ints[c.NODE_LIST, slot] = -1
    ints[c.STATE, slot] = c.RUNNING
    if parameters[p.PLAN_SOURCE] == p.FROM_FORECAST:
        limit_s, base_s = floats[c.LIMIT, slot], floats[c.BASE, slot]
        restart_s = floats[c.RESTART_COST, slot] if ints[c.EVICTIONS, slot] > 0 else 0.0
        left_s = remaining_s(logs[slot], limit_s, base_s, parameters[p.RUNNING_LEVEL])
        floats[c.PLAN_END, slot] = now_s + restart_s + left_s
    else:
        floats[c.PLAN_END, slot] = now_s + floats[c.PLAN, slot]
    ints[c.CORRECTIONS, slot] = 0


@compiled
def work_done_s(floats: FloatArray, ints: IntArray, slot: int, now_s: float) -> float:
    """Return the seconds of work that a running job has done, over all attempts, checkpointed or not."""
    restart_s = floats[c.RESTART_COST, slot] if ints[c.EVICTIONS, slot] > 0 else 0.0
    return float(floats[c.BASE, slot] + max(now_s - floats[c.START, slot] - restart_s, 0.0))


@compiled
def still_to_run_s(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    slots: IntArray,
    now_s: float,
    parameters: FloatArray,
) -> FloatArray:
    """Return what running jobs would be planned with if they waited, shape (n,)."""
    left_s = np.empty(len(slots))
    for k in range(len(slots)):
        slot = slots[k]
        left_s[k] = floats[c.PLAN_END, slot] - now_s
        if parameters[p.PLAN_SOURCE] == p.FROM_FORECAST:
            done_s = work_done_s(floats, ints, slot, now_s)
            left_s[k] = remaining_s(logs[slot], floats[c.LIMIT, slot], done_s, parameters[p.BACKFILL_LEVEL])
    return np.maximum(left_s, 1.0)


@compiled
def correct_ends(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    running: IntArray,
    n_running: int,
    now_s: float,
    parameters: FloatArray,
) -> int:
    """Plan anew for running jobs that have exceeded their plan; return how many had."""
    exceeded = 0
    always = parameters[p.REFORECAST] > 0.5 and parameters[p.PLAN_SOURCE] == p.FROM_FORECAST
    for k in range(n_running):
        slot = running[k]
        over = floats[c.PLAN_END, slot] <= now_s
        if not over and not (always and ints[c.STATE, slot] == c.RUNNING):
            continue
        exceeded += over
        start_s, limit_s = floats[c.START, slot], floats[c.LIMIT, slot]
        correction = parameters[p.CORRECTION]
        if ints[c.STATE, slot] == c.LEAVING:
            end_s = now_s + 1.0
        elif correction == p.CONDITIONAL:
            done_s = work_done_s(floats, ints, slot, now_s)
            left_s = remaining_s(logs[slot], limit_s, done_s, parameters[p.RUNNING_LEVEL])
            # Beyond its last quantile each look would ask for the next a second later: look again after a
            # twentieth of its age, or at its limit.
            left_s = max(left_s, min(_LOOK_AGAIN * done_s, limit_s - done_s))
            end_s = now_s + left_s
        elif correction == p.TSAFRIR:
            most_s = start_s + limit_s - floats[c.BASE, slot]
            end_s = floats[c.PLAN_END, slot]
            while end_s <= now_s and end_s < most_s:
                times = ints[c.CORRECTIONS, slot]
                end_s = most_s
                if times < len(_INCREMENTS):
                    end_s = min(start_s + floats[c.PLAN, slot] + _INCREMENTS[times], most_s)
                    ints[c.CORRECTIONS, slot] = times + 1
        else:
            end_s = start_s + limit_s
        floats[c.PLAN_END, slot] = max(end_s, now_s + 1.0)
    return exceeded


@compiled
def backlog_s(
    floats: FloatArray,
    ints: IntArray,
    queue: IntArray,
    n_queue: int,
    running: IntArray,
    n_running: int,
    now_s: float,
) -> float:
    """Return the unit-seconds that running and waiting jobs are planned to take from now on.

    A job that runs for longer than planned is taken to run as long again: the quantiles of what is left
    of it may be years.
    """
    total = 0.0
    for k in range(n_queue):
        if ints[c.STATE, queue[k]] == c.WAITING:  # within a pass the queue still holds whom it has started
            total += floats[c.PLAN, queue[k]] * ints[c.WIDTH, queue[k]]
    for k in range(n_running):
        slot = running[k]
        age_s = max(now_s - floats[c.START, slot], 0.0)
        left_s = floats[c.PLAN, slot] - age_s if age_s < floats[c.PLAN, slot] else age_s
        total += max(min(left_s, floats[c.PLAN_END, slot] - now_s), 0.0) * ints[c.WIDTH, slot]
    return total


@compiled
def next_change_s(
    floats: FloatArray,
    ints: IntArray,
    queue: IntArray,
    n_queue: int,
    running: IntArray,
    n_running: int,
    now_s: float,
) -> float:
    """Return when the next plan of a running job is exceeded, a back-off ends, or with the hour the demand
    for which units are held free, ``inf`` = never.
    """
    soonest_s = np.inf
    next_hour_s = (now_s // 3600.0 + 1.0) * 3600.0
    for k in range(n_running):
        slot = running[k]
        if work_done_s(floats, ints, slot, now_s) >= floats[c.LIMIT, slot]:
            continue  # it may end at any moment: looking each second tells nothing new
        end_s = floats[c.PLAN_END, slot]
        if now_s < end_s < soonest_s:
            soonest_s = end_s
    for k in range(n_queue):
        slot = queue[k]
        until_s = next_hour_s if ints[c.REASON, slot] == _HEADROOM else floats[c.NOT_BEFORE, slot]
        if now_s < until_s < soonest_s:
            soonest_s = until_s
    return float(soonest_s)

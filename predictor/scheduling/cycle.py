"""This module is one scheduling pass over the columns of the job store, compiled.

Steps: order the waiting jobs; go through them; start what fits and delays no promise; promise a start to
the first that do not fit; leave with each job that was looked at a reason code and its numbers. The
profile of a pool is built only when the first promise needs it.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling import parameters as p
from predictor.scheduling.expected import backlog_s, begin, correct_ends, plan_behind_s
from predictor.scheduling.node_profile import earliest_on_nodes, limit_to_promises
from predictor.scheduling.nodes import hold_nodes, place
from predictor.scheduling.priority import defer_ineligible, first_in_order, guard_s, rank_and_key
from predictor.scheduling.profile import build_profile, carve, earliest_start
from predictor.scheduling.quota import within_most
from predictor.scheduling.store import FloatArray, IntArray

# Values of ReasonCode; a test holds them equal.
IN_ORDER, BACKFILLED = 1, 2
CAPACITY_SHORT, BEHIND_OTHERS, WOULD_DELAY, QUOTA, HEADROOM, FRAGMENTED, BACKING_OFF = (
    10,
    11,
    12,
    13,
    14,
    15,
    17,
)


@compiled
def explain_as(
    floats: FloatArray, ints: IntArray, slot: int, code: int, a: float, b: float, d: float
) -> None:
    """Leave a reason and its numbers with a job."""
    ints[c.REASON, slot] = code
    floats[c.NUMBER_0, slot] = a
    floats[c.NUMBER_1, slot] = b
    floats[c.NUMBER_2, slot] = d


@compiled
def run_cycle(
    floats: FloatArray,
    ints: IntArray,
    logs: FloatArray,
    queue: IntArray,
    n_queue: int,
    running: IntArray,
    n_running: int,
    free: IntArray,
    held: IntArray,
    used: IntArray,
    most: IntArray,
    parents: IntArray,
    share: FloatArray,
    total: IntArray,
    now_s: float,
    parameters: FloatArray,
    node_free: IntArray,
    node_units: IntArray,
    islands: IntArray,
    first: IntArray,
    listed: IntArray,
    spare: IntArray,
    started: IntArray,
    promised: IntArray,
    old_promise: FloatArray,
) -> tuple[int, int, int]:
    """Run one pass; return how many jobs started, how many promises are new or moved, and exceeded plans.

    Args:
        total: shape (P,), units of each pool, in order of preference.
        free: shape (P,), free units of each; updated.
        held: shape (tiers, P), units kept back from jobs of that tier and later ones.
        used, most: shape (teams, P), units that teams hold (updated) and may hold at most.
        parents: shape (teams,), the parent of a team, -1 = none.
        share: shape (teams,), factor on the size of a team's jobs.
        node_free, node_units, islands, first, listed, spare: nodes of the pools, see ``nodes``; ``first``
            has shape (P + 1,), a pool without nodes is only counted.
        started, promised, old_promise: shape (capacity,), set to slots, slots, and their promise until now.
    """
    depth = int(min(parameters[p.DEPTH], n_queue))
    ranks = np.empty(n_queue, np.int64)
    keys = np.empty(n_queue)
    widest = float(total.max())
    differ = rank_and_key(floats, ints, queue, n_queue, now_s, parameters, share, widest, ranks, keys)
    if depth < n_queue:
        differ |= defer_ineligible(floats, ints, queue, n_queue, now_s, used, most, parents, ranks)
    in_order = parameters[p.ORDER_BY] == p.BY_SUBMIT
    order = first_in_order(keys, ranks, n_queue, depth, differ, in_order)

    n_pools = free.shape[0]
    heads = parameters[p.HEADS]
    eldest = int(min(parameters[p.ELDEST], n_queue))
    eldest_left = eldest
    guarded_left = parameters[p.GUARDED]
    safely = False  # a guarded job has been promised a start, which nobody behind it may delay
    head_width = 1
    careful, by_limit = False, False  # it has waited for long, for very long: nobody may delay it by bad luck
    backfill = parameters[p.BACKFILL] > 0.5
    resort = parameters[p.SHORTEST_FIRST] > 0.5
    first_fit = parameters[p.FIRST_FIT] > 0.5

    room = n_running + 2 * depth + 4
    times = np.empty((n_pools, room))
    frees = np.empty((n_pools, room), np.int64)
    steps = np.zeros(n_pools, np.int64)  # 0 = profile not built
    corrected = False
    exceeded = 0
    promise_at = np.empty(depth)
    promise_pool = np.empty(depth, np.int64)
    slack = np.empty(depth, np.int64)
    n_promises = 0
    n_started, n_promised = 0, 0
    shut = 0  # bit set of pools where nobody may go ahead of the blocked head

    n_nodes = node_free.shape[0]
    entitlements = int(min(depth, heads + eldest + guarded_left)) if n_nodes else 0
    promise_end = np.empty(depth)
    uses = np.zeros((entitlements, n_nodes), np.int64)
    node_slack = np.zeros((entitlements, n_nodes), np.int64)
    hosts = np.empty(n_nodes, np.int64)  # nodes of the job that is looked at, and its units on each
    amounts = np.empty(n_nodes, np.int64)
    best_nodes = np.empty(n_nodes, np.int64)
    best_amounts = np.empty(n_nodes, np.int64)
    at_start = np.empty(n_nodes, np.int64)
    best_at_start = np.empty(n_nodes, np.int64)
    trial = np.empty(n_nodes, np.int64)
    n_chosen = 0

    total_free = 0
    for pool in range(n_pools):
        total_free += max(free[pool], 0)

    at = 0
    while at < depth:
        if resort and heads <= 0 and n_promises > 0:
            resort = False
            rest = order[at:]
            plans = np.empty(depth - at)
            for k in range(depth - at):
                plans[k] = floats[c.PLAN, queue[rest[k]]]
            order[at:] = rest[np.argsort(plans, kind="mergesort")]
        row = order[at]
        slot = queue[row]
        at += 1
        guarded = ranks[row] == 2 * ints[c.TIER, slot]
        if total_free <= 0 and heads <= 0 and eldest_left <= 0 and not (guarded and guarded_left > 0):
            break
        width = ints[c.WIDTH, slot]
        plan_s = floats[c.PLAN, slot]
        if safely:
            plan_s = plan_behind_s(
                floats, ints, logs, slot, parameters, guarded, head_width, careful, by_limit
            )
        tier = ints[c.TIER, slot]
        team = ints[c.TEAM, slot]
        if floats[c.NOT_BEFORE, slot] > now_s:
            explain_as(
                floats, ints, slot, BACKING_OFF, ints[c.EVICTIONS, slot], floats[c.NOT_BEFORE, slot], 0.0
            )
            continue

        nodes, one_island = ints[c.NODES, slot], ints[c.ISLAND, slot] == 1
        chosen = -1
        code = BEHIND_OTHERS if shut else CAPACITY_SHORT
        within_quota = False
        most_free = 0
        kept_back = 0
        blocking_s = np.inf
        for pool in range(n_pools):
            if not (ints[c.POOLS, slot] >> pool) & 1:
                continue
            if not within_most(used, most, parents, team, pool, width):
                continue
            within_quota = True
            most_free = max(most_free, free[pool])
            if (shut >> pool) & 1:
                code = BEHIND_OTHERS
                continue
            if width > free[pool]:
                continue
            if not guarded and width > free[pool] - held[tier, pool]:
                code = HEADROOM
                kept_back = held[tier, pool]
                continue
            delays = False
            if first[pool + 1] > first[pool]:
                low, high = first[pool], first[pool + 1]
                for node in range(low, high):
                    trial[node] = node_free[node]
                n_chosen = place(
                    trial, node_units, islands, low, high, width, nodes, one_island, first_fit, hosts, amounts
                )
                if n_chosen == 0:
                    code = FRAGMENTED
                    continue
                if n_promises == 0:
                    chosen = pool
                    break
                limit_to_promises(
                    trial,
                    node_slack,
                    promise_at,
                    promise_pool,
                    n_promises,
                    pool,
                    -np.inf,
                    now_s + plan_s,
                    low,
                    high,
                )
                n_chosen = place(
                    trial, node_units, islands, low, high, width, nodes, one_island, first_fit, hosts, amounts
                )
                if n_chosen == 0:
                    code = WOULD_DELAY
                    for k in range(n_promises):
                        if promise_pool[k] == pool:
                            blocking_s = min(blocking_s, promise_at[k])
                    continue
                chosen = pool
                break
            for k in range(n_promises):
                if promise_pool[k] == pool and promise_at[k] < now_s + plan_s and width > slack[k]:
                    delays = True
                    blocking_s = min(blocking_s, promise_at[k])
                    break
            if delays:
                code = WOULD_DELAY
                continue
            chosen = pool
            break

        if chosen >= 0:
            free[chosen] -= width
            total_free -= width
            holder = team
            while holder >= 0:
                used[holder, chosen] += width
                holder = parents[holder]
            ints[c.PLACE, slot] = n_running
            running[n_running] = slot
            n_running += 1
            begin(floats, ints, logs, slot, chosen, now_s, parameters)
            explain_as(
                floats,
                ints,
                slot,
                BACKFILLED if n_promises > 0 else IN_ORDER,
                width,
                free[chosen] + width,
                n_promises,
            )
            floats[c.NUMBER_3, slot] = plan_s
            started[n_started] = slot
            n_started += 1
            taken_until_s = max(floats[c.PLAN_END, slot], now_s + plan_s)
            if first[chosen + 1] > first[chosen]:
                ints[c.NODE_LIST, slot] = hold_nodes(node_free, listed, spare, hosts, amounts, n_chosen)
                for k in range(n_promises):
                    if promise_pool[k] == chosen and promise_at[k] < taken_until_s:
                        for m in range(n_chosen):
                            node_slack[k, hosts[m]] -= amounts[m]
                continue
            for k in range(n_promises):
                if promise_pool[k] == chosen and promise_at[k] < taken_until_s:
                    slack[k] -= width
            if steps[chosen] > 0:
                steps[chosen] = carve(
                    times[chosen], frees[chosen], steps[chosen], 0, taken_until_s - now_s, width
                )
            continue

        if not within_quota:
            explain_as(floats, ints, slot, QUOTA, width, team, 0.0)
            continue
        explain_as(floats, ints, slot, code, width, most_free, float(at - 1))
        if code == HEADROOM:
            floats[c.NUMBER_2, slot] = kept_back
        if code == WOULD_DELAY:
            floats[c.NUMBER_1, slot] = plan_s
            floats[c.NUMBER_2, slot] = blocking_s

        old = row < eldest
        if old:
            eldest_left -= 1
        entitled = code != HEADROOM and (
            (guarded and guarded_left > 0) or (not guarded and not safely and (heads > 0 or old))
        )
        if entitled:
            best_pool, best_step = -1, -1
            best_s = np.inf
            n_best = 0
            for pool in range(n_pools):
                if not (ints[c.POOLS, slot] >> pool) & 1 or width > total[pool]:
                    continue
                if not corrected:
                    corrected = True
                    exceeded = correct_ends(floats, ints, logs, running, n_running, now_s, parameters)
                if first[pool + 1] > first[pool]:
                    start_s, n_chosen = earliest_on_nodes(
                        floats,
                        ints,
                        running,
                        n_running,
                        node_free,
                        node_units,
                        islands,
                        first[pool],
                        first[pool + 1],
                        listed,
                        slot,
                        pool,
                        now_s,
                        promise_at,
                        promise_end,
                        promise_pool,
                        uses,
                        node_slack,
                        n_promises,
                        first_fit,
                        hosts,
                        amounts,
                        at_start,
                    )
                    if start_s < best_s:
                        best_pool, best_s, n_best = pool, start_s, n_chosen
                        best_nodes[:n_best], best_amounts[:n_best] = hosts[:n_best], amounts[:n_best]
                        best_at_start[:] = at_start
                    continue
                if steps[pool] == 0:
                    steps[pool] = build_profile(
                        floats, ints, running, n_running, pool, free[pool], now_s, times[pool], frees[pool]
                    )
                step = earliest_start(times[pool], frees[pool], steps[pool], width, plan_s)
                if step >= 0 and times[pool, step] < best_s:
                    best_pool, best_step, best_s = pool, step, times[pool, step]
            if best_pool >= 0:  # who cannot be promised a start leaves it to the next
                if guarded:
                    guarded_left -= 1
                    safely = True
                    head_width, wait_s = width, now_s - floats[c.SUBMIT, slot]
                    own_s = guard_s(width, widest, floats[c.BACKLOG, slot], parameters)
                    by_limit = wait_s > parameters[p.STRICT_AFTER] * own_s
                    if wait_s > parameters[p.CAREFUL_AFTER] * own_s:
                        ahead = backlog_s(floats, ints, queue, n_queue, running, n_running, now_s)
                        careful = wait_s * total.sum() > parameters[p.CAREFUL_BACKLOGS] * ahead
                elif heads > 0:
                    heads -= 1
                on_nodes = first[best_pool + 1] > first[best_pool]
                if on_nodes:
                    node_slack[n_promises] = best_at_start
                    for m in range(n_best):
                        uses[n_promises, best_nodes[m]] += best_amounts[m]
                    node_slack[n_promises] -= uses[n_promises]
                else:
                    steps[best_pool] = carve(
                        times[best_pool], frees[best_pool], steps[best_pool], best_step, plan_s, width
                    )
                    slack[n_promises] = frees[best_pool, best_step]
                for k in range(n_promises):
                    if promise_pool[k] == best_pool and best_s <= promise_at[k] < best_s + plan_s:
                        if on_nodes:
                            node_slack[k] -= uses[n_promises]
                        else:
                            slack[k] -= width
                promise_at[n_promises] = best_s
                promise_end[n_promises] = best_s + plan_s
                promise_pool[n_promises] = best_pool
                n_promises += 1
                until = floats[c.PROMISE, slot]
                if not abs(best_s - until) <= parameters[p.TOLERANCE]:
                    promised[n_promised] = slot
                    old_promise[n_promised] = until
                    n_promised += 1
                    floats[c.PROMISE, slot] = best_s
                    ints[c.POOL, slot] = best_pool
        if not backfill:
            shut |= ints[c.POOLS, slot]
            if shut & ((1 << n_pools) - 1) == (1 << n_pools) - 1:
                break

    if n_started:
        kept = 0
        for k in range(n_queue):
            if ints[c.STATE, queue[k]] == c.WAITING:
                queue[kept] = queue[k]
                kept += 1
    return n_started, n_promised, exceeded

"""This module runs scheduling passes on the state and words their results as decisions."""

import math

import numpy as np

from predictor.contracts.decisions import Decision, Promised, PromiseMoved, Started
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling import columns as c
from predictor.scheduling import parameters as p
from predictor.scheduling.cycle import run_cycle
from predictor.scheduling.eta import room_at_s
from predictor.scheduling.expected import begin
from predictor.scheduling.nodes import NEXT, NODE, UNITS, hold_nodes, place
from predictor.scheduling.policy import Policy
from predictor.scheduling.reasons import start_reason
from predictor.scheduling.state import SchedulingState
from predictor.scheduling.store import FloatArray, IntArray


def run_pass(state: SchedulingState, policy: Policy, numbers: FloatArray, decisions: list[Decision]) -> None:
    """Run one pass and add what it decides."""
    store, capacity, teams = state.store, state.capacity, state.teams
    if max(capacity.free.tolist()) <= 0:
        return
    n_queue = store.n_queue
    started = np.empty(n_queue, dtype=np.int64)
    promised = np.empty(n_queue, dtype=np.int64)
    old_promise = np.empty(n_queue)
    n_started, n_promised, exceeded = run_cycle(
        store.floats,
        store.ints,
        store.log_quantiles,
        store.queue,
        n_queue,
        store.running,
        store.n_running,
        capacity.free,
        held_units(state, policy),
        teams.used,
        teams.most,
        teams.parents,
        teams.share,
        capacity.total,
        state.now_s,
        numbers,
        capacity.node_free,
        capacity.node_units,
        capacity.islands,
        capacity.first,
        capacity.listed,
        capacity.spare,
        started,
        promised,
        old_promise,
    )
    store.n_queue = n_queue - n_started
    store.n_running += n_started
    for slot in started[:n_started].tolist():
        _judge(state, policy, slot)
        decisions.append(_started(state, slot, start_reason(store, slot)))
    decisions.extend(
        _promised(state, policy, int(promised[k]), float(old_promise[k]), exceeded) for k in range(n_promised)
    )


def held_units(state: SchedulingState, policy: Policy) -> IntArray:
    """Return the units of each pool that are kept from jobs of each tier, shape (tiers, P)."""
    tiers = max(each.tier for each in policy.classes) + 1
    held = np.zeros((tiers, len(state.capacity.pools)), dtype=np.int64)
    rule = policy.headroom
    if state.demand.any and rule.most_ratio > 0:
        wanted = state.demand.expected_units(state.now_s, rule)
        most = np.floor(rule.most_ratio * state.capacity.total)
        held[rule.tier + 1 :] = np.minimum(wanted, most).astype(np.int64)
    return held


def start_by_eviction(
    state: SchedulingState,
    numbers: FloatArray,
    slot: int,
    pool: int,
    victims: int,
    decisions: list[Decision],
) -> None:
    """Start a job in the room that its victims have left."""
    store = state.store
    width = int(store.ints[c.WIDTH, slot])
    store.dequeue(slot)
    store.add_running(slot)
    begin(store.floats, store.ints, store.log_quantiles, slot, pool, state.now_s, numbers)
    state.teams.hold(int(store.ints[c.TEAM, slot]), pool, width)
    take_nodes(state, numbers, slot, pool)
    store.ints[c.REASON, slot] = ReasonCode.PREEMPTED_OTHERS
    reason = Reason(
        code=ReasonCode.PREEMPTED_OTHERS, numbers={"victims": float(victims), "freed": float(width)}
    )
    decisions.append(_started(state, slot, reason))


def take_nodes(state: SchedulingState, numbers: FloatArray, slot: int, pool: int) -> None:
    """Take a job's units in a pool, on nodes where it has them and the gang fits."""
    store, capacity = state.store, state.capacity
    width = int(store.ints[c.WIDTH, slot])
    capacity.free[pool] -= width
    if not capacity.has_nodes(pool):
        return
    chosen = np.empty(len(capacity.node_free), dtype=np.int64)
    amounts = np.empty_like(chosen)

    def placed(free: IntArray) -> int:
        return place(
            free,
            capacity.node_units,
            capacity.islands,
            int(capacity.first[pool]),
            int(capacity.first[pool + 1]),
            width,
            int(store.ints[c.NODES, slot]),
            bool(store.ints[c.ISLAND, slot] == 1),
            bool(numbers[p.FIRST_FIT] > 0),
            chosen,
            amounts,
        )

    found = placed(capacity.node_free)
    if not found:  # started from elsewhere though there is no room: its units are taken all the same
        found = placed(capacity.node_units)
        beyond = np.maximum(capacity.node_units, capacity.node_units - capacity.node_free).sum()
        capacity.list_more(int(beyond) + width + 1)
    store.ints[c.NODE_LIST, slot] = hold_nodes(
        capacity.node_free, capacity.listed, capacity.spare, chosen, amounts, found
    )
    capacity.recount(pool)


def nodes_of(state: SchedulingState, slot: int) -> tuple[tuple[int, int], ...]:
    """Return (node index in its pool, units) of a running job, () in a pool that is only counted."""
    pool = int(state.store.ints[c.POOL, slot])
    first = int(state.capacity.first[pool])
    entry = int(state.store.ints[c.NODE_LIST, slot])
    listed = state.capacity.listed
    nodes = []
    while entry >= 0:
        nodes.append((int(listed[NODE, entry]) - first, int(listed[UNITS, entry])))
        entry = int(listed[NEXT, entry])
    return tuple(nodes)


def _started(state: SchedulingState, slot: int, reason: Reason) -> Started:
    store = state.store
    return Started(
        now_s=state.now_s,
        job_id=store.ids[slot],
        pool=state.capacity.pools[store.ints[c.POOL, slot]].name,
        nodes=nodes_of(state, slot),
        resume_s=float(store.floats[c.BASE, slot]),
        reason=reason,
    )


def _judge(state: SchedulingState, policy: Policy, slot: int) -> None:
    """Hold a start against the latest start that had been promised."""
    latest_s = float(state.store.floats[c.LATEST, slot])
    if not math.isnan(latest_s):
        state.promises.judge(state.now_s, latest_s, policy.reserve.confidence)


def _promised(
    state: SchedulingState, policy: Policy, slot: int, old_s: float, exceeded: int
) -> Promised | PromiseMoved:
    store = state.store
    start_s = float(store.floats[c.PROMISE, slot])
    if math.isnan(old_s):
        latest_s = state.promises.latest_start_s(state.now_s, start_s)
        store.floats[c.LATEST, slot] = latest_s
        expected_s = _expected_start_s(state, policy, slot, start_s, latest_s)
        pool = state.capacity.pools[store.ints[c.POOL, slot]].name
        return Promised(
            now_s=state.now_s,
            job_id=store.ids[slot],
            pool=pool,
            start_s=start_s,
            expected_s=expected_s,
            latest_s=latest_s,
        )
    if start_s < old_s:
        code = ReasonCode.EARLIER_END
    else:
        code = ReasonCode.FORECAST_EXCEEDED if exceeded else ReasonCode.OVERTAKEN
    return PromiseMoved(
        now_s=state.now_s,
        job_id=store.ids[slot],
        old_start_s=old_s,
        start_s=start_s,
        reason=Reason(code=code),
    )


def _expected_start_s(
    state: SchedulingState, policy: Policy, slot: int, planned_s: float, latest_s: float
) -> float:
    """Return when a promised job is expected to start: when running jobs, at their medians, leave room.

    The plan itself keeps units until a high quantile of what runs, so most promised jobs start before it.
    """
    if policy.plan.source != "forecast":
        return planned_s
    store, pool = state.store, int(state.store.ints[c.POOL, slot])
    room_s = room_at_s(
        store.floats,
        store.ints,
        store.log_quantiles,
        store.running,
        store.n_running,
        pool,
        int(state.capacity.free[pool]),
        int(store.ints[c.WIDTH, slot]),
        state.now_s,
        0.5,
    )
    return min(room_s, latest_s) if math.isfinite(room_s) else planned_s

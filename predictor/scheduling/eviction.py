"""This module carries evictions out: who leaves, with what grace, what survives, and when it may return."""

from collections.abc import Callable

import numpy as np

from predictor.contracts.decisions import Decision, Preempted
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling import checkpoint
from predictor.scheduling import columns as c
from predictor.scheduling.holders import Holders
from predictor.scheduling.passes import run_pass, start_by_eviction
from predictor.scheduling.policy import Policy
from predictor.scheduling.preemption import Victims, choose_victims, holders_of
from predictor.scheduling.priority import ranks_and_keys
from predictor.scheduling.state import SchedulingState
from predictor.scheduling.store import FloatArray, IntArray

_HOUR_S = 3600.0
_MOST_DOUBLINGS = 10


def make_room(
    state: SchedulingState,
    policy: Policy,
    numbers: FloatArray,
    assess: Callable[[int], None],
    decisions: list[Decision],
) -> None:
    """Evict for those of the first waiting jobs that have the right to it and lack room."""
    rules = policy.preemption
    if rules.mode == "none" or not state.store.n_running:
        return
    evicted = False
    holders: list[Holders] = []  # as long as nobody is evicted they stay what they are
    for slot in _claimants(state, policy, numbers).tolist():
        state.evictions_s = [at for at in state.evictions_s if at > state.now_s - _HOUR_S]
        if len(state.evictions_s) >= rules.per_hour:
            break
        if state.store.ids[slot] in state.leaving.values():  # its room is being made already
            continue
        store, capacity, teams, classes = state.store, state.capacity, state.teams, policy.classes
        holders = holders or holders_of(
            store, capacity, teams, classes, rules, state.now_s, policy.order, numbers
        )
        barred = state.evictors.get(slot, ())
        victims = choose_victims(store, capacity, teams, classes, rules, slot, holders, barred)
        if victims is None or len(state.evictions_s) + len(victims.slots) > rules.per_hour:
            continue
        at_once = _evict(state, policy, slot, victims, assess, decisions)
        if at_once:
            start_by_eviction(state, numbers, slot, victims.pool, len(victims.slots), decisions)
        evicted, holders = True, []
    if evicted and state.store.n_queue:  # what the evicted left over may serve others
        run_pass(state, policy, numbers, decisions)


def _claimants(state: SchedulingState, policy: Policy, numbers: FloatArray) -> IntArray:
    """Return the waiting jobs that victims are looked for, in order."""
    store = state.store
    waiting: IntArray = store.waiting_slots
    entitled = store.floats[c.NOT_BEFORE, waiting] <= state.now_s
    if policy.preemption.mode != "order":
        rights = np.array([each.may_preempt for each in policy.classes])
        claims = rights[store.ints[c.CLASS, waiting]]
        if policy.quotas:
            claims |= True
        entitled &= claims
    waiting = waiting[entitled]
    if not len(waiting):
        return waiting
    widest = float(state.capacity.total.max())
    ranks, keys = ranks_and_keys(store, waiting, state.now_s, numbers, state.teams.share, widest)
    order = np.lexsort((keys, ranks))
    return np.asarray(waiting[order[: policy.preemption.tries]])


def _evict(
    state: SchedulingState,
    policy: Policy,
    slot: int,
    victims: Victims,
    assess: Callable[[int], None],
    decisions: list[Decision],
) -> bool:
    """Evict victims for a waiting job; return whether their units are free at once."""
    store, rules = state.store, policy.preemption
    saved_s = checkpoint.saved_work_s(store, victims.slots, state.now_s)
    done_s = checkpoint.work_done_s(store, victims.slots, state.now_s)
    at_once = True
    for k, victim in enumerate(victims.slots.tolist()):
        outcome = policy.classes[store.ints[c.CLASS, victim]].outcome
        writes = int(store.ints[c.CHECKPOINT, victim]) == checkpoint.APPLICATION
        grace_s = rules.grace_s if writes and outcome == "requeue" else 0.0
        kept_s = float(done_s[k] if outcome == "suspend" or grace_s > 0 else saved_s[k])
        lost_s = float(done_s[k]) - kept_s + float(store.floats[c.RESTART_COST, victim])
        numbers = {"lost_s": lost_s, "remaining_s": float(victims.remaining_s[k])}
        if victims.code is ReasonCode.RECLAIMED:
            team, pool = int(store.ints[c.TEAM, victim]), victims.pool
            numbers = {"borrowed": float(state.teams.borrowed(team, pool))}
        decisions.append(
            Preempted(
                now_s=state.now_s,
                job_id=store.ids[victim],
                for_job=store.ids[slot],
                outcome=outcome,
                saved_s=0.0 if outcome == "cancel" else kept_s,
                lost_s=float(done_s[k]) if outcome == "cancel" else lost_s,
                grace_s=grace_s,
                reason=Reason(code=victims.code, numbers=numbers),
            )
        )
        state.evictions_s.append(state.now_s)
        if not rules.in_turn:
            state.evictors.setdefault(victim, set()).add(store.ids[slot])
        store.floats[c.SAVED, victim] = kept_s
        if grace_s > 0:
            store.ints[c.STATE, victim] = c.LEAVING
            store.floats[c.PLAN_END, victim] = state.now_s + grace_s
            state.leaving[victim] = store.ids[slot]
            at_once = False
        else:
            _leave(state, policy, victim, outcome, assess)
    return at_once


def finish_leaving(state: SchedulingState, policy: Policy, assess: Callable[[int], None]) -> bool:
    """Take the units of evicted jobs whose grace is over; return whether there were any."""
    over = [slot for slot in state.leaving if state.store.floats[c.PLAN_END, slot] <= state.now_s]
    for slot in over:
        _leave(state, policy, slot, "requeue", assess)
    return bool(over)


def _leave(
    state: SchedulingState, policy: Policy, slot: int, outcome: str, assess: Callable[[int], None]
) -> None:
    """Take an evicted job's units; let it wait again, or be gone."""
    if outcome == "cancel":
        state.release(slot)
        state.forget(slot)
        return
    evictions = int(state.store.ints[c.EVICTIONS, slot])
    wait_s = policy.preemption.backoff_s * 2 ** min(evictions, _MOST_DOUBLINGS)
    _requeue(state, slot, float(state.store.floats[c.SAVED, slot]))
    state.store.ints[c.EVICTIONS, slot] = evictions + 1
    until_s = state.now_s + wait_s
    state.store.floats[c.NOT_BEFORE, slot] = until_s
    state.store.ints[c.REASON, slot] = ReasonCode.BACKING_OFF
    state.store.floats[[c.NUMBER_0, c.NUMBER_1], slot] = evictions + 1.0, until_s
    assess(slot)


def report_requeued(
    state: SchedulingState, policy: Policy, slot: int, saved_s: float | None, assess: Callable[[int], None]
) -> None:
    """Take in that a job was put back; one that was told to leave has left before its grace was over."""
    if slot in state.leaving:
        if saved_s is not None:
            state.store.floats[c.SAVED, slot] = saved_s
        _leave(state, policy, slot, "requeue", assess)
        return
    _requeue(state, slot, saved_s)
    assess(slot)


def _requeue(state: SchedulingState, slot: int, saved_s: float | None) -> None:
    """Put an interrupted job back to its place in the queue, with the work that survives."""
    store = state.store
    one = np.array([slot])
    if saved_s is None:
        saved_s = float(checkpoint.saved_work_s(store, one, state.now_s)[0])
    store.floats[c.SERVED, slot] += state.now_s - store.floats[c.START, slot]
    store.floats[c.SAVED, slot] = saved_s
    state.release(slot)
    store.floats[[c.START, c.PLAN_END, c.PROMISE, c.LATEST], slot] = np.nan
    store.ints[[c.POOL, c.NODE_LIST], slot] = -1
    store.enqueue(slot)

"""This module is the Coordinator: the one place that orders jobs, reserves capacity and evicts.

Deterministic and synchronous: it owns no clock, thread or I/O, the instant is inside each event. The
service, the simulator and recovery from the event log all drive this one class with events.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from predictor.contracts.decisions import Decision, Refused
from predictor.contracts.events import (
    Event,
    ForecastUpdated,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobProgressed,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    NodesChanged,
    PolicyChanged,
    Tick,
)
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling import admission, checkpoint, eviction
from predictor.scheduling import columns as c
from predictor.scheduling import parameters as p
from predictor.scheduling.capacity import Pool
from predictor.scheduling.expected import assess, begin, next_change_s
from predictor.scheduling.parameter_vector import parameter_vector
from predictor.scheduling.passes import run_pass, take_nodes
from predictor.scheduling.placement import pools_of
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_from_document
from predictor.scheduling.siblings import look_at_running, renew, tell_siblings
from predictor.scheduling.state import SchedulingState
from predictor.scheduling.store import IntArray

_FOREVER = float("inf")


class Coordinator:
    """Takes events in, gives decisions out; ``apply`` is its whole life.

    Args:
        policy: how to decide.
        pools: what there is to hand out.

    Attributes:
        state: all that it knows; read it, change it only by events.
    """

    def __init__(self, policy: Policy, pools: Sequence[Pool]) -> None:
        self.policy = policy
        self.state = SchedulingState(policy, pools)
        self._parameters = parameter_vector(policy)
        self._one: IntArray = np.zeros(1, dtype=np.int64)
        self._handlers: dict[type, Any] = {  # each handler takes its own kind of event
            JobSubmitted: self._submitted,
            JobStarted: self._started,
            JobProgressed: self._progressed,
            JobFinished: self._finished,
            JobRequeued: self._requeued,
            JobCancelled: self._cancelled,
            JobChanged: self._changed,
            ForecastUpdated: self._forecast_updated,
            NodesChanged: self._nodes_changed,
            PolicyChanged: self._policy_changed,
            Tick: self._tick,
        }

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools, by ascending scarcity."""
        return self.state.capacity.pools

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self.state.store.n_queue

    @property
    def running(self) -> int:
        """How many jobs hold units."""
        return self.state.store.n_running

    def knows(self, job_id: str) -> str:
        """Return ``waiting``, ``running``, ``evicting``, or "" for a job that is not known (any more)."""
        slot = self.state.store.slot_of.get(job_id)
        return "" if slot is None else _STATE_NAMES[self.state.store.ints[c.STATE, slot]]

    def apply(self, event: Event) -> tuple[Decision, ...]:
        """Take one event in and return what is decided."""
        return self.apply_all((event,))

    def apply_all(self, events: Sequence[Event]) -> tuple[Decision, ...]:
        """Take the events of one instant in, then run one scheduling pass; return what is decided.

        An instant before that of an earlier event counts as that one: time never runs back.
        """
        state = self.state
        decisions: list[Decision] = []
        dirty = False
        for event in events:
            # a whole number would compile each kernel anew
            state.now_s = max(state.now_s, float(event.now_s))
            state.teams.advance(state.now_s)
            if state.leaving:
                dirty = eviction.finish_leaving(state, self.policy, self._assess) or dirty
            dirty = self._handlers[type(event)](event, decisions) or dirty
        if dirty and state.store.n_queue:
            self._look_at_running()
            run_pass(state, self.policy, self._parameters, decisions)
            eviction.make_room(state, self.policy, self._parameters, self._assess, decisions)
        return tuple(decisions)

    def accepts(self, event: JobChanged) -> bool:
        """Return whether a change of a job would be made, and not refused."""
        slot = self.state.store.slot_of.get(event.job_id, -1)
        if slot < 0 or self.state.store.ints[c.STATE, slot] != c.WAITING:
            return False
        return not self._change(event, slot)[2]

    def next_wakeup_s(self) -> float:
        """Return when a Tick is wanted although nothing may have happened, ``inf`` = never."""
        state, store = self.state, self.state.store
        floats = store.floats
        wakeups = [float(floats[c.PLAN_END, slot]) for slot in state.leaving]
        rules = self.policy.preemption
        if store.n_queue:  # a plan that is exceeded is made anew
            queue, running = store.queue, store.running
            wakeups.append(
                next_change_s(floats, store.ints, queue, store.n_queue, running, store.n_running, state.now_s)
            )
            if rules.mode == "order" and store.n_running:
                wakeups.append(state.now_s + rules.period_s)
        return min(wakeups, default=_FOREVER)

    def what_if(self, events: Sequence[Event]) -> tuple[Decision, ...]:
        """Return what would be decided after events, one by one, and leave everything as it is."""
        with self.trial() as trial:
            return tuple(decision for event in events for decision in trial.apply(event))

    @contextmanager
    def trial(self) -> Iterator["Coordinator"]:
        """Give this coordinator out for trying; all that happens inside is rolled back at the end."""
        policy, state, numbers = self.policy, self.state, self._parameters
        self.state = state.copy()
        try:
            yield self
        finally:
            self.policy, self.state, self._parameters = policy, state, numbers

    # one handler per kind of event; each returns whether a scheduling pass is due -------------------------

    def _submitted(self, event: JobSubmitted, decisions: list[Decision]) -> bool:
        state = self.state
        pools, faults = admission.refusals(state, self.policy, event)
        if faults:
            decisions.append(Refused(now_s=event.now_s, job_id=event.job_id, reasons=tuple(faults)))
            return False
        slot = admission.admit(state, self.policy, event, pools)
        self._renew(slot)
        self._assess(slot)
        if state.store.ints[c.TIER, slot] <= self.policy.headroom.tier:
            state.demand.record(state.now_s, pools, event.width)
        state.store.enqueue(slot)
        return True

    def _started(self, event: JobStarted, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions)
        if slot < 0:
            return False
        state, store = self.state, self.state.store
        if store.ints[c.STATE, slot] != c.WAITING:  # our own decision, confirmed: it runs since now
            if store.ints[c.CONFIRMED, slot]:  # told before: a repetition changes nothing
                return False
            store.ints[c.CONFIRMED, slot] = 1
            late_s = event.now_s - float(store.floats[c.START, slot])
            store.floats[[c.START, c.PLAN_END], slot] += late_s
            return False
        named = state.capacity.index.get(event.pool, -1)
        pool = named if named >= 0 else int(store.ints[c.POOLS, slot]).bit_length() - 1
        store.dequeue(slot)
        store.add_running(slot)
        begin(store.floats, store.ints, store.log_quantiles, slot, pool, state.now_s, self._parameters)
        width = int(store.ints[c.WIDTH, slot])
        state.teams.hold(int(store.ints[c.TEAM, slot]), pool, width)
        take_nodes(state, self._parameters, slot, pool)
        store.ints[c.CONFIRMED, slot] = 1
        return True

    def _progressed(self, event: JobProgressed, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions, c.RUNNING, c.LEAVING)
        if slot >= 0:
            self._one[0] = slot
            done_s = float(checkpoint.work_done_s(self.state.store, self._one, self.state.now_s)[0])
            saved_s = done_s if event.saved_s is None else min(event.saved_s, done_s)
            self.state.store.floats[c.SAVED, slot] = saved_s
            self.state.store.floats[c.SAVED_AT, slot] = event.now_s
        return False

    def _finished(self, event: JobFinished, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions, c.RUNNING, c.LEAVING)
        if slot < 0:
            return False
        store = self.state.store
        if self._parameters[p.SIBLING_CORRELATION] > 0:
            tell_siblings(
                store.floats, store.ints, store.given_log_quantiles, store.log_quantiles,
                slot, self.state.now_s, self._parameters,
            )  # fmt: skip
        self.state.release(slot)
        self.state.forget(slot)
        return True

    def _requeued(self, event: JobRequeued, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions, c.RUNNING, c.LEAVING)
        if slot < 0:
            return False
        eviction.report_requeued(self.state, self.policy, slot, event.saved_s, self._assess)
        return True

    def _cancelled(self, event: JobCancelled, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions)
        if slot < 0:
            return False
        if self.state.store.ints[c.STATE, slot] == c.WAITING:
            self.state.store.dequeue(slot)
        else:
            self.state.release(slot)
        self.state.forget(slot)
        return True

    def _changed(self, event: JobChanged, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions, c.WAITING)
        if slot < 0:
            return False
        state = self.state
        changed, pools, faults = self._change(event, slot)
        if faults:
            decisions.append(Refused(now_s=event.now_s, job_id=event.job_id, reasons=tuple(faults)))
            return False
        state.specs[slot] = changed
        state.store.ints[c.POOLS, slot] = pools
        admission.set_class(state, self.policy, slot)
        self._assess(slot)
        return True

    def _change(self, event: JobChanged, slot: int) -> tuple[JobSubmitted, int, list[Reason]]:
        """Return a job as it would be, the pools that it could use, and all reasons to refuse that."""
        job = self.state.specs[slot]
        assert job is not None  # noqa: S101 - the slot of a waiting job
        name = job.workload_class if event.workload_class is None else event.workload_class
        deadline_s = job.deadline_s if event.deadline_s is None else event.deadline_s
        changed = replace(job, workload_class=name, deadline_s=deadline_s)
        pools, faults = admission.refusals(self.state, self.policy, changed, is_known=True)
        return changed, pools, faults

    def _forecast_updated(self, event: ForecastUpdated, decisions: list[Decision]) -> bool:
        slot = self._slot(event, decisions)
        if slot < 0:
            return False
        admission.set_forecast(self.state, slot, event.quantiles_s, event.estimate_s)
        self.state.store.floats[c.TOLD, slot] = 0.0  # a forecast made now knows what has ended
        self._renew(slot)
        if self.state.store.ints[c.STATE, slot] == c.WAITING:
            self._assess(slot)
        elif self.state.store.ints[c.STATE, slot] == c.RUNNING:
            self.state.store.floats[c.PLAN_END, slot] = self.state.now_s  # the next pass plans it anew
        return True

    def _nodes_changed(self, event: NodesChanged, decisions: list[Decision]) -> bool:
        pool = self.state.capacity.index.get(event.pool, -1)
        if pool < 0:
            reason = Reason(code=ReasonCode.NO_SUCH_POOL)
            decisions.append(Refused(now_s=event.now_s, job_id="", reasons=(reason,)))
            return False
        self.state.capacity.change(pool, event.total, event.node_units)
        return True

    def _policy_changed(self, event: PolicyChanged, _decisions: list[Decision]) -> bool:
        state = self.state
        before, policy = self.policy, policy_from_document(event.policy)
        self.policy, self._parameters = policy, parameter_vector(policy)
        state.teams.configure(policy.quotas, policy.fair_share)
        state.demand.remember(policy.headroom.weeks)
        for slot in [*state.store.waiting_slots.tolist(), *state.store.running_slots.tolist()]:
            job = state.specs[slot]
            assert job is not None  # noqa: S101 - the slot of a live job
            if policy.workload_class(job.workload_class) < 0:
                job = state.specs[slot] = replace(job, workload_class="")
            admission.set_class(state, policy, slot)
            kind = policy.classes[int(state.store.ints[c.CLASS, slot])]
            pools, _ = pools_of(job, kind, state.capacity.pools, policy.placement, policy.quotas)
            if pools:  # else it waits where it may: a job is refused at its submission, not afterwards
                state.store.ints[c.POOLS, slot] = pools
        slots = state.store.waiting_slots
        if policy.siblings != before.siblings or policy.plan.source != before.plan.source:
            for slot in slots.tolist():
                self._renew(slot)
        assess(state.store.floats, state.store.ints, state.store.log_quantiles, slots, self._parameters)
        return True

    def _tick(self, _event: Tick, _decisions: list[Decision]) -> bool:
        return True

    def _slot(self, event: Any, decisions: list[Decision], *states: int) -> int:
        """Return the slot of an event's job; refuse the event and return -1 where its state does not fit."""
        slot = self.state.store.slot_of.get(event.job_id, -1)
        if slot >= 0 and (not states or self.state.store.ints[c.STATE, slot] in states):
            return slot
        code = ReasonCode.UNKNOWN_JOB if slot < 0 else ReasonCode.WRONG_STATE
        decisions.append(Refused(now_s=event.now_s, job_id=event.job_id, reasons=(Reason(code=code),)))
        return -1

    def _look_at_running(self) -> None:
        store = self.state.store
        if self._parameters[p.SIBLING_CORRELATION] > 0:
            look_at_running(
                store.floats, store.ints, store.given_log_quantiles, store.log_quantiles,
                store.running, store.n_running, self.state.now_s, self._parameters,
            )  # fmt: skip

    def _renew(self, slot: int) -> None:
        """Set the forecast of one job from the one given and what its siblings tell."""
        store = self.state.store
        if self._parameters[p.SIBLING_CORRELATION] <= 0:
            store.log_quantiles[slot] = store.given_log_quantiles[slot]
            return
        renew(
            store.floats, store.ints, store.given_log_quantiles, store.log_quantiles,
            slot, self.state.now_s, self._parameters,
        )  # fmt: skip

    def _assess(self, slot: int) -> None:
        """Set size and plan of one waiting job."""
        store = self.state.store
        self._one[0] = slot
        assess(store.floats, store.ints, store.log_quantiles, self._one, self._parameters)


_STATE_NAMES = {c.WAITING: "waiting", c.RUNNING: "running", c.LEAVING: "evicting", c.FREE_SLOT: ""}

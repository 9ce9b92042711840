"""This module is the Coordinator: the one place that orders jobs, reserves capacity and evicts.

Deterministic and synchronous: it owns no clock, thread or I/O, the instant is inside each event. The
service, the simulator and recovery from the event log all drive this one class with events.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from predictor.contracts.decisions import Decision, Promised, PromiseMoved, Refused, Started
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
from predictor.contracts.forecast import LEVELS
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.errors import ArgumentError
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.cycle import run_cycle
from predictor.scheduling.expected import assess
from predictor.scheduling.parameters import parameters
from predictor.scheduling.policy import Policy
from predictor.scheduling.remaining import assumed_log_quantiles
from predictor.scheduling.store import JobStore

_NAN = float("nan")


class Coordinator:
    """Takes events in, gives decisions out; ``apply`` is its whole life.

    Args:
        policy: how to decide.
        pools: what there is to hand out.
    """

    def __init__(self, policy: Policy, pools: Sequence[Pool]) -> None:
        self.store = JobStore()
        self.now_s = -float("inf")
        self.pools = tuple(sorted(pools, key=lambda pool: pool.scarcity))
        self.free = np.array([pool.total for pool in self.pools], dtype=np.int64)
        self.total = self.free.copy()
        self._teams: dict[str, int] = {"": 0}
        self._set_policy(policy)
        self._handlers: dict[type, Any] = {  # each handler takes its own kind of event
            JobSubmitted: self._submitted,
            JobStarted: self._started_outside,
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
    def waiting(self) -> int:
        """How many jobs wait."""
        return self.store.n_queue

    @property
    def running(self) -> int:
        """How many jobs hold units."""
        return self.store.n_running

    def apply(self, event: Event) -> tuple[Decision, ...]:
        """Take one event in and return what is decided."""
        return self.apply_all((event,))

    def apply_all(self, events: Sequence[Event]) -> tuple[Decision, ...]:
        """Take the events of one instant in, then run one scheduling pass; return what is decided."""
        decisions: list[Decision] = []
        dirty = False
        for event in events:
            if event.now_s > self.now_s:
                self.now_s = event.now_s
            dirty = self._handlers[type(event)](event, decisions) or dirty
        if dirty and self.store.n_queue and self.free.max(initial=0) > 0:
            self._pass(decisions)
        return tuple(decisions)

    # events -----------------------------------------------------------------------------------------

    def _submitted(self, event: JobSubmitted, decisions: list[Decision]) -> bool:
        faults = self._faults_of(event)
        if faults:
            decisions.append(Refused(now_s=event.now_s, job_id=event.job_id, reasons=tuple(faults)))
            return False
        store = self.store
        slot = store.add(event.job_id)
        floats, ints = store.floats, store.ints
        which = self.policy.workload_class(event.workload_class)
        kind = self.policy.classes[which]
        floats[:, slot] = self._blank
        floats[c.SUBMIT, slot] = event.now_s
        floats[c.LIMIT, slot] = event.limit_s
        if event.estimate_s is not None:
            floats[c.ESTIMATE, slot] = event.estimate_s
        floats[c.WEIGHT, slot] = kind.weight
        if event.deadline_s is not None:
            floats[c.DEADLINE, slot] = event.deadline_s
        ints[:, slot] = 0
        ints[c.WIDTH, slot] = event.width
        ints[c.NODES, slot] = event.nodes
        ints[c.POOLS, slot] = self._pools_for(event)
        ints[c.POOL, slot] = -1
        ints[c.CLASS, slot] = which
        ints[c.TIER, slot] = kind.tier
        ints[c.SEQUENCE, slot] = store.next_sequence
        store.next_sequence += 1
        self._set_forecast(slot, event.quantiles_s, event.estimate_s)
        self._assess(slot)
        store.enqueue(slot)
        return True

    def _set_forecast(self, slot: int, quantiles_s: Sequence[float] | None, estimate_s: float | None) -> None:
        logs = self.store.log_quantiles[slot]
        if quantiles_s is not None:
            np.log(np.maximum(quantiles_s, 1.0), out=logs)
        elif estimate_s is not None:
            logs[:] = np.log(max(estimate_s, 1.0))
        else:
            logs[:] = assumed_log_quantiles(float(self.store.floats[c.LIMIT, slot]))

    def _assess(self, slot: int) -> None:
        store = self.store
        self._one[0] = slot
        assess(store.floats, store.ints, store.log_quantiles, self._one, self._parameters)

    def _faults_of(self, event: JobSubmitted) -> list[Reason]:
        faults = []
        if event.job_id in self.store.slot_of:
            faults.append(Reason(code=ReasonCode.DUPLICATE_JOB))
        if self.policy.workload_class(event.workload_class) < 0:
            faults.append(Reason(code=ReasonCode.NO_SUCH_CLASS))
        if event.quantiles_s is not None and len(event.quantiles_s) != len(LEVELS):
            faults.append(Reason(code=ReasonCode.INVALID_REQUEST, numbers={"value": len(event.quantiles_s)}))
        if not 1 <= event.width <= self._widest:
            numbers = {"needed": float(event.width), "total": self._widest}
            faults.append(Reason(code=ReasonCode.TOO_WIDE, numbers=numbers))
        return faults

    def _pools_for(self, event: JobSubmitted) -> int:
        return sum(
            1 << k for k, pool in enumerate(self.pools) if event.pool in ("", pool.name) and event.width <= pool.total
        )

    def _started_outside(self, event: JobStarted, decisions: list[Decision]) -> bool:
        return False

    def _progressed(self, event: JobProgressed, decisions: list[Decision]) -> bool:
        return False

    def _finished(self, event: JobFinished, decisions: list[Decision]) -> bool:
        slot = self.store.slot_of.get(event.job_id, -1)
        if slot < 0 or self.store.ints[c.STATE, slot] == c.WAITING:
            decisions.append(self._refused(event, ReasonCode.UNKNOWN_JOB if slot < 0 else ReasonCode.WRONG_STATE))
            return False
        self._release(slot)
        self.store.remove(slot)
        return True

    def _release(self, slot: int) -> None:
        store = self.store
        self.free[store.ints[c.POOL, slot]] += store.ints[c.WIDTH, slot]
        store.remove_running(slot)

    def _requeued(self, event: JobRequeued, decisions: list[Decision]) -> bool:
        return False

    def _cancelled(self, event: JobCancelled, decisions: list[Decision]) -> bool:
        slot = self.store.slot_of.get(event.job_id, -1)
        if slot < 0:
            decisions.append(self._refused(event, ReasonCode.UNKNOWN_JOB))
            return False
        if self.store.ints[c.STATE, slot] == c.WAITING:
            self.store.dequeue(slot)
        else:
            self._release(slot)
        self.store.remove(slot)
        return True

    def _changed(self, event: JobChanged, decisions: list[Decision]) -> bool:
        return False

    def _forecast_updated(self, event: ForecastUpdated, decisions: list[Decision]) -> bool:
        return False

    def _nodes_changed(self, event: NodesChanged, decisions: list[Decision]) -> bool:
        return False

    def _policy_changed(self, event: PolicyChanged, decisions: list[Decision]) -> bool:
        return False

    def _tick(self, event: Tick, decisions: list[Decision]) -> bool:
        return True

    def _refused(self, event: Any, code: ReasonCode) -> Refused:
        return Refused(now_s=event.now_s, job_id=event.job_id, reasons=(Reason(code=code),))

    # passes -----------------------------------------------------------------------------------------

    def _set_policy(self, policy: Policy) -> None:
        if not self.pools:
            raise ArgumentError("a coordinator needs at least one pool")
        self.policy = policy
        self._parameters = parameters(policy)
        tiers = max(each.tier for each in policy.classes) + 1
        pools, teams = len(self.pools), len(self._teams)
        self._held = np.zeros((tiers, pools), dtype=np.int64)
        self._used = np.zeros((teams, pools), dtype=np.int64)
        self._most = np.full((teams, pools), np.iinfo(np.int64).max // 2)
        self._parents = np.full(teams, -1, dtype=np.int64)
        self._share = np.ones(teams)
        self._widest = float(self.total.max())
        self._one = np.zeros(1, dtype=np.int64)
        self._blank = np.full(c.FLOATS, _NAN)
        self._blank[[c.SAVED, c.CHECKPOINT_EVERY, c.RESTART_COST, c.NOT_BEFORE, c.BASE, c.SERVED]] = 0.0

    def _pass(self, decisions: list[Decision]) -> None:
        store = self.store
        started = np.empty(store.n_queue, dtype=np.int64)
        promised = np.empty(store.n_queue, dtype=np.int64)
        old = np.empty(store.n_queue)
        n_started, n_promised, exceeded = run_cycle(
            store.floats,
            store.ints,
            store.log_quantiles,
            store.queue,
            store.n_queue,
            store.running,
            store.n_running,
            self.free,
            self._held,
            self._used,
            self._most,
            self._parents,
            self._share,
            self._widest,
            self.now_s,
            self._parameters,
            started,
            promised,
            old,
        )
        store.n_queue -= n_started
        store.n_running += n_started
        for slot in started[:n_started].tolist():
            decisions.append(self._start_decision(slot))
        for k in range(n_promised):
            decisions.append(self._promise_decision(int(promised[k]), float(old[k]), exceeded))

    def _start_decision(self, slot: int) -> Started:
        store = self.store
        pool = self.pools[store.ints[c.POOL, slot]]
        code = ReasonCode(int(store.ints[c.REASON, slot]))
        return Started(
            now_s=self.now_s,
            job_id=store.ids[slot],
            pool=pool.name,
            resume_s=float(store.floats[c.BASE, slot]),
            reason=Reason(code=code, numbers={}),
        )

    def _promise_decision(self, slot: int, old_s: float, exceeded: int) -> Promised | PromiseMoved:
        store = self.store
        start_s = float(store.floats[c.PROMISE, slot])
        pool = self.pools[store.ints[c.POOL, slot]]
        if old_s != old_s:
            return Promised(
                now_s=self.now_s, job_id=store.ids[slot], pool=pool.name, start_s=start_s, latest_s=start_s
            )
        if start_s < old_s:
            code = ReasonCode.EARLIER_END
        else:
            code = ReasonCode.FORECAST_EXCEEDED if exceeded else ReasonCode.OVERTAKEN
        return PromiseMoved(
            now_s=self.now_s,
            job_id=store.ids[slot],
            old_start_s=old_s,
            start_s=start_s,
            reason=Reason(code=code),
        )

"""This module plays jobs through the Coordinator on a manual clock.

It knows what the Coordinator must not: how long each job really runs. All events of one instant are applied
at once, finishes before submissions, and the Coordinator is woken whenever it asks to be.
"""

import heapq
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from predictor.contracts.decisions import Decision, Preempted, Promised, Refused, Started
from predictor.contracts.events import Event, JobFinished, JobRequeued, NodesChanged, Tick
from predictor.errors import ArgumentError, PredictorError
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy import Policy
from predictor.simulation.arrivals import Arrivals
from predictor.simulation.failures import Outage, running_on
from predictor.simulation.result import (
    CANCELLED,
    COMPLETED,
    REFUSED,
    Attempts,
    Promises,
    SimulationResult,
)
from predictor.simulation.trace import Trace

_FINISH, _DOWN, _UP = 0, 1, 2
_NEVER = float("inf")
_TOLD_EVERY = 2000
Progress = Callable[[float], None]


class Player:
    """Plays one trace under one policy; use ``simulate``."""

    def __init__(
        self, coordinator: Coordinator, trace: Trace, arrivals: Arrivals, outages: Sequence[Outage]
    ) -> None:
        n = len(trace)
        self.coordinator, self.trace, self.arrivals, self.outages = coordinator, trace, arrivals, outages
        self.job_of = {job_id: job for job, job_id in enumerate(trace.job_ids)}
        self.work_s, self.width = trace.work_s.tolist(), trace.width.tolist()
        self.pools = {pool.name: k for k, pool in enumerate(coordinator.pools)}
        self.start_s = [math.nan] * n
        self.end_s = [math.nan] * n
        self.outcome = [0] * n
        self.evictions, self.failures = [0] * n, [0] * n
        self.attempts: list[tuple[int, float, float, int]] = []
        self.nodes: list[tuple[tuple[int, int], ...]] = []
        self.current = [-1] * n  # index of each job's running attempt
        self.resumed_s = [0.0] * n
        self.down: list[set[int]] = [set() for _ in coordinator.pools]  # nodes of each pool that are gone
        self.promises: dict[int, tuple[float, float, float, float]] = {}
        self.left = n
        self.heap: list[tuple[float, int, int, int]] = []  # instant, kind, job or outage, attempt
        for k, outage in enumerate(outages):
            heapq.heappush(self.heap, (outage.from_s, _DOWN, k, -1))
            heapq.heappush(self.heap, (outage.to_s, _UP, k, -1))

    def play(self, progress: Progress | None) -> None:
        """Play until every job has come to an end."""
        coordinator, arrivals, heap = self.coordinator, self.arrivals, self.heap
        told = self.left
        while self.left:
            now_s = min(heap[0][0] if heap else _NEVER, arrivals.next_s, coordinator.next_wakeup_s())
            if now_s == _NEVER:
                raise ArgumentError(
                    f"{self.left} of {len(self.trace)} jobs wait for ever: "
                    "look at quotas, pools and limits of the policy"
                )
            events: list[Event] = []
            while heap and heap[0][0] <= now_s:
                _, kind, k, attempt = heapq.heappop(heap)
                if kind == _FINISH:
                    if self.current[k] == attempt:
                        self._finish(k, now_s, COMPLETED)
                        events.append(JobFinished(now_s=now_s, job_id=self.trace.job_ids[k]))
                else:
                    events += self._outage(self.outages[k], now_s, down=kind == _DOWN)
            arrivals.take(now_s, events)
            decisions = coordinator.apply_all(events or (Tick(now_s=now_s),))
            self.obey_all(decisions, now_s)
            if progress is not None and told - self.left >= _TOLD_EVERY:
                told = self.left
                progress(1.0 - self.left / len(self.trace))

    def obey_all(self, decisions: Sequence[Decision], now_s: float) -> None:
        """Do what the Coordinator has decided."""
        for decision in decisions:
            self._obey(decision, now_s)

    def has_been_running(self, job: int, start_s: float, end_s: float, pool: int) -> None:
        """Take a job in that the Coordinator had started before the simulation, until it ends."""
        self.start_s[job] = start_s
        self._hold(job, start_s, end_s, pool, ())

    def result(self, name: str, elapsed_s: float) -> SimulationResult:
        """Return what has happened."""
        attempts = np.array(self.attempts, dtype=np.float64).reshape(-1, 4)
        promised = sorted(self.promises)
        given = np.array([self.promises[job] for job in promised], dtype=np.float64).reshape(-1, 4)
        return SimulationResult(
            name=name,
            trace=self.trace,
            units=sum(pool.total for pool in self.coordinator.pools),
            start_s=np.array(self.start_s),
            end_s=np.array(self.end_s),
            outcome=np.array(self.outcome, dtype=np.int8),
            evictions=np.array(self.evictions, dtype=np.int64),
            failures=np.array(self.failures, dtype=np.int64),
            attempts=Attempts(
                job=attempts[:, 0].astype(np.int64),
                start_s=attempts[:, 1],
                end_s=attempts[:, 2],
                pool=attempts[:, 3].astype(np.int64),
                nodes=tuple(self.nodes),
            ),
            promises=Promises(
                job=np.array(promised, dtype=np.int64),
                made_s=given[:, 0],
                start_s=given[:, 1],
                expected_s=given[:, 2],
                latest_s=given[:, 3],
            ),
            elapsed_s=elapsed_s,
        )

    def _hold(
        self, job: int, start_s: float, end_s: float, pool: int, nodes: tuple[tuple[int, int], ...]
    ) -> None:
        """Begin an attempt, and foresee its end."""
        self.current[job] = len(self.attempts)
        self.attempts.append((job, start_s, end_s, pool))
        self.nodes.append(nodes)
        heapq.heappush(self.heap, (end_s, _FINISH, job, self.current[job]))

    def _obey(self, decision: Decision, now_s: float) -> None:
        kind = type(decision)
        if kind is Started:
            self._start(decision, now_s)  # type: ignore[arg-type]
        elif kind is Promised:
            assert isinstance(decision, Promised)  # noqa: S101 - for the type checker
            promise = (now_s, decision.start_s, decision.expected_s, decision.latest_s)
            self.promises.setdefault(self.job_of[decision.job_id], promise)
        elif kind is Preempted:
            self._evict(decision, now_s)  # type: ignore[arg-type]
        elif kind is Refused:
            assert isinstance(decision, Refused)  # noqa: S101 - for the type checker
            job = self.job_of[decision.job_id]
            if self.current[job] >= 0 or self.outcome[job]:
                raise PredictorError(f"the coordinator refused an event of job {job}: {decision.reasons}")
            self.outcome[job] = REFUSED
            self.left -= 1

    def _start(self, decision: Started, now_s: float) -> None:
        job = self.job_of[decision.job_id]
        if math.isnan(self.start_s[job]):
            self.start_s[job] = now_s
        restart_s = float(self.trace.restart_cost_s[job]) if self.evictions[job] else 0.0
        self.resumed_s[job] = decision.resume_s
        end_s = now_s + restart_s + self.work_s[job] - decision.resume_s
        self._hold(job, now_s, end_s, self.pools[decision.pool], decision.nodes)

    def _evict(self, decision: Preempted, now_s: float) -> None:
        job = self.job_of[decision.job_id]
        self.evictions[job] += 1
        at = self.current[job]
        end_s = self.attempts[at][2]
        gone_s = now_s + decision.grace_s
        if end_s < gone_s:  # it ends by itself within its grace
            return
        self._stop(job, gone_s)
        if decision.outcome == "cancel":
            self._over(job, now_s, CANCELLED)

    def _finish(self, job: int, now_s: float, outcome: int) -> None:
        self.current[job] = -1
        self._over(job, now_s, outcome)

    def _over(self, job: int, now_s: float, outcome: int) -> None:
        self.outcome[job] = outcome
        self.end_s[job] = now_s
        self.left -= 1

    def _stop(self, job: int, now_s: float) -> None:
        """End the running attempt of a job before its work is done."""
        at = self.current[job]
        owner, start_s, _, pool = self.attempts[at]
        self.attempts[at] = (owner, start_s, now_s, pool)
        self.current[job] = -1

    def _outage(self, outage: Outage, now_s: float, *, down: bool) -> list[Event]:
        """Take units of a pool away and stop what ran on them, or give them back."""
        pool, gone = self.coordinator.pools[outage.pool], self.down[outage.pool]
        events: list[Event] = []
        if down:
            for job in running_on(outage, pool, self._running(outage.pool), gone):
                saved_s = self._saved_s(job, now_s)
                self._stop(job, now_s)
                self.failures[job] += 1
                events.append(JobRequeued(now_s=now_s, job_id=self.trace.job_ids[job], saved_s=saved_s))
            gone.add(outage.node)
        else:
            gone.discard(outage.node)
        if pool.node_units:
            units = 0 if down else pool.node_units[outage.node]
            events.append(NodesChanged(now_s=now_s, pool=pool.name, node_units={outage.node: units}))
        else:
            events.append(NodesChanged(now_s=now_s, pool=pool.name, total=pool.total - len(gone)))
        return events

    def _running(self, pool: int) -> list[tuple[int, int, tuple[tuple[int, int], ...]]]:
        """Return (job, units, nodes) of what runs in a pool, in the order of the trace."""
        return [
            (job, self.width[job], self.nodes[at])
            for job, at in enumerate(self.current)
            if at >= 0 and self.attempts[at][3] == pool
        ]

    def _saved_s(self, job: int, now_s: float) -> float:
        """Return the seconds of a job's work that survive the loss of its node."""
        base_s = self.resumed_s[job]
        kind, every_s = self.trace.checkpoint[job], float(self.trace.checkpoint_interval_s[job])
        restart_s = float(self.trace.restart_cost_s[job]) if self.evictions[job] else 0.0
        done_s = max(now_s - self.attempts[self.current[job]][1] - restart_s, 0.0)
        if kind == "none" or every_s <= 0:
            return base_s
        return base_s + every_s * (done_s // every_s)


def simulate(
    trace: Trace,
    pools: Sequence[Pool],
    policy: Policy,
    arrivals: Arrivals,
    *,
    outages: Sequence[Outage] = (),
    progress: Progress | None = None,
) -> SimulationResult:
    """Play a trace under one policy; what comes in comes out.

    Args:
        trace: the jobs, with what really happens to them.
        pools: what there is to hand out.
        policy: how the Coordinator decides.
        arrivals: what the Coordinator is told of each job.
        outages: when which nodes are gone.
        progress: called with the share of jobs that have ended.

    Raises:
        ArgumentError: jobs wait for what never comes.
    """
    player = Player(Coordinator(policy, pools), trace, arrivals, outages)
    began_s = time.process_time()
    player.play(progress)
    return player.result(policy.name, time.process_time() - began_s)

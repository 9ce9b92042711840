"""This module says what the Coordinator is told of each job, when: its request and what is expected.

The estimates of EASY++ depend on what has ended so far in the simulated schedule, all others are fixed
beforehand.
"""

import math
from collections import defaultdict

import numpy as np

from predictor.contracts.events import Event, JobFinished, JobSubmitted
from predictor.simulation.trace import FloatArray, Trace

_NEVER = float("inf")


class Arrivals:
    """Submissions of a trace in order.

    Args:
        trace: the jobs.
        limit_s: shape (n,), the limits told; None = those of the trace.
        estimate_s: shape (n,), a point for each job, NaN = none; None = none for anybody.
        quantiles_s: shape (n, L), forecast as of submission, NaN rows = none; None = none for anybody.
        recent: estimate by the mean of the last two jobs of the user that have ended (Tsafrir, Etsion,
            Feitelson, Backfilling using system-generated predictions, 2007).
        classes: names of classes that the policy knows; others are told as "".
        first: index of the first job to come; those before it are there already.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        limit_s: FloatArray | None = None,
        estimate_s: FloatArray | None = None,
        quantiles_s: FloatArray | None = None,
        recent: bool = False,
        classes: frozenset[str] = frozenset(),
        first: int = 0,
    ) -> None:
        n = len(trace)
        self._trace = trace
        self._submitted_s: list[float] = [*trace.submitted_s.tolist(), _NEVER]
        self._limit_s = (trace.limit_s if limit_s is None else limit_s).tolist()
        self._width = trace.width.tolist()
        self._work_s = trace.work_s.tolist()
        points = np.full(n, np.nan) if estimate_s is None else estimate_s
        self._estimate_s = _known(points)
        self._quantiles_s = quantiles_s
        self._classes = [name if name in classes else "" for name in trace.workload_class]
        self._deadline_s = _known(trace.deadline_s)
        self._preemptible = [(False, True, None)[value] for value in trace.preemptible.tolist()]
        self._interval_s = trace.checkpoint_interval_s.tolist()
        self._restart_s = trace.restart_cost_s.tolist()
        self._recent: dict[str, list[float]] | None = defaultdict(list) if recent else None
        self._job_of = {job_id: job for job, job_id in enumerate(trace.job_ids)}
        self._next = first

    @property
    def next_s(self) -> float:
        """When the next job comes, ``inf`` = none is left."""
        return self._submitted_s[self._next]

    def take(self, now_s: float, events: list[Event]) -> None:
        """Add the submissions up to this instant to events, whose finishes are learned from before."""
        if self._recent is not None:
            self._learn(events)
        while self._submitted_s[self._next] <= now_s:
            events.append(self._event(self._next, now_s))
            self._next += 1

    def _event(self, job: int, now_s: float) -> JobSubmitted:
        trace = self._trace
        quantiles = None
        if self._quantiles_s is not None:
            row = self._quantiles_s[job].tolist()
            quantiles = None if math.isnan(row[0]) else tuple(row)
        estimate_s = self._estimate_s[job]
        if self._recent is not None:
            past = self._recent[trace.user[job]]
            if len(past) == 2:
                estimate_s = max(1.0, min(self._limit_s[job], sum(past) // 2))
        return JobSubmitted(
            now_s=now_s,
            job_id=trace.job_ids[job],
            width=self._width[job],
            limit_s=self._limit_s[job],
            quantiles_s=quantiles,
            estimate_s=estimate_s,
            user=trace.user[job],
            workload_class=self._classes[job],
            gpu_type=trace.gpu_type[job],
            region=trace.region[job],
            deadline_s=self._deadline_s[job],
            preemptible=self._preemptible[job],
            checkpoint=trace.checkpoint[job],
            checkpoint_interval_s=self._interval_s[job],
            restart_cost_s=self._restart_s[job],
        )

    def _learn(self, events: list[Event]) -> None:
        assert self._recent is not None  # noqa: S101 - for the type checker
        for event in events:
            if type(event) is JobFinished:
                job = self._job_of[event.job_id]
                past = self._recent[self._trace.user[job]]
                past.append(self._work_s[job])
                del past[:-2]


def _known(values: FloatArray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]

"""This module forecasts a stretch of a log as it would have been live: predict, wait, learn, go on.

Backtest, calibration before publishing, and the tests of the service all use it.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.features.assemble import FeatureTable
from predictor.forecasting.calibration import Groups
from predictor.forecasting.duration import Experts, OnlineState, RawForecasts

FloatArray = npt.NDArray[np.float64]
STEP_S = 3600.0  # outcomes are taken in once per step; the service takes them in at once


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcomes:
    """When n jobs were submitted, started and ended, in UTC epoch seconds, and how long they ran.

    Attributes:
        observed: shape (n,), False where the duration is right-censored.
    """

    submitted_s: FloatArray
    start_s: FloatArray
    end_s: FloatArray
    elapsed_s: FloatArray
    observed: npt.NDArray[np.bool_]

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "JobOutcomes":
        """Return the chosen rows."""
        return JobOutcomes(
            submitted_s=self.submitted_s[rows], start_s=self.start_s[rows], end_s=self.end_s[rows],
            elapsed_s=self.elapsed_s[rows], observed=self.observed[rows],
        )  # fmt: skip


class PendingOutcomes:
    """Forecasts whose outcomes are not known yet, learned from in the order of their ends."""

    def __init__(self) -> None:
        self._parts: list[tuple[RawForecasts, JobOutcomes]] = []
        self._ends: list[tuple[float, int, int]] = []  # heap of (end, part, row)

    def add(self, raw: RawForecasts, outcomes: JobOutcomes) -> None:
        """Remember what was forecast for jobs that will end; a job that never ends is never learned."""
        part = len(self._parts)
        self._parts.append((raw, outcomes))
        for row, end_s in enumerate(outcomes.end_s.tolist()):
            if not math.isnan(end_s):
                heapq.heappush(self._ends, (end_s, part, row))

    def learn_until(self, online: OnlineState, now_s: float) -> None:
        """Learn from all jobs that ended before ``now_s``, and forget them."""
        due: list[tuple[int, int]] = []
        while self._ends and self._ends[0][0] < now_s:
            _, part, row = heapq.heappop(self._ends)
            if self._parts[part][1].elapsed_s[row] > 0:
                due.append((part, row))
        if due:
            raw, outcomes = self._gather(due)
            online.learn(raw, outcomes.elapsed_s, outcomes.observed, outcomes.end_s)

    def learn_running(self, online: OnlineState, now_s: float) -> None:
        """Learn that jobs running at ``now_s`` last at least so long; they stay pending."""
        running = [
            (part, row) for _, part, row in sorted(self._ends) if self._parts[part][1].start_s[row] < now_s
        ]
        if running:
            raw, outcomes = self._gather(running)
            count = len(running)
            online.learn(raw, now_s - outcomes.start_s, np.zeros(count, dtype=bool), np.full(count, now_s))

    def _gather(self, picks: list[tuple[int, int]]) -> tuple[RawForecasts, JobOutcomes]:
        def column(values: Callable[[RawForecasts, JobOutcomes], npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.array([values(*self._parts[part])[row] for part, row in picks])

        who = np.empty(len(picks), dtype=object)
        who[:] = [self._parts[part][0].identity[row] for part, row in picks]
        raw = RawForecasts(
            experts=column(lambda raw, _: raw.experts),
            weights=column(lambda raw, _: raw.weights),
            support=column(lambda raw, _: raw.support),
            groups=Groups(
                kind=column(lambda raw, _: raw.groups.kind), length=column(lambda raw, _: raw.groups.length)
            ),
            identity=who,
            limit_s=column(lambda raw, _: raw.limit_s),
        )
        outcomes = JobOutcomes(
            submitted_s=column(lambda _, known: known.submitted_s),
            start_s=column(lambda _, known: known.start_s),
            end_s=column(lambda _, known: known.end_s),
            elapsed_s=column(lambda _, known: known.elapsed_s),
            observed=column(lambda _, known: known.observed),
        )
        return raw, outcomes


def replay(
    experts: Experts,
    online: OnlineState,
    features: FeatureTable,
    outcomes: JobOutcomes,
    *,
    until_s: float | None = None,
    pending: PendingOutcomes | None = None,
) -> DurationForecasts:
    """Forecast n jobs in the order of their submission, learning from each outcome once it is known.

    Args:
        experts: fixed for the stretch.
        online: weights and calibration; changed in place.
        features: n rows.
        outcomes: of the same n rows.
        until_s: moment up to which outcomes are learned after the last job; those still running then
            are taken in as censored. None = stop at the last submission.
        pending: forecasts of earlier stretches whose jobs are still running; changed in place.

    Returns:
        Forecasts in the order of the rows.
    """
    waiting = PendingOutcomes() if pending is None else pending
    quantiles = np.empty((len(features), len(LEVELS)))
    raw_experts = experts.predict(features)
    order = np.argsort(outcomes.submitted_s, kind="stable")
    steps = outcomes.submitted_s[order] // STEP_S
    changes = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    bounds = [0, *changes.tolist(), len(order)] if len(order) else [0]
    for first, last in pairwise(bounds):
        rows = order[first:last]
        waiting.learn_until(online, float(steps[first] * STEP_S))
        raw = online.consider(features.take(rows), raw_experts[rows])
        quantiles[rows] = online.forecast(raw).quantiles_s
        waiting.add(raw, outcomes.take(rows))
    if until_s is not None:
        waiting.learn_until(online, until_s)
        waiting.learn_running(online, until_s)
    return DurationForecasts.build(quantiles, features.limit_s)

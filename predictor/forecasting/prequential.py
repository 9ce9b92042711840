"""This module forecasts a stretch of a log as it would have been live: predict, wait, learn, go on.

Backtest, calibration before publishing, and the tests of the service all use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.features.assemble import FeatureTable
from predictor.forecasting.duration import Experts, OnlineState, RawForecasts

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]
STEP_S = 3600.0  # outcomes are taken in once per step; the service takes them in at once
MAX_RUNNING = 4_000  # running jobs that a calibration looks at


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

    @classmethod
    def join(cls, parts: Sequence["JobOutcomes"]) -> "JobOutcomes":
        """Return all rows of one or more parts."""
        return cls(
            **{
                item.name: np.concatenate([getattr(part, item.name) for part in parts])
                for item in fields(cls)
            }
        )

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

    def add(self, raw: RawForecasts, outcomes: JobOutcomes) -> None:
        """Remember what was forecast for jobs that will end; a job that never ends is never learned."""
        self._parts.append((raw, outcomes))

    def learn_until(self, online: OnlineState, now_s: float) -> None:
        """Learn from all jobs that ended before ``now_s``, and forget them; refresh when it is time."""
        if not self._parts:
            return
        raw, outcomes = self._joined()
        over = outcomes.end_s < now_s
        if over.any():
            ran = np.flatnonzero(over & (outcomes.elapsed_s > 0))
            due = ran[np.argsort(outcomes.end_s[ran], kind="stable")]
            if len(due):
                known = outcomes.take(due)
                online.learn(raw.take(due), known.elapsed_s, known.observed, known.end_s)
            raw, outcomes = raw.take(~over), outcomes.take(~over)
            self._parts = [(raw, outcomes)]
        if online.calibration.is_due(now_s):
            running = np.flatnonzero(outcomes.start_s < now_s)
            chosen = thinned(running)
            online.refresh(
                now_s, raw.take(chosen), outcomes.start_s[chosen], len(chosen) / max(len(running), 1)
            )

    def learn_running(self, online: OnlineState, now_s: float) -> None:
        """Learn for good that jobs running at ``now_s`` last at least so long; they stay pending."""
        if not self._parts:
            return
        raw, outcomes = self._joined()
        running = np.flatnonzero(outcomes.start_s < now_s)
        ages_s = now_s - outcomes.start_s[running]
        count = len(running)
        online.learn(raw.take(running), ages_s, np.zeros(count, dtype=bool), np.full(count, now_s))
        online.refresh(now_s)

    def _joined(self) -> tuple[RawForecasts, JobOutcomes]:
        if len(self._parts) > 1:
            raws, outcomes = zip(*self._parts, strict=True)
            self._parts = [(RawForecasts.join(raws), JobOutcomes.join(outcomes))]
        return self._parts[0]


def thinned(rows: IndexArray) -> IndexArray:
    """Return at most MAX_RUNNING of the rows, evenly spaced."""
    if len(rows) <= MAX_RUNNING:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MAX_RUNNING).astype(np.intp)]


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
    if len(features) and online.calibration.evidence is None:
        unweighted = online.consider(features, raw_experts, outcomes.submitted_s)
        online.calibration.group_lengths(unweighted.median_log_s)
    order = np.argsort(outcomes.submitted_s, kind="stable")
    steps = outcomes.submitted_s[order] // STEP_S
    changes = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    bounds = [0, *changes.tolist(), len(order)] if len(order) else [0]
    for first, last in pairwise(bounds):
        rows = order[first:last]
        waiting.learn_until(online, float(steps[first] * STEP_S))
        raw = online.consider(features.take(rows), raw_experts[rows], outcomes.submitted_s[rows])
        quantiles[rows] = online.forecast(raw).quantiles_s
        waiting.add(raw, outcomes.take(rows))
    if until_s is not None:
        waiting.learn_until(online, until_s)
        waiting.learn_running(online, until_s)
    return DurationForecasts.build(quantiles, features.limit_s)

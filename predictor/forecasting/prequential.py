"""This module forecasts a stretch of a log as it would have been live: predict, wait, learn, go on.

Backtest, calibration before publishing, and the tests of the service all use it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.features.assemble import FeatureTable
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
        self._raw: list[RawForecasts] = []
        self._outcomes: list[JobOutcomes] = []

    def add(self, raw: RawForecasts, outcomes: JobOutcomes) -> None:
        """Remember what was forecast for jobs that will end."""
        self._raw.append(raw)
        self._outcomes.append(outcomes)

    def learn_until(self, online: OnlineState, now_s: float, *, running_as_censored: bool = False) -> None:
        """Learn from all jobs that ended before ``now_s``, and forget them.

        With ``running_as_censored``, also learn that jobs running at ``now_s`` last at least so long.
        """
        if not self._raw:
            return
        raw = RawForecasts(
            experts=np.concatenate([part.experts for part in self._raw]),
            weights=np.concatenate([part.weights for part in self._raw]),
            support=np.concatenate([part.support for part in self._raw]),
            group=np.concatenate([part.group for part in self._raw]),
            identity=np.concatenate([part.identity for part in self._raw]),
            limit_s=np.concatenate([part.limit_s for part in self._raw]),
        )
        outcomes = JobOutcomes(
            submitted_s=np.concatenate([part.submitted_s for part in self._outcomes]),
            start_s=np.concatenate([part.start_s for part in self._outcomes]),
            end_s=np.concatenate([part.end_s for part in self._outcomes]),
            elapsed_s=np.concatenate([part.elapsed_s for part in self._outcomes]),
            observed=np.concatenate([part.observed for part in self._outcomes]),
        )
        with np.errstate(invalid="ignore"):
            ended = outcomes.end_s < now_s
            ran = ended & (outcomes.elapsed_s > 0)
        rows = np.flatnonzero(ran)
        rows = rows[np.argsort(outcomes.end_s[rows], kind="stable")]
        if len(rows):
            online.learn(raw.take(rows), outcomes.elapsed_s[rows], outcomes.observed[rows], outcomes.end_s[rows])
        if running_as_censored:
            with np.errstate(invalid="ignore"):
                running = np.flatnonzero(~ended & (outcomes.start_s < now_s))
            age_s = now_s - outcomes.start_s[running]
            online.learn(raw.take(running), age_s, np.zeros(len(running), dtype=bool), np.full(len(running), now_s))
        keep = np.flatnonzero(~ended)
        self._raw, self._outcomes = [raw.take(keep)], [outcomes.take(keep)]


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
    bounds = np.flatnonzero(np.concatenate([[True], steps[1:] != steps[:-1], [True]])) if len(order) else []
    for first, last in zip(bounds[:-1], bounds[1:], strict=True):
        rows = order[first:last]
        waiting.learn_until(online, float(steps[first] * STEP_S))
        raw = online.consider(features.take(rows), raw_experts[rows])
        quantiles[rows] = online.forecast(raw).quantiles_s
        waiting.add(raw, outcomes.take(rows))
    if until_s is not None:
        waiting.learn_until(online, until_s, running_as_censored=True)
    return DurationForecasts.build(quantiles, features.limit_s)

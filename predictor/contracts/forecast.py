"""This module defines the forecast: a whole distribution of durations as monotone quantiles.

Between two quantiles the logarithm of the duration is linear in the probability; below the lowest level
it is constant, above the highest it goes on with the slope of the last interval up to the limit. One
definition serves scores, the service, and the queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from predictor.errors import ArgumentError

FloatArray = npt.NDArray[np.float64]

LEVELS: tuple[float, ...] = (
    0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
    0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99,
)  # fmt: skip
MIN_DURATION_S = 1.0
_TAIL_PROBABILITY = 0.9999  # survival beyond the last level is cut here


def level_weights(levels: FloatArray) -> FloatArray:
    """Return quadrature weights of the levels over probability (sum 1), shape (L,).

    Each level stands for the probabilities nearer to it than to its neighbours.
    """
    edges = np.concatenate([[0.0], (levels[1:] + levels[:-1]) / 2, [1.0]])
    return np.diff(edges)


_LEVELS = np.array(LEVELS)
_LEVELS.flags.writeable = False  # all forecasts at LEVELS share it
_LEVEL_WEIGHTS = level_weights(_LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a forecast came from.

    Attributes:
        model_version: version of the bundle, or the name of a baseline.
        feature_spec: hash of the feature specification.
        calibration_id: which calibration state was applied, "" = none.
    """

    model_version: str = ""
    feature_spec: str = ""
    calibration_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationForecasts:
    """Forecast duration distributions of n jobs.

    Attributes:
        levels: shape (L,), probabilities, ascending in (0, 1); by default LEVELS, one array that all share.
        quantiles_s: shape (n, L), seconds, non-decreasing along a row, at least MIN_DURATION_S and
            never above the limit.
        limit_s: shape (n,), enforced limit in seconds, ``inf`` = none.
    """

    levels: FloatArray = field(default_factory=lambda: _LEVELS)
    quantiles_s: FloatArray
    limit_s: FloatArray

    @classmethod
    def build(
        cls, quantiles_s: FloatArray, limit_s: FloatArray, levels: FloatArray | None = None
    ) -> "DurationForecasts":
        """Return forecasts made monotone, at least one second and capped at the limit.

        Crossing quantiles are sorted (Chernozhukov, Fernandez-Val, Galichon 2010, rearrangement).
        """
        ordered = np.array(quantiles_s, dtype=np.float64)
        ordered.sort(axis=1)
        limit = np.where(np.isnan(limit_s), np.inf, limit_s)
        np.maximum(ordered, MIN_DURATION_S, out=ordered)
        np.minimum(ordered, np.maximum(limit, MIN_DURATION_S)[:, None], out=ordered)
        return cls(levels=_LEVELS if levels is None else levels, quantiles_s=ordered, limit_s=limit)

    def __len__(self) -> int:
        return len(self.quantiles_s)

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "DurationForecasts":
        """Return the forecasts of the chosen rows."""
        return replace(self, quantiles_s=self.quantiles_s[rows], limit_s=self.limit_s[rows])

    def row(self, row: int) -> "DurationForecasts":
        """Return the forecast of one job, as a view."""
        rows = slice(row, row + 1)
        return DurationForecasts(
            levels=self.levels, quantiles_s=self.quantiles_s[rows], limit_s=self.limit_s[rows]
        )

    def repeat(self, times: int) -> "DurationForecasts":
        """Return the forecast of one job as that of so many like it, as a view."""
        return DurationForecasts(
            levels=self.levels,
            quantiles_s=np.broadcast_to(self.quantiles_s[0], (times, self.quantiles_s.shape[1])),
            limit_s=np.broadcast_to(self.limit_s[0], times),
        )

    def quantile_s(self, level: float) -> FloatArray:
        """Return one quantile of each job in seconds, shape (n,).

        Raises:
            ArgumentError: the level is not strictly between 0 and 1.
        """
        if not 0.0 < level < 1.0:
            raise ArgumentError(
                f"quantile={level} is not a probability; pass a value strictly between 0 and 1"
            )
        logs = np.log(self.quantiles_s)
        at = int(np.clip(np.searchsorted(self.levels, level), 1, len(self.levels) - 1))
        low, high = self.levels[at - 1], self.levels[at]
        share = (max(level, self.levels[0]) - low) / (high - low)  # above 1 beyond the last level
        value = np.exp(logs[:, at - 1] + share * (logs[:, at] - logs[:, at - 1]))
        return np.asarray(np.minimum(value, np.maximum(self.limit_s, MIN_DURATION_S)))

    def mean_s(self) -> FloatArray:
        """Return the expected duration in seconds, shape (n,)."""
        weights = _LEVEL_WEIGHTS if self.levels is _LEVELS else level_weights(self.levels)
        return np.asarray(self.quantiles_s @ weights)

    def cdf(self, duration_s: FloatArray) -> FloatArray:
        """Return P(duration <= duration_s) of each job, shape (n,).

        All probability that lies at or above the limit is reached at the limit.
        """
        logs = np.log(self.quantiles_s)
        x = np.log(np.maximum(duration_s, 1e-9))
        n, width = logs.shape
        rows = np.arange(n)
        at = np.clip((logs <= x[:, None]).sum(axis=1), 1, width - 1)
        low, high = logs[rows, at - 1], logs[rows, at]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(high > low, (x - low) / (high - low), np.where(x >= high, 1.0, 0.0))
        probability = self.levels[at - 1] + share * (self.levels[at] - self.levels[at - 1])
        probability = np.where(x < logs[:, 0], 0.0, np.clip(probability, 0.0, _TAIL_PROBABILITY))
        return np.asarray(np.where(duration_s >= self.limit_s, 1.0, probability))

    def survival(self, age_s: FloatArray) -> FloatArray:
        """Return P(duration > age) of each job, shape (n,)."""
        return 1.0 - self.cdf(age_s)

    def remaining(self, elapsed_s: FloatArray) -> "DurationForecasts":
        """Return the distributions of the remaining time of jobs that have run for ``elapsed_s``.

        The quantile at p of what remains is Q(F(a) + p (1 - F(a))) - a, at least one second while the
        job runs and never past the limit.

        Raises:
            ArgumentError: an elapsed time is negative or not a number.
        """
        if not np.all(elapsed_s >= 0):
            raise ArgumentError("elapsed_s must be 0 or more for every job")
        logs = np.log(self.quantiles_s)
        passed = self.cdf(elapsed_s)
        passed = np.where(elapsed_s > 0, np.minimum(passed, _TAIL_PROBABILITY), 0.0)
        wanted = passed[:, None] + self.levels[None, :] * (1.0 - passed[:, None])
        at = np.clip(np.searchsorted(self.levels, wanted), 1, len(self.levels) - 1)
        low, high = self.levels[at - 1], self.levels[at]
        share = (np.maximum(wanted, self.levels[0]) - low) / (high - low)
        rows = np.arange(len(self))[:, None]
        total = np.exp(np.minimum(logs[rows, at - 1] + share * (logs[rows, at] - logs[rows, at - 1]), 50.0))
        limit_left = np.maximum(self.limit_s - elapsed_s, MIN_DURATION_S)
        return DurationForecasts.build(total - elapsed_s[:, None], limit_left, self.levels)


NAMED_LEVELS: dict[str, float] = {
    "q05": 0.05, "q10": 0.1, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q90": 0.9, "q95": 0.95,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForecast:
    """What is answered for one job.

    Attributes:
        quantiles_s: seconds by name of the quantile (``q05`` ... ``q95``), non-decreasing.
        mean_s: expected seconds.
        limit_s: enforced limit, None = none.
        fallback: None when the job's own history stands behind the forecast, else the reason why it
            rests on something wider: ``no-history-of-this-request`` or ``no-history-of-this-user``.
        support_level: whose finished jobs the forecast rests on: ``template``, ``user`` or ``site``.
        support: how many finished jobs that are.
        distribution: the whole distribution, one row.
    """

    quantiles_s: dict[str, float]
    mean_s: float
    limit_s: float | None
    fallback: str | None
    support_level: str
    support: int
    provenance: Provenance
    distribution: DurationForecasts

    @property
    def level_quantiles_s(self) -> tuple[float, ...]:
        """All quantiles in seconds, at LEVELS."""
        return tuple(self.distribution.quantiles_s[0].tolist())

    def survival(self, age_s: float) -> float:
        """Return P(duration > age)."""
        return self.survival_at((age_s,))[0]

    def survival_at(self, ages_s: Sequence[float]) -> list[float]:
        """Return P(duration > age) for each age in seconds, in their order."""
        if not ages_s:
            return []
        ages = np.array(ages_s, dtype=np.float64)
        probabilities: list[float] = self.distribution.repeat(len(ages)).survival(ages).tolist()
        return probabilities

    def remaining_quantiles_s(self, elapsed_s: float) -> dict[str, float]:
        """Return quantiles of the remaining seconds of a job that has run for ``elapsed_s``."""
        return named_quantiles(self.distribution.remaining(np.array([elapsed_s])), 0)


def named_quantiles(forecasts: DurationForecasts, row: int) -> dict[str, float]:
    """Return the named quantiles of one row, seconds; the forecasts must be at LEVELS."""
    values = forecasts.quantiles_s[row]
    return {name: float(values[LEVELS.index(level)]) for name, level in NAMED_LEVELS.items()}

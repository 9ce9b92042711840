"""This module scores forecast durations against what happened."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import DurationForecasts, level_weights

FloatArray = npt.NDArray[np.float64]

PINBALL_LEVELS: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
COVERAGE_LEVELS: tuple[float, ...] = (0.5, 0.9, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of one model on one set of jobs; ratios and CRPS in natural log of seconds.

    Attributes:
        rows: number of jobs.
        median_abs_log_ratio, mean_abs_log_ratio: of ln(point / actual).
        mae_s: mean absolute error of the point forecast, seconds.
        within_2x: share of jobs whose point forecast is off by less than a factor of two.
        under_rate: share of jobs that ran longer than the point forecast.
        crps_log: continuous ranked probability score of ln(duration).
        coverage: share of jobs that ran no longer than the quantile, by level.
        pinball: pinball loss of ln(duration), by level.
    """

    rows: int
    median_abs_log_ratio: float
    mean_abs_log_ratio: float
    mae_s: float
    within_2x: float
    under_rate: float
    crps_log: float
    coverage: dict[str, float]
    pinball: dict[str, float]

    def to_json(self, *, outcome_slice: bool = False) -> dict[str, object]:
        """Return plain JSON values; coverage inside an outcome slice gets a name that says so."""
        key = "coverage_given_outcome" if outcome_slice else "coverage"
        return {
            "rows": self.rows,
            "median_abs_log_ratio": self.median_abs_log_ratio,
            "mean_abs_log_ratio": self.mean_abs_log_ratio,
            "mae_s": self.mae_s,
            "within_2x": self.within_2x,
            "under_rate": self.under_rate,
            "crps_log": self.crps_log,
            key: dict(self.coverage),
            "pinball": dict(self.pinball),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredForecasts:
    """Point and distribution forecasts of n jobs by one model.

    Attributes:
        point_s: shape (n,), what the model would say if asked for one number.
        distribution: n forecasts.
    """

    point_s: FloatArray
    distribution: DurationForecasts


def level_name(level: float) -> str:
    """Return the name of a quantile: 0.95 is ``q95``."""
    return f"q{round(level * 100):02d}"


def score(forecasts: ScoredForecasts, elapsed_s: FloatArray) -> Scores:
    """Score n forecasts.

    Ratios and errors are against the seconds that the job really ran. For coverage, CRPS and pinball a
    job that ran into its limit counts as having run just that long: a scheduler frees the resources there,
    and the seconds it takes to kill a job are not the forecast's business.

    Args:
        forecasts: of n jobs.
        elapsed_s: shape (n,), seconds they ran, > 0.
    """
    ran = np.maximum(elapsed_s, 1.0)
    ratio = np.log(np.maximum(forecasts.point_s, 1.0) / ran)
    distribution = forecasts.distribution
    occupied = np.minimum(ran, np.maximum(distribution.limit_s, 1.0))
    log_occupied = np.log(occupied)
    logs = np.log(distribution.quantiles_s)
    error = log_occupied[:, None] - logs
    pinball = np.maximum(distribution.levels * error, (distribution.levels - 1.0) * error)
    quantiles = {level: distribution.quantile_s(level) for level in {*COVERAGE_LEVELS, *PINBALL_LEVELS}}

    def one_pinball(level: float) -> float:
        miss = log_occupied - np.log(quantiles[level])
        return float(np.maximum(level * miss, (level - 1.0) * miss).mean())

    return Scores(
        rows=len(ran),
        median_abs_log_ratio=float(np.median(np.abs(ratio))),
        mean_abs_log_ratio=float(np.abs(ratio).mean()),
        mae_s=float(np.abs(forecasts.point_s - ran).mean()),
        within_2x=float((np.abs(ratio) < np.log(2.0)).mean()),
        under_rate=float((forecasts.point_s < occupied * (1 - 1e-9)).mean()),
        crps_log=float((2.0 * pinball @ level_weights(distribution.levels)).mean()),
        coverage={
            level_name(level): float((occupied <= quantiles[level] * (1 + 1e-9)).mean())
            for level in COVERAGE_LEVELS
        },
        pinball={level_name(level): one_pinball(level) for level in PINBALL_LEVELS},
    )

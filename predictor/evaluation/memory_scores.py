"""This module scores forecasts of peak memory: point errors, bounds, first allocations, and fits."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScores:
    """Errors of forecasts; ``under_rate`` is the share below the peak, ``within_10`` that within 10 %."""

    mape: float
    median_ape: float
    under_rate: float
    within_10: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundScores:
    """Upper bounds: wanted and observed share of peaks at or below, MiB above the peak on average."""

    target: float
    coverage: float
    mean_over_mib: float
    few_groups: bool
    support: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyScores:
    """First allocations with one retry on the whole card.

    Attributes:
        oom_rate: share of runs that died at first.
        maq: memory allocation quality, usage / (usage + over + under).
        mean_over_mib: MiB held idle, on average over the runs.
    """

    oom_rate: float
    maq: float
    mean_over_mib: float


def score_points(forecast_mib: FloatArray, peak_mib: FloatArray) -> PointScores:
    """Score forecasts, shape (n,), against peaks."""
    error = np.abs(forecast_mib / peak_mib - 1.0)
    return PointScores(
        mape=float(error.mean()), median_ape=float(np.median(error)),
        under_rate=float(np.mean(forecast_mib < peak_mib)), within_10=float(np.mean(error <= 0.1)),
    )  # fmt: skip


def score_policy(
    first_mib: FloatArray, peak_mib: FloatArray, capacity_mib: float, *, lost_share: float = 0.25
) -> PolicyScores:
    """Score first allocations: a run that dies loses ``lost_share`` of itself and gets the whole card.

    References:
        Memory allocation quality: Witt et al., "Predictive Performance Modeling for Distributed Batch
        Processing using Black Box Monitoring and Machine Learning", 2019, and Tovar et al., 2018.
    """
    given = np.minimum(first_mib, capacity_mib)
    died = given < peak_mib
    over = np.where(died, capacity_mib - peak_mib, given - peak_mib)
    under = np.where(died, lost_share * given, 0.0)
    used = peak_mib.sum()
    return PolicyScores(
        oom_rate=float(died.mean()), maq=float(used / (used + over.sum() + under.sum())),
        mean_over_mib=float(over.mean()),
    )  # fmt: skip


def area_under_curve(score: FloatArray, positive: npt.NDArray[np.bool_]) -> float:
    """Return the chance that a positive row scores above a negative one; NaN with one class only."""
    above, below = score[positive], score[~positive]
    if not len(above) or not len(below):
        return float("nan")
    order = np.sort(below)
    left = np.searchsorted(order, above, side="left")
    right = np.searchsorted(order, above, side="right")
    return float(np.mean((left + right) / 2.0) / len(below))


def caught_at_false_alarm(score: FloatArray, positive: npt.NDArray[np.bool_], false_alarm: float) -> float:
    """Return the share of positive rows above the score that this share of negative rows exceeds."""
    above, below = score[positive], score[~positive]
    if not len(above) or not len(below):
        return float("nan")
    threshold = np.quantile(below, 1.0 - false_alarm, method="higher")
    return float(np.mean(above > threshold))

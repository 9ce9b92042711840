"""This module reads quantiles and remaining times off one job's forecast, compiled for scheduling passes.

The definitions are those of ``contracts.forecast.DurationForecasts``: between two levels the logarithm
of the duration is linear in the probability, below the lowest it is constant, above the highest it goes
on with the last slope up to the limit. A test holds both equal.
"""

import numpy as np

from predictor.contracts.forecast import LEVELS, level_weights
from predictor.features.compiled import compiled
from predictor.scheduling.store import FloatArray

_LEVELS = np.array(LEVELS)
_WEIGHTS = level_weights(_LEVELS)
_LAST = len(LEVELS) - 1
_TAIL = 0.9999
_MOST_LOG = 50.0
MEAN = -1.0  # in place of a level: the expected duration
GEOMETRIC_MEAN = -2.0  # in place of a level: exp of the expected logarithm

# Assumed where neither a forecast nor an estimate is known: quantiles as shares of the limit. Of jobs in
# public logs the median uses about a third of its limit, a tenth less than a hundredth.
_SHARE_LEVELS = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
_SHARE_LOGS = np.log(np.array([0.005, 0.01, 0.3, 1.0, 1.0]))
_ASSUMED_LIMIT_S = 4 * 3600.0
ASSUMED_LOG_SHARES = np.interp(_LEVELS, _SHARE_LEVELS, _SHARE_LOGS)


@compiled
def assume_log_quantiles(logs: FloatArray, limit_s: float) -> None:
    """Set log quantiles, shape (L,), of a job of which nothing but its limit is known."""
    scale = np.log(max(limit_s if np.isfinite(limit_s) else _ASSUMED_LIMIT_S, 1.0))
    for k in range(_LAST + 1):
        logs[k] = max(ASSUMED_LOG_SHARES[k] + scale, 0.0)


@compiled
def quantile_s(logs: FloatArray, limit_s: float, level: float) -> float:
    """Return the duration at one level, seconds; MEAN and GEOMETRIC_MEAN are accepted as levels."""
    if level == -1.0:
        total = 0.0
        for k in range(_LAST + 1):
            total += _WEIGHTS[k] * np.exp(logs[k])
        return float(max(min(total, limit_s), 1.0))
    if level == -2.0:
        total = 0.0
        for k in range(_LAST + 1):
            total += _WEIGHTS[k] * logs[k]
        return float(max(min(np.exp(total), limit_s), 1.0))
    at = int(np.searchsorted(_LEVELS, level))
    at = min(max(at, 1), _LAST)
    share = (max(level, _LEVELS[0]) - _LEVELS[at - 1]) / (_LEVELS[at] - _LEVELS[at - 1])
    log = min(logs[at - 1] + share * (logs[at] - logs[at - 1]), _MOST_LOG)
    return float(max(min(np.exp(log), limit_s), 1.0))


@compiled
def passed_probability(logs: FloatArray, limit_s: float, elapsed_s: float) -> float:
    """Return P(duration <= elapsed)."""
    if elapsed_s >= limit_s:
        return 1.0
    x = np.log(max(elapsed_s, 1e-9))
    if x < logs[0]:
        return 0.0
    at = int(np.searchsorted(logs, x, side="right"))
    at = min(max(at, 1), _LAST)
    low, high = logs[at - 1], logs[at]
    share = 1.0 if x >= high else 0.0
    if high > low:
        share = (x - low) / (high - low)
    return float(min(max(_LEVELS[at - 1] + share * (_LEVELS[at] - _LEVELS[at - 1]), 0.0), _TAIL))


@compiled
def remaining_s(logs: FloatArray, limit_s: float, elapsed_s: float, level: float) -> float:
    """Return the quantile of the remaining seconds of a job that has run for ``elapsed_s``.

    It is Q(F(a) + p (1 - F(a))) - a, at least one second and never past the limit.
    """
    passed = 0.0
    if elapsed_s > 0.0:
        passed = min(passed_probability(logs, limit_s, elapsed_s), _TAIL)
    wanted = passed + level * (1.0 - passed)
    at = int(np.searchsorted(_LEVELS, wanted))
    at = min(max(at, 1), _LAST)
    share = (max(wanted, _LEVELS[0]) - _LEVELS[at - 1]) / (_LEVELS[at] - _LEVELS[at - 1])
    total = np.exp(min(logs[at - 1] + share * (logs[at] - logs[at - 1]), _MOST_LOG))
    return float(max(min(total - elapsed_s, limit_s - elapsed_s), 1.0))

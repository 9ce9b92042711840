"""This module forecasts how long a job would run on another placement than the one it is known on."""

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, DurationForecasts, level_weights
from predictor.contracts.topology import RankedPlacement

FloatArray = npt.NDArray[np.float64]


def duration_on(
    reference: DurationForecasts, placement: RankedPlacement, *, reference_throughput: float = 1.0
) -> DurationForecasts:
    """Return the forecasts of jobs on a placement: reference duration over relative throughput.

    On the log scale the two distributions are added as independent, so that the result is wider than either.

    Args:
        reference: forecasts on a placement whose relative throughput is ``reference_throughput``; 1 is the
            best candidate.
        placement: the placement asked for, with its own uncertainty.
    """
    log_s = np.log(reference.quantiles_s)
    # slower than expected means longer: signs turn
    log_ratio = np.log(placement.relative_throughput) + np.array(placement.log_residual_quantiles)
    shift = np.log(reference_throughput) - np.minimum(log_ratio, 0.0)[::-1]
    total = (log_s[:, :, None] + shift[None, None, :]).reshape(len(log_s), -1)
    weights = np.outer(level_weights(reference.levels), level_weights(np.array(LEVELS))).reshape(-1)
    quantiles = np.stack([_weighted(row, weights, reference.levels) for row in total])
    return DurationForecasts.build(np.exp(quantiles), reference.limit_s, reference.levels)


def _weighted(values: FloatArray, weights: FloatArray, levels: FloatArray) -> FloatArray:
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.asarray(np.interp(levels, middle, values[order]))

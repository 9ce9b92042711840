"""This module measures how far forecasts of relative throughput were off, as quantiles.

It is split conformal prediction on the log ratio with exchangeable groups (V. Vovk, A. Gammerman,
G. Shafer, "Algorithmic Learning in a Random World", 2005): each group of candidates weighs the same.
"""

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS

FloatArray = npt.NDArray[np.float64]
LOW, HIGH = 0.05, 0.95
# where nothing was ever measured: the worst placement of a group is seldom slower than a third of the best
UNMEASURED = tuple((np.log(3.0) * (2.0 * np.array(LEVELS) - 1.0)).tolist())


def residual_quantiles(residuals: FloatArray, group: npt.NDArray[np.intp]) -> tuple[float, ...]:
    """Return the quantiles of residuals at LEVELS, all groups of the same weight.

    Args:
        residuals: shape (n,), log of actual over expected relative throughput.
        group: shape (n,).
    """
    if not len(residuals):
        return UNMEASURED
    _, index, size = np.unique(group, return_inverse=True, return_counts=True)
    order = np.argsort(residuals, kind="stable")
    share = np.cumsum((1.0 / size[index])[order]) / len(size)
    # outwards by one group in n + 1, so that the promise holds for the next one
    n = len(size)
    levels = np.array(LEVELS)
    wanted = np.where(levels < 0.5, levels * (n + 1) / n - 1.0 / n, levels * (n + 1) / n)
    at = np.searchsorted(share, np.clip(wanted, 0.0, 1.0) - 1e-12)
    return tuple(residuals[order][np.minimum(at, len(order) - 1)].tolist())


def band(log_relative: float, quantiles: tuple[float, ...]) -> tuple[float, float]:
    """Return the 90 % interval of a relative throughput, within [0, 1]."""
    low = np.exp(log_relative + quantiles[LEVELS.index(LOW)])
    high = np.exp(log_relative + quantiles[LEVELS.index(HIGH)])
    return float(min(low, 1.0)), float(min(high, 1.0))

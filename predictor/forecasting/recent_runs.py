"""This module forecasts with the empirical distribution of a key's last runs.

It is both an expert of the pool and the distribution that the non-learned baselines get, so that CRPS
compares like with like. The template predictor (median of the last ten runs of the same template) goes
back to Gibbons 1997 and Smith, Foster and Taylor 1998.
"""

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]
_LEVELS = np.array(LEVELS)


def recent_quantiles(recent_log_s: npt.NDArray[np.float32], otherwise: FloatArray) -> FloatArray:
    """Return the empirical log quantiles of the last runs, shape (n, L).

    Args:
        recent_log_s: shape (n, RECENT), log seconds, newest first, NaN-padded.
        otherwise: shape (n, L) or (L,), log quantiles of jobs without a history.
    """
    out = np.empty((len(recent_log_s), len(_LEVELS)))
    out[:] = otherwise
    _empirical(recent_log_s, _LEVELS, out)
    return out


@compiled
def _empirical(recent: npt.NDArray[np.float32], levels: FloatArray, out: FloatArray) -> None:
    scratch = np.empty(recent.shape[1])
    for row in range(recent.shape[0]):
        write_empirical(recent[row], levels, scratch, out[row])


@compiled
def write_empirical(
    recent: npt.NDArray[np.float32], levels: FloatArray, scratch: FloatArray, out: FloatArray
) -> bool:
    """Write the empirical quantiles of the last runs of one job; returns False where there are none.

    Args:
        recent: shape (RECENT,), newest first, NaN-padded.
        levels: shape (L,).
        scratch: shape (RECENT,), overwritten.
        out: shape (L,), written.
    """
    size = 0
    while size < recent.shape[0] and not np.isnan(recent[size]):
        value = np.float64(recent[size])
        place = size
        while place > 0 and scratch[place - 1] > value:
            scratch[place] = scratch[place - 1]
            place -= 1
        scratch[place] = value
        size += 1
    if size == 0:
        return False
    for index in range(levels.shape[0]):
        position = levels[index] * (size - 1)
        low = int(position)
        high = min(low + 1, size - 1)
        out[index] = scratch[low] + (position - low) * (scratch[high] - scratch[low])
    return True

"""This module turns effects of placements into relative throughputs, the best candidate being 1."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

# log throughput lost per e-fold of the largest count on a node, where nothing was measured: so small that it
# says "no preference", and yet it orders candidates by their fullest node
CROWDING = 0.02
# runs of a cluster at which its measurements and the prior weigh the same
HALF_EVIDENCE_RUNS = 10.0
# the model is shrunk as far as the best choice asks; forecasts of the ratio want their spread back, where
# shapes were measured with this job but a little
STRETCH, SEEN_STRETCH, SPREAD = 1.5, 1.2, 0.035
_GRID = np.linspace(-3.0, 3.0, 601)


def evidence_weight(runs: float) -> float:
    """Return the weight of what was measured, in [0, 1), against the prior."""
    return runs / (runs + HALF_EVIDENCE_RUNS)


def shrunk(effects: FloatArray, prior: FloatArray, weight: float) -> FloatArray:
    """Return effects with the prior added as far as evidence is missing."""
    return np.asarray(effects + (1.0 - weight) * prior)


def crowding(patterns: Sequence[Sequence[int]]) -> FloatArray:
    """Return the prior's effect of a placement, shape (n,): its fullest node counts and nothing else."""
    return -CROWDING * np.log([float(max(pattern)) for pattern in patterns])


def expected_log_relative(effects: FloatArray, group: IntArray, stretch: float = STRETCH) -> FloatArray:
    """Return the expected log of throughput over that of the candidate that proves best, at most 0.

    The best of several uncertain candidates is better than the best forecast: its level is the mean of the
    maximum of independent normals around the forecasts.

    Args:
        effects: shape (n,), natural log.
        group: shape (n,), which candidates compete.
    """
    centred = stretch * effects
    top = np.full(group.max() + 1, -np.inf)
    np.maximum.at(top, group, centred)
    below = centred - top[group]
    log_share = np.zeros((len(top), len(_GRID)))
    np.add.at(log_share, group, log_ndtr(((_GRID * 0.1)[None, :] - below[:, None]) / SPREAD))
    step = 0.1 * (_GRID[1] - _GRID[0])
    level = 0.1 * _GRID[0] + step * ((1.0 - np.exp(log_share)).sum(axis=1) - 0.5)
    return np.asarray(np.minimum(below - level[group], 0.0))

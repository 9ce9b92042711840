"""This module pools the distributions of several experts and reads quantiles at any probability.

The pool is linear in the distribution functions (Stone 1961): a mixture keeps the modes that averaging
quantiles would smear. Each expert enters as a piecewise linear distribution function of log duration.
"""

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, level_weights
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]


def pooled_quantiles(experts: FloatArray, weights: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Return log quantiles of the pool.

    Args:
        experts: shape (n, K, L), log quantiles of K experts at LEVELS, non-decreasing.
        weights: shape (n, K), non-negative, each row sums to 1.
        probabilities: shape (n, P), ascending along a row, in (0, 1).

    Returns:
        shape (n, P).
    """
    out = np.empty(probabilities.shape)
    _read_pool(experts, weights, level_weights(np.array(LEVELS)), probabilities, out)
    return out


def pool_cdf(experts: FloatArray, weights: FloatArray, log_duration: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return P(T < t) and P(T <= t) of the pool, shape (n,) each; they differ where experts have atoms.

    Args:
        experts: shape (n, K, L), log quantiles at LEVELS.
        weights: shape (n, K).
        log_duration: shape (n,).
    """
    below, upto = np.empty(len(experts)), np.empty(len(experts))
    _cdf(experts, weights, np.array(LEVELS), log_duration, below, upto)
    return below, upto


@compiled
def _read_pool(
    experts: FloatArray, weights: FloatArray, mass: FloatArray, probabilities: FloatArray, out: FloatArray
) -> None:
    kinds, levels = experts.shape[1], experts.shape[2]
    value = np.empty(kinds * levels)
    share = np.empty(kinds * levels)
    pointer = np.empty(kinds, dtype=np.int64)
    for row in range(experts.shape[0]):
        pointer[:] = 0
        count = 0
        for _ in range(kinds * levels):  # merge the sorted quantiles of all experts
            best = -1
            for kind in range(kinds):
                if pointer[kind] < levels and (
                    best < 0 or experts[row, kind, pointer[kind]] < experts[row, best, pointer[best]]
                ):
                    best = kind
            if weights[row, best] > 0.0:
                value[count] = experts[row, best, pointer[best]]
                share[count] = weights[row, best] * mass[pointer[best]]
                count += 1
            pointer[best] += 1
        done = 0.5 * share[0]  # each value stands in the middle of its mass
        at = 0
        for index in range(probabilities.shape[1]):
            wanted = probabilities[row, index]
            while at < count - 1 and done + 0.5 * (share[at] + share[at + 1]) < wanted:
                done += 0.5 * (share[at] + share[at + 1])
                at += 1
            if wanted <= done or at == count - 1:
                out[row, index] = value[at]
            else:
                step = 0.5 * (share[at] + share[at + 1])
                out[row, index] = value[at] + (wanted - done) / step * (value[at + 1] - value[at])


@compiled
def _one_cdf(quantiles: FloatArray, levels: FloatArray, at: float, strict: bool) -> float:
    last = levels.shape[0] - 1
    if at < quantiles[0] or (strict and at <= quantiles[0]):
        return 0.0
    if at > quantiles[last] or (not strict and at >= quantiles[last]):
        return 1.0
    low, high = 0, last  # bisection: quantiles[low] <= at <= quantiles[high]
    while high - low > 1:
        middle = (low + high) // 2
        if quantiles[middle] < at or (not strict and quantiles[middle] <= at):
            low = middle
        else:
            high = middle
    width = quantiles[high] - quantiles[low]
    if width <= 0.0:
        return levels[low] if strict else levels[high]
    return levels[low] + (levels[high] - levels[low]) * (at - quantiles[low]) / width


@compiled
def _cdf(
    experts: FloatArray, weights: FloatArray, levels: FloatArray, log_duration: FloatArray, below: FloatArray, upto: FloatArray
) -> None:
    for row in range(experts.shape[0]):
        below[row] = 0.0
        upto[row] = 0.0
        for kind in range(experts.shape[1]):
            below[row] += weights[row, kind] * _one_cdf(experts[row, kind], levels, log_duration[row], True)
            upto[row] += weights[row, kind] * _one_cdf(experts[row, kind], levels, log_duration[row], False)

"""This module pools the distributions of several experts and reads quantiles at any probability.

The pool is linear in the distribution functions (Stone 1961): a mixture keeps the modes that averaging
quantiles would smear. Each expert enters as the distribution function of log duration that is linear
between its quantiles at LEVELS and has exponential tails outside of them; ``pooled_quantiles`` inverts
what ``pool_cdf`` evaluates, taking one expert's tail as linear between the knots of another (which is off
by no more than the 1 % that lies in a tail, and ten times faster than solving it).
"""

import math

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]

_LEVELS = np.array(LEVELS)
LEAST_TAIL_SCALE = 0.05  # log seconds; also an expert that names one duration leaves room beside it
_TAIL_STEPS = 4  # levels between the outermost one and the one that sets the slope of the tail
_BISECTIONS = 40


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
    _read_pool(experts, weights, _LEVELS, probabilities, out)
    return out


def weighted_mean(experts: FloatArray, weights: FloatArray, place: int) -> FloatArray:
    """Return the weighted mean of one quantile of the experts, shape (n,).

    Args:
        experts: shape (n, K, L).
        weights: shape (n, K).
        place: which of the L quantiles.
    """
    out = np.empty(len(experts))
    _mean_at(experts, weights, place, out)
    return out


def pool_cdf(
    experts: FloatArray, weights: FloatArray, log_duration: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return P(T < t) and P(T <= t) of the pool, shape (n,) each; they differ where experts have atoms.

    Args:
        experts: shape (n, K, L), log quantiles at LEVELS.
        weights: shape (n, K).
        log_duration: shape (n,).
    """
    below, upto = np.empty(len(experts)), np.empty(len(experts))
    _cdf(experts, weights, _LEVELS, log_duration, below, upto)
    return below, upto


@compiled
def _mean_at(experts: FloatArray, weights: FloatArray, place: int, out: FloatArray) -> None:
    for row in range(experts.shape[0]):
        out[row] = 0.0
        for kind in range(experts.shape[1]):
            out[row] += experts[row, kind, place] * weights[row, kind]


@compiled
def _lower_tail(quantiles: FloatArray, levels: FloatArray, at: float) -> float:
    step = quantiles[_TAIL_STEPS] - quantiles[0]
    scale = max(step / math.log(levels[_TAIL_STEPS] / levels[0]), LEAST_TAIL_SCALE)
    return float(levels[0] * math.exp((at - quantiles[0]) / scale))


@compiled
def _upper_tail(quantiles: FloatArray, levels: FloatArray, at: float) -> float:
    last = levels.shape[0] - 1
    step = quantiles[last] - quantiles[last - _TAIL_STEPS]
    scale = max(step / math.log((1.0 - levels[last - _TAIL_STEPS]) / (1.0 - levels[last])), LEAST_TAIL_SCALE)
    return float(1.0 - (1.0 - levels[last]) * math.exp(-(at - quantiles[last]) / scale))


@compiled
def _both_cdf(quantiles: FloatArray, levels: FloatArray, at: float, first: int) -> tuple[int, float, float]:
    """Return the first quantile not below ``at`` (searched from ``first``), P(T < at) and P(T <= at)."""
    count = levels.shape[0]
    while first < count and quantiles[first] < at:
        first += 1
    if first == count:
        tail = _upper_tail(quantiles, levels, at)
        return first, tail, tail
    if first == 0:
        below = _lower_tail(quantiles, levels, at)
    else:
        width = quantiles[first] - quantiles[first - 1]
        below = levels[first - 1] + (levels[first] - levels[first - 1]) * (at - quantiles[first - 1]) / width
    last = first
    while last + 1 < count and quantiles[last + 1] == at:
        last += 1
    return first, below, levels[last] if quantiles[first] == at else below


@compiled
def _mixture_cdf(
    experts: FloatArray, weights: FloatArray, levels: FloatArray, at: float
) -> tuple[float, float]:
    below, upto = 0.0, 0.0
    for kind in range(experts.shape[0]):
        _, strict, full = _both_cdf(experts[kind], levels, at, 0)
        below += weights[kind] * strict
        upto += weights[kind] * full
    return below, upto


@compiled
def _cdf(
    experts: FloatArray,
    weights: FloatArray,
    levels: FloatArray,
    log_duration: FloatArray,
    below: FloatArray,
    upto: FloatArray,
) -> None:
    for row in range(experts.shape[0]):
        below[row], upto[row] = _mixture_cdf(experts[row], weights[row], levels, log_duration[row])


@compiled
def _bisect(
    experts: FloatArray, weights: FloatArray, levels: FloatArray, low: float, high: float, wanted: float
) -> float:
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if _mixture_cdf(experts, weights, levels, middle)[1] < wanted:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def _read_pool(
    experts: FloatArray, weights: FloatArray, levels: FloatArray, probabilities: FloatArray, out: FloatArray
) -> None:
    kinds, count = experts.shape[1], experts.shape[2]
    pointer = np.empty(kinds, dtype=np.int64)
    for row in range(experts.shape[0]):
        pointer[:] = 0
        knot, below, upto = -np.inf, 0.0, 0.0
        left, reached = -np.inf, 0.0  # the knot before, and the distribution function there
        for index in range(probabilities.shape[1]):
            wanted = probabilities[row, index]
            while upto < wanted:
                following = np.inf
                for kind in range(kinds):
                    at = pointer[kind]
                    while at < count and experts[row, kind, at] <= knot:
                        at += 1
                    pointer[kind] = at
                    if at < count:
                        following = min(following, experts[row, kind, at])
                if following == np.inf:
                    break
                left, reached = knot, upto
                knot, below, upto = following, 0.0, 0.0
                for kind in range(kinds):
                    _, strict, full = _both_cdf(experts[row, kind], levels, knot, pointer[kind])
                    below += weights[row, kind] * strict
                    upto += weights[row, kind] * full
            if upto < wanted:  # beyond the last knot
                out[row, index] = _bisect(experts[row], weights[row], levels, knot, knot + 20.0, wanted)
            elif wanted >= below or below <= reached:
                out[row, index] = knot
            elif left == -np.inf:
                out[row, index] = _bisect(experts[row], weights[row], levels, knot - 20.0, knot, wanted)
            else:  # linear between two knots
                out[row, index] = left + (wanted - reached) / (below - reached) * (knot - left)

"""This module pools the distributions of several experts and reads quantiles at any probability.

The pool is linear in the distribution functions (Stone 1961): a mixture keeps the modes that averaging
quantiles would smear. Each expert enters as the distribution function of log duration that is linear
between its quantiles at LEVELS and has exponential tails outside of them; ``pooled_quantiles`` inverts
exactly what ``pool_cdf`` evaluates.
"""

import math

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]

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
    _read_pool(experts, weights, np.array(LEVELS), probabilities, out)
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
def _expert_cdf(quantiles: FloatArray, levels: FloatArray, at: float, strict: bool) -> float:
    last = levels.shape[0] - 1
    if at < quantiles[0] or (strict and at <= quantiles[0]):
        step = quantiles[_TAIL_STEPS] - quantiles[0]
        scale = max(step / math.log(levels[_TAIL_STEPS] / levels[0]), LEAST_TAIL_SCALE)
        return levels[0] * math.exp((at - quantiles[0]) / scale)
    if at > quantiles[last] or (not strict and at >= quantiles[last]):
        step = quantiles[last] - quantiles[last - _TAIL_STEPS]
        scale = max(step / math.log((1.0 - levels[last - _TAIL_STEPS]) / (1.0 - levels[last])), LEAST_TAIL_SCALE)
        return 1.0 - (1.0 - levels[last]) * math.exp(-(at - quantiles[last]) / scale)
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
def _mixture_cdf(experts: FloatArray, weights: FloatArray, levels: FloatArray, at: float, strict: bool) -> float:
    total = 0.0
    for kind in range(experts.shape[0]):
        if weights[kind] > 0.0:
            total += weights[kind] * _expert_cdf(experts[kind], levels, at, strict)
    return total


@compiled
def _cdf(
    experts: FloatArray, weights: FloatArray, levels: FloatArray, log_duration: FloatArray, below: FloatArray, upto: FloatArray
) -> None:
    for row in range(experts.shape[0]):
        below[row] = _mixture_cdf(experts[row], weights[row], levels, log_duration[row], True)
        upto[row] = _mixture_cdf(experts[row], weights[row], levels, log_duration[row], False)


@compiled
def _bisect(experts: FloatArray, weights: FloatArray, levels: FloatArray, low: float, high: float, wanted: float) -> float:
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if _mixture_cdf(experts, weights, levels, middle, False) < wanted:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def _has_tail(experts: FloatArray, low: float, high: float) -> bool:
    for kind in range(experts.shape[0]):
        if low < experts[kind, 0] or high > experts[kind, experts.shape[1] - 1]:
            return True
    return False


@compiled
def _read_pool(
    experts: FloatArray, weights: FloatArray, levels: FloatArray, probabilities: FloatArray, out: FloatArray
) -> None:
    kinds, count = experts.shape[1], experts.shape[2]
    knots = np.empty(kinds * count)
    pointer = np.empty(kinds, dtype=np.int64)
    for row in range(experts.shape[0]):
        pointer[:] = 0
        for index in range(kinds * count):  # merge the sorted quantiles of all experts
            best = -1
            for kind in range(kinds):
                if pointer[kind] < count and (
                    best < 0 or experts[row, kind, pointer[kind]] < experts[row, best, pointer[best]]
                ):
                    best = kind
            knots[index] = experts[row, best, pointer[best]]
            pointer[best] += 1
        at = 0
        before = _mixture_cdf(experts[row], weights[row], levels, knots[0], True)
        upto = _mixture_cdf(experts[row], weights[row], levels, knots[0], False)
        reached = before  # distribution function just below the current knot, coming from the last one
        for index in range(probabilities.shape[1]):
            wanted = probabilities[row, index]
            while at < kinds * count - 1 and upto < wanted:
                at += 1
                if knots[at] > knots[at - 1]:
                    reached = upto
                    before = _mixture_cdf(experts[row], weights[row], levels, knots[at], True)
                    upto = _mixture_cdf(experts[row], weights[row], levels, knots[at], False)
            if upto < wanted:
                out[row, index] = _bisect(experts[row], weights[row], levels, knots[at], knots[at] + 20.0, wanted)
            elif at == 0 and wanted < before:
                out[row, index] = _bisect(experts[row], weights[row], levels, knots[0] - 20.0, knots[0], wanted)
            elif wanted >= before or at == 0 or before <= reached:
                out[row, index] = knots[at]
            elif _has_tail(experts[row], knots[at - 1], knots[at]):
                out[row, index] = _bisect(experts[row], weights[row], levels, knots[at - 1], knots[at], wanted)
            else:  # linear between two knots
                share = (wanted - reached) / (before - reached)
                out[row, index] = knots[at - 1] + share * (knots[at] - knots[at - 1])

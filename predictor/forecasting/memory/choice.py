"""This module chooses how much memory to give: a quantile from costs, a first allocation, a retry ladder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.errors import ArgumentError

FloatArray = npt.NDArray[np.float64]

_RATIOS = np.exp(np.linspace(-0.1, 2.0, 70))  # first allocations that are tried, over the forecast
_SAMPLES = 100
_TUNED_ROWS = 500


def newsvendor_quantile(cost_of_retry: float, cost_of_waste: float) -> float:
    """Return the quantile that balances a retry against memory held idle.

    Args:
        cost_of_retry: lost GPU hours and the second wait in the queue, of one run that died.
        cost_of_waste: of memory held idle by one run, in the same unit.

    Raises:
        ArgumentError: a cost is negative, or both are 0.

    References:
        Arrow, Harris, Marschak, "Optimal Inventory Policy", 1951.

    Examples:
        >>> newsvendor_quantile(19.0, 1.0)
        0.95
    """
    if not (cost_of_retry >= 0 and cost_of_waste >= 0 and cost_of_retry + cost_of_waste > 0):
        raise ArgumentError(
            f"costs {cost_of_retry} and {cost_of_waste}: neither may be negative, and one must be above 0"
        )
    return cost_of_retry / (cost_of_retry + cost_of_waste)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryCost:
    """What an out-of-memory costs.

    Attributes:
        capacity_mib: memory of the whole card, which the retry gets.
        lost_share: part of the run that is lost; out-of-memories come early.
        penalty_mib: further cost of each, in MiB held idle for one run: waiting again, and trust.
    """

    capacity_mib: float
    lost_share: float = 0.25
    penalty_mib: float = 0.0


def first_allocations(
    p50_mib: FloatArray, unit: FloatArray, scores: FloatArray, cost: RetryCost
) -> FloatArray:
    """Return the first allocation of each job that is expected to waste least, MiB, shape (n,).

    Args:
        p50_mib: shape (n,), forecasts.
        unit: shape (n,), expected size of errors.
        scores: errors of kept-out jobs in those units; with them p50 e^(unit score) is the distribution.

    Notes:
        Waste is memory held idle by a run that held, and lost_share of the allocation of one that died,
        with what its retry on the whole card holds idle.

    References:
        Tovar et al., "A Job Sizing Strategy for High-Throughput Scientific Workflows", 2018.
    """
    levels = (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    drawn = np.quantile(scores, levels) if len(scores) else np.zeros(1)
    peaks = np.minimum(p50_mib[:, None] * np.exp(unit[:, None] * drawn[None, :]), cost.capacity_mib)
    best, chosen = np.full(len(p50_mib), np.inf), np.full(len(p50_mib), cost.capacity_mib)
    for ratio in _RATIOS:
        given = np.minimum(p50_mib * ratio, cost.capacity_mib)
        died = peaks > given[:, None]
        lost = cost.capacity_mib - peaks + cost.lost_share * given[:, None] + cost.penalty_mib
        waste = np.where(died, lost, given[:, None] - peaks).mean(axis=1)
        better = waste < best
        best, chosen = np.where(better, waste, best), np.where(better, given, chosen)
    return chosen


def penalty_for_risk(
    p50_mib: FloatArray,
    unit: FloatArray,
    peak_mib: FloatArray,
    scores: FloatArray,
    cost: RetryCost,
    risk: float,
) -> float:
    """Return the smallest penalty (MiB) with which at most ``risk`` of known runs would have died.

    Args:
        p50_mib, unit, peak_mib: shape (n,), forecasts made without the job's group, and what came of them.
    """
    rows = slice(None, None, max(len(peak_mib) // _TUNED_ROWS, 1))
    p50_mib, unit, peak_mib = p50_mib[rows], unit[rows], peak_mib[rows]
    low, high = 0.0, 64.0 * cost.capacity_mib
    for _ in range(12):
        middle = (low * high) ** 0.5 if low > 0 else high / 256.0
        tried = RetryCost(capacity_mib=cost.capacity_mib, lost_share=cost.lost_share, penalty_mib=middle)
        died = np.mean(first_allocations(p50_mib, unit, scores, tried) < peak_mib)
        low, high = (low, middle) if died <= risk else (middle, high)
        if low > 0 and high / low < 1.15:
            break
    return high


def retry_ladder(
    sizes_mib: Sequence[float], first_mib: float, *, died_at_mib: float = 0.0
) -> tuple[float, ...]:
    """Return the sizes to try in turn: the smallest that holds the first allocation, then each larger one.

    Args:
        sizes_mib: what the site has: MIG slices, GPU classes, or GPUs times their memory.
        first_mib: wanted first.
        died_at_mib: an allocation that was too small before; it and smaller ones are left out.

    Raises:
        ArgumentError: there are no sizes.

    Examples:
        >>> retry_ladder([81920, 10240, 20480, 40960], 15000)
        (20480.0, 40960.0, 81920.0)
    """
    if not sizes_mib:
        raise ArgumentError("the ladder has no sizes; give the memory of at least one GPU class")
    ordered = sorted({float(size) for size in sizes_mib if size > died_at_mib})
    holding = [size for size in ordered if size >= first_mib]
    return tuple(holding) if holding else tuple(ordered[-1:])

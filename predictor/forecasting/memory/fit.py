"""This module says on which GPU classes an estimate fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from predictor.contracts.workload import InferenceSpec, RunSpec
from predictor.forecasting.memory.breakdown import MemoryBreakdown
from predictor.forecasting.memory.gpus import GpuClass, gpu_classes


class Verdict(StrEnum):
    """Whether a peak fits: surely (upper end of the range), likely (the estimate), or not."""

    FITS = "fits"
    LIKELY = "likely"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One GPU class and how a peak lies in it.

    Attributes:
        peak_ratio, high_ratio: estimate and upper end of its range over the usable memory.
        reserved_bytes: what a server takes whatever it needs; 0 where it takes what it needs.
    """

    gpu: GpuClass
    verdict: Verdict
    peak_ratio: float
    high_ratio: float
    reserved_bytes: float = 0.0


def fit_on(breakdown: MemoryBreakdown, gpu: GpuClass, run: RunSpec | None = None) -> Fit:
    """Return how an estimate lies in one GPU class.

    A server with a fixed share must find its tensors in that share of the card.
    """
    share = run.utilisation_ratio if isinstance(run, InferenceSpec) else None
    room = gpu.usable_bytes * (share if share is not None else 1.0)
    peak_ratio, high_ratio = breakdown.peak_bytes / room, breakdown.high_bytes / room
    verdict = Verdict.FITS if high_ratio <= 1.0 else Verdict.LIKELY if peak_ratio <= 1.0 else Verdict.NO
    return Fit(gpu=gpu, verdict=verdict, peak_ratio=peak_ratio, high_ratio=high_ratio,
               reserved_bytes=room if share is not None else 0.0)  # fmt: skip


def fits(breakdown: MemoryBreakdown, run: RunSpec | None = None) -> Sequence[Fit]:
    """Return how an estimate lies in every known GPU class, smallest first."""
    return [fit_on(breakdown, gpu, run) for gpu in gpu_classes()]

"""This module remembers peaks by signature: of the same job, memory is nearly affine in the batch."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_KEPT = 32  # runs per signature
_NO_BATCH = 1.0
_RETRY_RATIO = 1.2  # after an out-of-memory, at least a fifth more


@dataclass(slots=True)
class SignatureRuns:
    """What is known of one signature: batch, peak, and whether the peak is only a lower bound."""

    batch: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)
    is_bound: list[bool] = field(default_factory=list)


class SignatureHistory:
    """Peaks by signature, the newest runs of each."""

    def __init__(self) -> None:
        self._runs: dict[str, SignatureRuns] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, signature: str, batch: float | None, peak_mib: float, *, is_oom: bool) -> None:
        """Remember one run; the peak of an out-of-memory is a lower bound."""
        runs = self._runs.setdefault(signature, SignatureRuns())
        runs.batch.append(_NO_BATCH if batch is None else float(batch))
        runs.peak_mib.append(float(peak_mib))
        runs.is_bound.append(is_oom)
        for column in (runs.batch, runs.peak_mib, runs.is_bound):
            del column[:-_KEPT]

    def support(self, signature: str | None) -> int:
        """Return how many observed peaks a signature has."""
        runs = self._runs.get(signature or "")
        return 0 if runs is None else runs.is_bound.count(False)

    def forecast_mib(self, signature: str | None, batch: float | None) -> float | None:
        """Return the peak at a batch, non-decreasing in it; None where nothing was observed.

        Medians per batch, made rising, with straight lines between them and onward; one batch alone says
        the same for larger batches in proportion, and itself for smaller ones.
        """
        runs = self._runs.get(signature or "")
        if runs is None or not self.support(signature):
            return None
        return _line(*_knots(runs), _NO_BATCH if batch is None else float(batch))

    def at_least_mib(self, signature: str | None, batch: float | None) -> float:
        """Return what out-of-memories of this or smaller batches ask for, MiB; 0 where there were none."""
        runs = self._runs.get(signature or "")
        if runs is None:
            return 0.0
        wanted = _NO_BATCH if batch is None else float(batch)
        return max(
            (peak * _RETRY_RATIO
             for size, peak, bound in zip(runs.batch, runs.peak_mib, runs.is_bound, strict=True)
             if bound and size <= wanted),
            default=0.0,
        )  # fmt: skip

    def kept_out_errors(self) -> tuple[FloatArray, list[str]]:
        """Return ln(observed / forecast from the other batches), and the signature of each."""
        errors, names = [], []
        for name, runs in self._runs.items():
            seen = [at for at, bound in enumerate(runs.is_bound) if not bound]
            for at in seen:
                rest = [other for other in seen if other != at]
                if not rest:
                    continue
                others = SignatureRuns(
                    [runs.batch[other] for other in rest], [runs.peak_mib[other] for other in rest],
                    [False] * len(rest),
                )  # fmt: skip
                errors.append(np.log(runs.peak_mib[at] / _line(*_knots(others), runs.batch[at])))
                names.append(name)
        return np.array(errors), names

    def export(self) -> dict[str, list[list[float]]]:
        """Return everything as JSON-able lists: batches, peaks, whether bounds."""
        return {
            name: [list(runs.batch), list(runs.peak_mib), [float(bound) for bound in runs.is_bound]]
            for name, runs in self._runs.items()
        }

    @classmethod
    def restore(cls, exported: Iterable[tuple[str, list[list[float]]]]) -> "SignatureHistory":
        """Rebuild from :meth:`export` items."""
        history = cls()
        for name, (batch, peak, bound) in exported:
            history._runs[name] = SignatureRuns(list(batch), list(peak), [one > 0 for one in bound])
        return history


def _knots(runs: SignatureRuns) -> tuple[FloatArray, FloatArray]:
    seen = ~np.array(runs.is_bound)
    batch, peak = np.array(runs.batch)[seen], np.array(runs.peak_mib)[seen]
    sizes = np.unique(batch)
    middle = np.array([np.median(peak[batch == size]) for size in sizes])
    return sizes, np.maximum.accumulate(middle)


def _line(sizes: FloatArray, peaks: FloatArray, batch: float) -> float:
    if len(sizes) == 1:
        return float(peaks[0] * max(batch / sizes[0], 1.0))
    if batch > sizes[-1]:
        slope = (peaks[-1] - peaks[-2]) / (sizes[-1] - sizes[-2])
        return float(peaks[-1] + slope * (batch - sizes[-1]))
    if batch < sizes[0]:
        slope = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
        return float(max(peaks[0] - slope * (sizes[0] - batch), peaks[0] * batch / sizes[0]))
    return float(np.interp(batch, sizes, peaks))

"""This module tells what a recorded peak teaches: a target, or only that the need was not less.

Allocated, reserved and used bytes are different things and never mixed: allocated <= reserved <= used. An
out-of-memory proves that the need was above what the card had (or above what the message says it asked
for); the peak recorded before it died is no target of a regression.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import PeakKind
from predictor.errors import ArgumentError

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_ORDER = (PeakKind.ALLOCATED, PeakKind.RESERVED, PeakKind.USED)
AT_LIMIT_SHARE = 0.985  # a peak this near the capacity is the allocator's pool, not a need


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLabels:
    """Peaks of one kind.

    Attributes:
        kind: what is counted.
        target_mib: shape (n,), the peak where it was observed, NaN elsewhere.
        at_least_mib: shape (n,), the need was not below this; 0 where nothing is known.
    """

    kind: PeakKind
    target_mib: FloatArray
    at_least_mib: FloatArray

    @property
    def observed(self) -> BoolArray:
        """Shape (n,), rows that may be regressed on."""
        return np.isfinite(self.target_mib)


def label_peaks(
    kind: PeakKind,
    peak_mib: FloatArray,
    *,
    is_oom: BoolArray,
    capacity_mib: FloatArray | float | None = None,
    recorded: PeakKind | None = None,
    tried_mib: FloatArray | None = None,
) -> MemoryLabels:
    """Return labels of one kind from recorded peaks.

    Args:
        peak_mib: shape (n,), recorded peaks; NaN = none.
        is_oom: shape (n,), the run died for want of memory.
        capacity_mib: of the card; used peaks at its limit are pools, and teach only a lower bound.
        recorded: kind of the recorded peaks; None = ``kind``. A smaller kind bounds a larger one from
            below; a larger kind teaches nothing about a smaller one.
        tried_mib: shape (n,), allocated and requested bytes of the message of an out-of-memory, MiB.

    Raises:
        ArgumentError: host memory and device memory are mixed.
    """
    source = recorded or kind
    if (kind is PeakKind.HOST) != (source is PeakKind.HOST):
        raise ArgumentError(f"a peak of kind '{source}' teaches nothing about kind '{kind}'")
    known = np.isfinite(peak_mib) & (peak_mib > 0)
    at_limit = np.zeros(len(peak_mib), dtype=bool)
    if capacity_mib is not None and source in (PeakKind.USED, PeakKind.RESERVED):
        with np.errstate(invalid="ignore"):
            at_limit = known & (peak_mib >= AT_LIMIT_SHARE * np.asarray(capacity_mib))
    observed = known & ~is_oom & ~at_limit
    at_least = np.where(known, peak_mib, 0.0)
    if capacity_mib is not None:
        at_least = np.where(is_oom, np.maximum(at_least, capacity_mib), at_least)
    if tried_mib is not None:
        at_least = np.where(
            is_oom, np.fmax(np.where(known, peak_mib, 0.0), np.nan_to_num(tried_mib)), at_least
        )
    if source is not kind:
        smaller = _ORDER.index(source) < _ORDER.index(kind)
        observed = np.zeros_like(observed)
        at_least = at_least if smaller else np.zeros_like(at_least)
    # a pool at the limit proves nothing about the need
    at_least = np.where(at_limit & ~is_oom, 0.0, at_least)
    return MemoryLabels(kind=kind, target_mib=np.where(observed, peak_mib, np.nan), at_least_mib=at_least)

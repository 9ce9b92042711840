"""This module defines measured runs: a request each, what was seen of its memory, and what was refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import MemoryRequest, PeakKind

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """Runs of one file and one kind of peak.

    Attributes:
        name: the set and, where it has several, the kind of peak.
        kind: what the peaks count.
        requests: n requests.
        peak_mib: shape (n,), highest value seen; NaN where none was recorded (out of memory only).
        is_oom: shape (n,), the run died for want of memory or hit the card's limit: the peak teaches only a
            lower bound and is never a target of a regression.
        groups: n names of what is alike, the unit of the split ``unseen_model``.
        families: n wider names for ``unseen_family``; empty where the set has none.
        capacity_mib: memory of the card.
        dry_run_mib: shape (n,), FakeTensor's estimate, or empty.
        quarantined: rows left out, by reason.
    """

    name: str
    kind: PeakKind
    requests: tuple[MemoryRequest, ...]
    peak_mib: FloatArray
    is_oom: BoolArray
    groups: tuple[str, ...]
    families: tuple[str, ...]
    capacity_mib: float
    dry_run_mib: FloatArray
    quarantined: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.requests)

    def take(self, rows: Sequence[int] | npt.NDArray[np.intp]) -> "MeasuredRuns":
        """Return the chosen rows."""
        at = np.asarray(rows, dtype=np.intp)
        return MeasuredRuns(
            name=self.name, kind=self.kind, requests=tuple(self.requests[row] for row in at),
            peak_mib=self.peak_mib[at], is_oom=self.is_oom[at],
            groups=tuple(self.groups[row] for row in at),
            families=tuple(self.families[row] for row in at) if self.families else (),
            capacity_mib=self.capacity_mib,
            dry_run_mib=self.dry_run_mib[at] if len(self.dry_run_mib) else self.dry_run_mib,
            quarantined=self.quarantined,
        )  # fmt: skip

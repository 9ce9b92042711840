"""This module collects the faults of the rows of a table, every fault of every row at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.data.schema import empty_column

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault and the rows that have it.

    Attributes:
        code: stable slug, such as ``ended-before-started``.
        sentence: what is wrong, for people.
        rows: shape (n,), True where the row has the fault.
    """

    code: str
    sentence: str
    rows: Mask


def count_rows(faults: Sequence[Fault], among: Mask | None = None) -> dict[str, int]:
    """Return how many rows (of those in ``among``) have each code; a row with two faults counts in both."""
    rows: dict[str, Mask] = {}
    for fault in faults:
        hit = fault.rows if among is None else fault.rows & among
        rows[fault.code] = rows[fault.code] | hit if fault.code in rows else hit
    return {code: int(hit.sum()) for code, hit in rows.items() if hit.any()}


class RowFaults:
    """Faults found so far in a table of a fixed number of rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.faults: list[Fault] = []

    def add(self, code: str, sentence: str, rows: "pd.Series[bool] | Mask") -> None:
        """Record that the given rows have a fault; nothing is recorded where no row has it."""
        mask = np.asarray(rows, dtype=np.bool_)
        if len(mask) != self.rows:
            raise ValueError(
                f"the mask has {len(mask)} rows, the table {self.rows}; pass masks of the table's length"
            )
        if mask.any():
            self.faults.append(Fault(code=code, sentence=sentence, rows=mask))

    @property
    def faulty(self) -> Mask:
        """Shape (rows,), True where a row has at least one fault."""
        mask = np.zeros(self.rows, dtype=np.bool_)
        for fault in self.faults:
            mask |= fault.rows
        return mask

    def among(self, rows: Mask) -> list[Fault]:
        """Return the faults that some of the given rows have, of these rows only."""
        narrowed = [replace(fault, rows=fault.rows & rows) for fault in self.faults]
        return [fault for fault in narrowed if fault.rows.any()]

    def codes(self) -> "pd.Series[str]":
        """Return the fault codes of each row joined by ``;``, missing where there is none."""
        return self._joined([fault.code for fault in self.faults], ";")

    def sentences(self) -> "pd.Series[str]":
        """Return the fault sentences of each row joined by ``; ``, missing where there is none."""
        return self._joined([fault.sentence for fault in self.faults], "; ")

    def _joined(self, texts: list[str], separator: str) -> "pd.Series[str]":
        if not self.faults:
            return empty_column(self.rows)
        joined = np.full(self.rows, "", dtype=object)
        for text, fault in zip(texts, self.faults, strict=True):
            empty = fault.rows & (joined == "")
            joined[fault.rows & ~empty] += separator + text
            joined[empty] = text
        joined[joined == ""] = None
        return pd.Series(joined, dtype="str")

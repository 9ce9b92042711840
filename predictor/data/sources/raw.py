"""This module holds the text records of a log and turns their fields into canonical columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from predictor.data.faults import Mask, RowFaults
from predictor.data.schema import ColumnType, conform, empty_column
from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.repeated_hour import read_in_order
from predictor.data.sources.times import ABSENT_TEXTS, UTC_DTYPE, ParsedTimes, parse_times
from predictor.errors import ArgumentError


def map_distinct(texts: "pd.Series[str]", parse: Callable[[str], float]) -> "pd.Series[float]":
    """Apply a parser of one text to each distinct text, once; missing stays NaN."""
    codes, distinct = pd.factorize(texts)
    values = np.array([parse(str(text)) for text in distinct] + [np.nan], dtype=np.float64)
    return pd.Series(values[codes])


def text_table(rows: Sequence[Mapping[str, str]]) -> pd.DataFrame:
    """Return records as text columns; halves of characters, which JSON may hold, become ``?``."""
    try:
        return pd.DataFrame(list(rows), dtype="str")
    except UnicodeEncodeError:
        whole = [
            {name: text.encode("utf-8", "replace").decode() for name, text in row.items()} for row in rows
        ]
        return pd.DataFrame(whole, dtype="str")


def extract(texts: "pd.Series[str]", pattern: str) -> "pd.Series[str]":
    """Return the text of the pattern's group ``found``, missing where the pattern does not match."""
    matches = pc.extract_regex(pa.array(texts, type=pa.large_string(), from_pandas=True), pattern)
    return pd.Series(pc.struct_field(matches, "found").to_pandas(), dtype="str")


class RawRecords:
    """Text records of one log, of equal field count.

    The methods parse one field each; a text that cannot be parsed is recorded as a fault of its row, and
    :meth:`finish` moves rows with faults to the unreadable ones. Fields that the log lacks read as missing.
    """

    def __init__(self, table: pd.DataFrame, lines: Sequence[int] | None, options: ReadOptions) -> None:
        self.table = table.reset_index(drop=True)
        self.lines = np.arange(1, len(table) + 1) if lines is None else np.asarray(lines, dtype=np.int64)
        self.options = options
        self.faults = RowFaults(len(table))
        self.notes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, field: str) -> bool:
        return field in self.table.columns

    def text(self, field: str, absent: Iterable[str] = ("",)) -> "pd.Series[str]":
        """Return a field as text, missing where it is empty or one of ``absent``."""
        if field not in self.table.columns:
            return empty_column(len(self))
        values = self.table[field].str.strip()
        return values.where(~values.isin(list(absent)))

    def first_text(self, *fields: str, absent: Iterable[str] = ("",)) -> "pd.Series[str]":
        """Return the first of the fields that is not missing, row by row."""
        values = self.text(fields[0], absent)
        for field in fields[1:]:
            if field in self.table.columns:
                values = values.fillna(self.text(field, absent))
        return values

    def number(
        self, field: str, scale: float = 1.0, absent: Iterable[str] = ABSENT_TEXTS
    ) -> "pd.Series[float]":
        """Return a field as numbers; any of ``absent`` is missing."""
        texts = self.text(field, absent)
        values = pd.to_numeric(texts, errors="coerce").astype("float64")
        self.fault(f"bad-number:{field}", f"'{field}' is no number", values.isna() & texts.notna())
        return values * scale

    def parsed(
        self, field: str, parse: Callable[[str], float], absent: Iterable[str] = ABSENT_TEXTS
    ) -> "pd.Series[float]":
        """Return a field through a parser of one text; the parser raises ArgumentError or ValueError."""
        texts = self.text(field, absent)
        refused: set[str] = set()

        def attempt(text: str) -> float:
            try:
                return parse(text)
            except (ValueError, ArgumentError):
                refused.add(text)
                return float("nan")

        values = map_distinct(texts, attempt)
        self.fault(f"bad-number:{field}", f"'{field}' cannot be parsed", texts.isin(list(refused)))
        return values

    def time(self, field: str) -> "pd.Series[pd.Timestamp]":
        """Return a field as UTC times, local ones taken to be of the zone of the options."""
        return self._times(field).utc

    def life(
        self, fields: Sequence[str], elapsed_s: "pd.Series[float] | None" = None
    ) -> list["pd.Series[pd.Timestamp]"]:
        """Return submission, start and end, local times that come twice read so that they fit together.

        Args:
            fields: of the three, in this order.
            elapsed_s: how long each job ran, NaN or None = not known.
        """
        known_s = np.full(len(self), np.nan)
        if elapsed_s is not None:
            known_s[:] = elapsed_s
        return read_in_order([self._times(field) for field in fields], known_s)

    def _times(self, field: str) -> ParsedTimes:
        if field not in self.table.columns:
            nothing = pd.Series(pd.NaT, index=self.table.index, dtype=UTC_DTYPE)
            return ParsedTimes(utc=nothing, later=nothing, unreadable=np.zeros(len(self), dtype=np.bool_))
        parsed = parse_times(self.table[field], self.options.zone)
        self.fault(f"bad-time:{field}", f"'{field}' is no time", parsed.unreadable)
        self.note("ambiguous-local-time", parsed.ambiguous)
        self.note("nonexistent-local-time", parsed.nonexistent)
        return parsed

    def fault(self, code: str, sentence: str, rows: "pd.Series[bool] | Mask") -> None:
        """Record that rows cannot be read."""
        self.faults.add(code, sentence, rows)

    def note(self, code: str, count: int) -> None:
        """Count rows about which something is worth knowing."""
        if count:
            self.notes[code] = self.notes.get(code, 0) + count

    def finish(
        self,
        columns: Mapping[str, object],
        *,
        source: str,
        stem: str = "",
        rows_read: int | None = None,
        unreadable: pd.DataFrame | None = None,
        merged: Mapping[str, int] | None = None,
        dropped: Mapping[str, int] | None = None,
        keep: Mask | None = None,
    ) -> ReadResult:
        """Build the result from canonical columns (series of all records, or constants).

        Args:
            source: format name, for the provenance column.
            stem: name of the cluster where neither the log nor the options name one, "" = the format, since
                rotated logs are of one cluster whatever their names.
            rows_read, unreadable, merged, dropped: the account of records that are not in this table.
            keep: records that become rows; those left out must be in ``merged`` or ``dropped``.
        """
        frame = pd.DataFrame(dict(columns), index=self.table.index)
        frame["source"] = source
        if "attempt" not in frame:
            frame["attempt"] = 0.0
        frame["cluster"] = self._clusters(frame, stem or source)
        kept = np.ones(len(self), dtype=np.bool_) if keep is None else keep
        faulty = self.faults.faulty
        own = self._unreadable(kept & faulty)
        parts = [part for part in (unreadable, own) if part is not None and len(part)]
        lost = pd.concat(parts, ignore_index=True) if parts else unreadable_rows([], [], [])
        return ReadResult(
            frame=conform(frame[kept & ~faulty]),
            rows_read=len(self) if rows_read is None else rows_read,
            unreadable=lost,
            merged=_positive(merged),
            dropped=_positive(dropped),
            notes=dict(self.notes),
        )

    def _clusters(self, frame: pd.DataFrame, fallback: str) -> "pd.Series[str]":
        if self.options.cluster is not None:
            return pd.Series(self.options.cluster, index=frame.index, dtype="str")
        if "cluster" not in frame:
            return pd.Series(fallback, index=frame.index, dtype="str")
        return frame["cluster"].astype(ColumnType.TEXT.value).fillna(fallback)

    def _unreadable(self, rows: Mask) -> pd.DataFrame:
        if not rows.any():
            return unreadable_rows([], [], [])
        texts = ["|".join("" if pd.isna(value) else str(value) for value in row)
                 for row in self.table[rows].itertuples(index=False)]  # fmt: skip
        return unreadable_rows(self.lines[rows].tolist(), self.faults.codes()[rows].tolist(), texts)


def _positive(counts: Mapping[str, int] | None) -> dict[str, int]:
    return {reason: count for reason, count in (counts or {}).items() if count}

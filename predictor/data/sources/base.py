"""This module says what a reader of job logs is given and what it must return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from predictor.data.sources.logfile import LogFile

if TYPE_CHECKING:
    from predictor.data.sources.column_map import ColumnMap

CLIPPED_TEXT = 500  # characters of an unreadable row that are kept to find it again


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the caller knows about a log that the log does not say.

    Attributes:
        zone: IANA name of the zone of times without offset.
        delimiter: field delimiter; None = the format's own, found from the content where possible.
        fields: names of the fields, in order, for logs without header.
        column_map: mapping for the generic formats ``csv`` and ``parquet``.
        cluster: name for the ``cluster`` column; wins over the log's own.
        companions: further tables of the same log, for formats that are spread over several files.
    """

    zone: str = "UTC"
    delimiter: str | None = None
    fields: Sequence[str] = ()
    column_map: "ColumnMap | None" = None
    cluster: str | None = None
    companions: Sequence[LogFile] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Rows of a log, and an account of every row that was read.

    ``rows_read == len(frame) + sum(merged) + sum(dropped) + len(unreadable)`` holds always.

    Attributes:
        frame: canonical rows, conforming to the schema; not validated yet.
        rows_read: records in the log, without header and comments.
        merged: records that became part of another row, per reason (job steps).
        dropped: records that are no job attempts or hold nothing new, per reason.
        unreadable: columns ``line``, ``reason``, ``text`` (clipped).
        notes: records about which something is worth knowing, per code; they are in ``frame``.
    """

    frame: pd.DataFrame
    rows_read: int
    unreadable: pd.DataFrame
    merged: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        accounted = (
            len(self.frame) + sum(self.merged.values()) + sum(self.dropped.values()) + len(self.unreadable)
        )
        if accounted != self.rows_read:
            raise ValueError(
                f"{self.rows_read} rows were read but {accounted} accounted for; a reader loses rows"
            )


class Reader(Protocol):
    """A log format."""

    @property
    def name(self) -> str:
        """Name of the format, as ``--format`` takes it."""
        ...

    @property
    def takes(self) -> frozenset[str]:
        """Which of ``delimiter``, ``fields`` and ``column_map`` of the options change what it reads."""
        ...

    def recognises(self, log: LogFile) -> bool:
        """Whether the content looks like this format; looks at the content only, never at the name."""
        ...

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records.

        Raises:
            EmptyInputError: there is no record.
            FormatError: the content is not of this format.
        """
        ...


def unreadable_rows(lines: Sequence[int], reasons: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    """Return the table of rows that no reader could turn into a job."""
    clipped = [text if len(text) <= CLIPPED_TEXT else text[:CLIPPED_TEXT] + "..." for text in texts]
    return pd.DataFrame(
        {
            "line": pd.Series(lines, dtype="int64"),
            "reason": pd.Series(reasons, dtype="str"),
            "text": pd.Series(clipped, dtype="str"),
        }
    )

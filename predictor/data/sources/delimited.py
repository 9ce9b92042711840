"""This module cuts delimited text with a header (CSV, TSV, pipe-separated) into records."""

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv

from predictor.data.sources.base import unreadable_rows
from predictor.data.sources.logfile import LogFile
from predictor.errors import EmptyInputError, FormatError

DELIMITERS = (",", "\t", ";", "|", "\x1f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimited:
    """Records of a delimited file.

    Attributes:
        table: text columns.
        lines: record numbers (the header is 1), which are line numbers unless fields hold line ends.
        bad: records with another count of fields than the header.
    """

    table: pd.DataFrame
    lines: list[int]
    bad: pd.DataFrame

    @property
    def rows_read(self) -> int:
        """Count of records, good and bad."""
        return len(self.table) + len(self.bad)


def header_of(log: LogFile, delimiter: str | None = None) -> tuple[str, ...]:
    """Return the cells of the first line; empty where the file is no text."""
    line = next((line for line in log.head().split("\n") if line.strip()), "")
    cells = next(csv.reader([line.replace("\r", "")], delimiter=delimiter or guess_delimiter(line)), [])
    return tuple(cell.strip().removeprefix("#").strip() for cell in cells)


def guess_delimiter(line: str) -> str:
    """Return the delimiter that occurs most often in a line."""
    return max(DELIMITERS, key=line.count)


def read_delimited(
    log: LogFile,
    *,
    delimiter: str | None = None,
    names: Sequence[str] = (),
    wanted: Collection[str] = (),
) -> Delimited:
    """Read a delimited file as text.

    Args:
        names: field names of a file without header.
        wanted: fields to read where the file has them; empty = all.

    Raises:
        EmptyInputError: there is no record.
        FormatError: the file is binary, or no record has the header's count of fields.
    """
    text = log.text()
    separator = delimiter or guess_delimiter(text.lstrip("\r\n").split("\n", 1)[0])
    header = tuple(names) or header_of(log, separator)
    bad: list[tuple[int, str]] = []

    def reject(row: pacsv.InvalidRow) -> str:
        bad.append((row.number or 0, row.text))
        return "skip"

    data = text.encode("utf-8")
    fields = [name for name in header if not wanted or name in wanted]
    try:
        table = pacsv.read_csv(
            io.BytesIO(data),
            read_options=pacsv.ReadOptions(
                column_names=_unique(header), skip_rows=0 if names else 1, use_threads=False,
                block_size=block_size_of(data),
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=reject
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in _unique(header)},
                include_columns=list(dict.fromkeys(fields)), strings_can_be_null=False,
            ),
        ).to_pandas()  # fmt: skip
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise EmptyInputError(f"'{log.name}' has a header but no record; give a log with jobs") from error
        raise FormatError(f"'{log.name}' is no delimited text: {error}; choose another --format") from error
    if not len(table) and not bad:
        raise EmptyInputError(f"'{log.name}' has a header but no record; give a log with jobs")
    if not len(table):
        raise FormatError(
            f"no record of '{log.name}' has the {len(header)} fields of its header; "
            f"first: '{bad[0][1][:120]}'; give the right --delimiter"
        )
    first = 1 if names else 2
    skipped = {at for at, _ in bad}
    lines = [at for at in range(first, first + len(table) + len(bad)) if at not in skipped]
    return Delimited(
        table=table,
        lines=lines[: len(table)],
        bad=unreadable_rows(
            [at for at, _ in bad], ["fields-do-not-fit"] * len(bad), [text for _, text in bad]
        ),
    )


def read_marked(
    log: LogFile,
    *,
    marks: Collection[str],
    table: str,
    delimiter: str | None = None,
    wanted: Collection[str] = (),
) -> Delimited:
    """Read a delimited file that must have the columns that mark a format.

    Args:
        marks: columns that must be there.
        table: what such a file holds, for the error.

    Raises:
        EmptyInputError: there is no record.
        FormatError: the file is binary or lacks marks; all of them are named.
    """
    text = log.text()
    absent = sorted(set(marks) - set(header_of(log, delimiter)))
    if absent:
        raise FormatError(
            f"'{log.name}' is no {table}; it lacks {', '.join(absent)}; "
            f"found '{text[:80]}'; choose another --format"
        )
    return read_delimited(log, delimiter=delimiter, wanted=wanted)


def block_size_of(data: bytes) -> int:
    """Return the size of blocks to parse at once: all of it, as no record may lie across two, up to 1 GiB."""
    return min(len(data) + 1, 2**30)


def _unique(names: Sequence[str]) -> list[str]:
    """Give columns with a repeated name a number, as the first one is meant."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result

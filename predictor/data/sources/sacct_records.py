"""This module cuts sacct output into records, also where names hold the delimiter or line ends.

sacct escapes nothing. A record whose job name, comment or submit line holds the delimiter has too many
fields; one whose text holds a line end is spread over several lines. Both are put together again by the
shapes of the other fields: only a split in which every time looks like a time, every count like a count
and so on is accepted. What fits no split is returned as unreadable, never guessed.
"""

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv

from predictor.data.sources.delimited import block_size_of
from predictor.data.sources.sacct_layout import Layout

MOST_DELIMITERS = 5  # times the count of fields, within one record
LONGEST_RECORD = 2000  # lines; a batch script inside a submit line is the longest seen


@dataclass(slots=True, kw_only=True)
class Records:
    """Records of a dump; those of one line with the right count of fields are kept whole, for fast splitting.

    Attributes:
        layout: the fields.
        plain, plain_lines: text and line number (from 1) of the ordinary records.
        odd, odd_lines: field values and number of the first line of records put together from pieces.
        bad_texts, bad_lines: lines that fit no split.
    """

    layout: Layout
    plain: list[str] = field(default_factory=list)
    plain_lines: list[int] = field(default_factory=list)
    odd: list[list[str]] = field(default_factory=list)
    odd_lines: list[int] = field(default_factory=list)
    bad_texts: list[str] = field(default_factory=list)
    bad_lines: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.plain) + len(self.odd)

    def table(self, wanted: Collection[str]) -> pd.DataFrame:
        """Return the wanted fields as text columns, and ``line``, in the order of the file."""
        at = {name: index for index, name in reversed(list(enumerate(self.layout.fields))) if name in wanted}
        odd = pd.DataFrame(
            {name: [row[index] for row in self.odd] for name, index in at.items()}, dtype="str"
        )
        parts = [self._plain_table(at).assign(line=self.plain_lines), odd.assign(line=self.odd_lines)]
        table = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        return table.sort_values("line", ignore_index=True) if len(odd) else table

    def _plain_table(self, at: Mapping[str, int]) -> pd.DataFrame:
        if not self.plain:
            return pd.DataFrame({name: pd.Series([], dtype="str") for name in at})
        names = [f"f{index}" for index in range(len(self.layout.fields) + self.layout.trailing)]
        data = "\n".join(self.plain).encode("utf-8")
        table = pacsv.read_csv(
            io.BytesIO(data),
            read_options=pacsv.ReadOptions(
                column_names=names, use_threads=False, block_size=block_size_of(data)
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self.layout.delimiter, quote_char=False, double_quote=False,
                ignore_empty_lines=False,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={name: pa.string() for name in names}, strings_can_be_null=False,
                include_columns=[names[index] for index in at.values()],
            ),
        )  # fmt: skip
        frame: pd.DataFrame = table.rename_columns(list(at)).to_pandas()
        return frame


def cut_records(lines: list[str], layout: Layout, first_line: int = 1) -> Records:
    """Cut the lines into records; ``first_line`` is the number of ``lines[0]`` in the file."""
    records = Records(layout=layout)
    width = len(layout.fields)
    short = width - 1 - layout.optional_tail
    counts = [line.count(layout.delimiter) - layout.trailing for line in lines]
    regular = [short <= count < width for count in counts]
    at, size = 0, len(lines)
    while at < size:
        line = lines[at]
        if regular[at] and (at + 1 == size or regular[at + 1]) and "\r" not in line and line.strip():
            records.plain.append(line + layout.delimiter * (width - 1 - counts[at]))
            records.plain_lines.append(first_line + at)
            at += 1
            continue
        if not line.strip():
            at += 1
            continue
        row, used = _rejoin(lines, at, layout)
        if row is None:
            records.bad_lines.append(first_line + at)
            records.bad_texts.append(line)
        else:
            records.odd.append(row)
            records.odd_lines.append(first_line + at)
        at += used
    return records


def _split(text: str, layout: Layout) -> list[str]:
    parts = text.split(layout.delimiter)
    return parts[:-1] if layout.trailing and parts[-1] == "" else parts


def _rejoin(lines: list[str], at: int, layout: Layout) -> tuple[list[str] | None, int]:
    """Take lines until they make a record and the next line begins another one."""
    best: tuple[list[str] | None, int] = (None, 1)
    text = ""
    delimiters = 0
    width = len(layout.fields)
    for used in range(1, min(LONGEST_RECORD, len(lines) - at) + 1):
        line = lines[at + used - 1]
        if used > 1 and best[0] is not None and _begins_record(line, layout):
            break
        if (
            used > 1
            and best[0] is None
            and (delimiters > MOST_DELIMITERS * width or _is_record(line, layout))
        ):
            break  # the record is torn: what follows is the next one
        text = line if used == 1 else text + "\n" + line
        delimiters += line.count(layout.delimiter)
        if delimiters < width - 1 - layout.optional_tail:
            continue
        row = _fit(_split(text, layout), layout)
        if row is not None:
            best = (row, used)
        elif best[0] is not None:
            break
    return best


def _is_record(line: str, layout: Layout) -> bool:
    """Whether a line is a whole record that begins like one."""
    return _begins_record(line, layout) and _fit(_split(line, layout), layout) is not None


def _begins_record(line: str, layout: Layout) -> bool:
    """Whether the fields before the first free text, which a line cannot split, look right."""
    parts = _split(line, layout)
    checked = 0
    for index, part in enumerate(parts[: len(layout.fields)]):
        shape = layout.shape(index)
        if shape is None:
            break
        if shape.fullmatch(part) is None:
            return False
        checked += 1
    if checked == 0:  # the first field is free text: only a whole record can be told
        return _fit(parts, layout) is not None
    return len(parts) > 1


def _fit(parts: list[str], layout: Layout) -> list[str] | None:
    """Give the surplus parts to free-text fields so that all other fields keep their shape."""
    fields = len(layout.fields)
    dead: set[tuple[int, int]] = set()

    def place(index: int, part: int) -> list[str] | None:
        if index == fields:
            return [] if part == len(parts) else None
        left = len(parts) - part
        if left == 0 and fields - index <= layout.optional_tail:
            return [""] * (fields - index)
        if (index, part) in dead or left < fields - index - layout.optional_tail:
            return None
        shape = layout.shape(index)
        most = 1 if shape is not None else left - (fields - index - 1 - layout.optional_tail)
        for taken in range(1, min(most, left) + 1):
            value = layout.delimiter.join(parts[part : part + taken])
            if shape is not None and shape.fullmatch(value) is None:
                break
            rest = place(index + 1, part + taken)
            if rest is not None:
                return [value, *rest]
        dead.add((index, part))
        return None

    return place(0, 0)

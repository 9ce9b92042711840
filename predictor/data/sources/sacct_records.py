"""This module cuts sacct output into records, also where names hold the delimiter or line ends.

sacct escapes nothing. A record whose job name, comment or submit line holds the delimiter has too many
fields; one whose text holds a line end is spread over several lines. Both are put together again by the
shapes of the other fields: only a split in which every time looks like a time, every count like a count
and so on is accepted. What fits no split is returned as unreadable, never guessed.
"""

from dataclasses import dataclass, field

from predictor.data.sources.sacct_layout import Layout

LONGEST_RECORD = 2000  # lines; a batch script inside a submit line is the longest seen


@dataclass(slots=True, kw_only=True)
class Records:
    """Records of a dump.

    Attributes:
        rows: one list of field values per record.
        lines: number of each record's first line, from 1.
        rejoined: count of records that were put together from odd pieces.
        bad_lines, bad_texts: records that fit no split.
    """

    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    rejoined: int = 0
    bad_lines: list[int] = field(default_factory=list)
    bad_texts: list[str] = field(default_factory=list)


def cut_records(lines: list[str], layout: Layout, first_line: int = 1) -> Records:
    """Cut the lines into records; ``first_line`` is the number of ``lines[0]`` in the file."""
    records = Records()
    width = len(layout.fields)
    counts = [line.count(layout.delimiter) - layout.trailing for line in lines]
    regular = [width - 1 - layout.optional_tail <= count < width for count in counts]
    at, size = 0, len(lines)
    while at < size:
        if not lines[at].strip():
            at += 1
            continue
        if regular[at] and (at + 1 == size or regular[at + 1]):
            records.rows.append(_padded(_split(lines[at], layout), width))
            records.lines.append(first_line + at)
            at += 1
            continue
        row, used = _rejoin(lines, at, layout)
        if row is None:
            records.bad_lines.append(first_line + at)
            records.bad_texts.append(lines[at])
            at += 1
            continue
        records.rejoined += used > 1 or not regular[at]
        records.rows.append(row)
        records.lines.append(first_line + at)
        at += used
    return records


def _split(text: str, layout: Layout) -> list[str]:
    parts = text.split(layout.delimiter)
    return parts[:-1] if layout.trailing and parts[-1] == "" else parts


def _padded(parts: list[str], width: int) -> list[str]:
    return parts if len(parts) == width else parts + [""] * (width - len(parts))


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

"""This module reads the outcome logs of the service: JSON lines, each a row of the job table.

A line is an object whose keys are columns of the canonical job table; times are ISO 8601 with offset or
epoch seconds, other keys are ignored. Lines about one attempt (submitted, started, finished) become one row,
in which later lines win. A last line without its end is being written: it is left for the next time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.schema import COLUMNS
from predictor.data.table import write_parquet
from predictor.errors import FormatError

Row = dict[str, str | None]
_LIVE = (JobState.PENDING.value, JobState.RUNNING.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeLines:
    """What an outcome log held: count of rows for the table, and the lines that are no JSON objects."""

    rows: int
    damaged: tuple[str, ...]


def outcome_table(path: Path, out: Path) -> OutcomeLines:
    """Write the outcomes of a log as a table of texts that ``ingest --format parquet`` reads.

    With no row, nothing is written.

    Raises:
        FormatError: the file cannot be read, or has lines but not one of them is a JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FormatError(f"cannot read the outcome log '{path}': {error.strerror}") from error
    rows: dict[tuple[object, ...], Row] = {}
    damaged: list[str] = []
    for at, line in enumerate(text.split("\n")[:-1], 1):  # what follows the last line feed is not finished
        if not line.strip():
            continue
        try:
            row = _row(json.loads(line))
        except (ValueError, AttributeError, RecursionError):
            damaged.append(f"line {at} is no JSON object of valid text: {line[:80]}")
            continue
        key = (row.get("cluster"), row.get("job_id", at), row.get("attempt"))
        rows[key] = _join(rows.get(key, {}), row)
    if damaged and not rows:
        raise FormatError(f"'{path}' is no outcome log of the service", faults=damaged[:10])
    if rows:
        found = list(rows.values())
        names = [name for name in COLUMNS if any(name in row for row in found)]
        texts = {name: pd.Series([row.get(name) for row in found], dtype="str") for name in names}
        write_parquet(pd.DataFrame(texts), out, {})
    return OutcomeLines(rows=len(rows), damaged=tuple(damaged))


def _join(earlier: Row, later: Row) -> Row:
    """Let the later line win, but never bring a job that is over back to life."""
    if earlier and earlier.get("state") not in _LIVE and later.get("state") in _LIVE:
        earlier, later = later, earlier
    return {**earlier, **{name: value for name, value in later.items() if value is not None}}


def _row(document: Mapping[str, object]) -> Row:
    return {name: _text(value) for name, value in document.items() if name in COLUMNS}


def _text(value: object) -> str | None:
    """Return a value as text; a half of a surrogate pair, which no file can hold, is a ValueError."""
    if value is None:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text.encode()
    return text

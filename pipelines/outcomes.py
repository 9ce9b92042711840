"""This module reads the outcome logs of the service: JSON lines with one finished job each.

A line is an object whose keys are columns of the canonical job table; times are ISO 8601 with offset or
epoch seconds, other keys are ignored. A last line without its end is one that is being written: it is left
for the next time.
"""

import json
from pathlib import Path

import pandas as pd

from predictor.data.schema import COLUMNS
from predictor.data.table import write_parquet
from predictor.errors import FormatError


def outcome_table(path: Path, out: Path) -> int:
    """Write the outcomes of a log as a table of texts that ``ingest --format parquet`` reads.

    Returns:
        Count of outcomes; with none, nothing is written.

    Raises:
        FormatError: whole lines are no JSON objects; the first ones are named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"cannot read the outcome log '{path}': {error}") from error
    rows: list[dict[str, str | None]] = []
    faults: list[str] = []
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1], 1):  # what follows the last line feed is not finished
        if not line.strip():
            continue
        try:
            rows.append(_row(json.loads(line)))
        except (ValueError, AttributeError):
            faults.append(f"line {at} is no JSON object: {line[:80]}")
    if faults:
        raise FormatError(f"the outcome log '{path}' is damaged", faults=faults[:10])
    if rows:
        names = [name for name in COLUMNS if any(name in row for row in rows)]
        texts = {name: pd.Series([row.get(name) for row in rows], dtype="str") for name in names}
        write_parquet(pd.DataFrame(texts), out, {})
    return len(rows)


def _row(document: dict[str, object]) -> dict[str, str | None]:
    return {name: _text(value) for name, value in document.items() if name in COLUMNS}


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)

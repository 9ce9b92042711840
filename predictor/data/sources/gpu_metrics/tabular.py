"""This module reads tables of metrics: delimited with a header, or one JSON object per line."""

import io
import json

import pandas as pd

from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError


def header_of(log: LogFile) -> list[str]:
    """Return the names of the first line, in lower case."""
    lines = log.head().lstrip().splitlines()
    return [name.strip().strip('"').lower() for name in lines[0].split(",")] if lines else []


def read_csv(log: LogFile) -> pd.DataFrame:
    """Read a delimited log as texts, its names in lower case.

    Raises:
        FormatError: it is no table.
    """
    try:
        frame = pd.read_csv(
            io.StringIO(log.text()), dtype="str", keep_default_na=False, skipinitialspace=True,
            on_bad_lines="skip", engine="c",
        )  # fmt: skip
    except (ValueError, pd.errors.ParserError) as error:
        raise FormatError(f"'{log.name}' is no table of metrics: {str(error).splitlines()[0]}") from error
    frame.columns = [str(name).strip().lower() for name in frame.columns]
    return frame


def read_lines(log: LogFile) -> tuple[list[dict[str, object]], int]:
    """Return the JSON objects of a log, one per line or all in one array, and how many lines were none."""
    text = log.text().strip()
    if text.startswith("["):
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise FormatError(f"'{log.name}' is no JSON: {error}") from error
        good = [row for row in rows if isinstance(row, dict)]
        return good, len(rows) - len(good)
    found: list[dict[str, object]] = []
    bad = 0
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            found.append(row)
        else:
            bad += 1
    return found, bad

"""This module reads the small TOML files that map a log's columns to canonical ones.

::

    [format]
    name = "mysite"
    delimiter = ","                    # optional
    marks = ["JobID", "submit"]        # header columns by which the format is recognised; all are required
    fields = ["JobID", "submit"]       # only for files without header
    zone = "Europe/Berlin"             # optional; --tz wins
    origin = "2020-01-01"              # optional; relative seconds count from here
    absent = ["", "-", "None"]         # texts that mean missing
    drop_copies = false                # rows without id: fully equal rows are copies of one job
    repeated_ids = "attempts"          # or "tasks": an id that occurs again is another task of an array

    [columns]
    job_id = "JobID"                   # the source column
    framework = { constant = "torch" }
    requested_gpus = { column = "gpu_milli", scale = 0.001, times = "num_gpu" }
    requested_memory_mib = { column = "mem", unit = "GB" }
    walltime_s = { column = "limit", unit = "clock" }
    submitted_at = { column = "t", unit = "ms" }

    [states]
    Pass = "COMPLETED"
    "*" = "FAILED"                     # all others; without it they stay as they are
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.schema import COLUMNS
from predictor.errors import ArgumentError, FormatError

ROW_NUMBER = "@row"  # job_id = "@row": the log has no ids, number its records
_MIB_PER = {"B": 2.0**-20, "KB": 2.0**-10, "MB": 1.0, "GB": 2.0**10, "TB": 2.0**20}
_SECONDS_PER = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_RATIO_PER = {"percent": 0.01, "milli": 0.001}
_PARSED = ("clock", "size", "relative", "tres_gpus")
UNITS = {**_MIB_PER, **_SECONDS_PER, **_RATIO_PER}
DEFAULT_ABSENT = ("", "None", "NULL", "null", "NaN", "nan", "N/A", "Unknown", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSource:
    """Where a canonical column's values come from.

    Attributes:
        column: the source column; None for a constant.
        constant: the value of all rows, where there is no column.
        scale: factor that turns the source's unit into the canonical one.
        times: a further column to multiply with, such as a count of instances.
        parse: ``clock``, ``size``, ``relative`` (seconds since the map's origin) or empty for plain values.
    """

    column: str | None = None
    constant: str | float | bool | None = None
    scale: float = 1.0
    times: str | None = None
    parse: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """A log format that is a table with other column names."""

    name: str
    columns: Mapping[str, ColumnSource]
    states: Mapping[str, str]
    marks: Sequence[str] = ()
    fields: Sequence[str] = ()
    delimiter: str | None = None
    zone: str | None = None
    origin: pd.Timestamp | None = None
    absent: Sequence[str] = DEFAULT_ABSENT
    drop_copies: bool = False
    repeated_ids: str = "attempts"

    @property
    def wanted(self) -> frozenset[str]:
        """The source columns that are read."""
        return frozenset(
            name for source in self.columns.values() for name in (source.column, source.times) if name
        )


def read_column_map(path: Path) -> ColumnMap:
    """Read a map.

    Raises:
        FormatError: the file is no TOML or cannot be opened.
        ArgumentError: names every fault of the map at once.
    """
    try:
        return parse_column_map(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise FormatError(f"cannot read the map '{path}': {error.strerror}; check the path") from error


def parse_column_map(text: str, name: str) -> ColumnMap:
    """Parse the text of a map; see :func:`read_column_map`."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"the map '{name}' is no TOML: {error}") from error
    faults: list[str] = []
    head = table.get("format", {})
    columns = {}
    for canonical, source in table.get("columns", {}).items():
        if canonical not in COLUMNS:
            faults.append(f"[columns] '{canonical}' is no canonical column")
            continue
        columns[canonical] = _source(canonical, source, faults)
    faults += [
        f"[columns] lacks '{required}' (job_id may be '{ROW_NUMBER}')"
        for required in ("job_id", "submitted_at")
        if required not in columns
    ]
    states = {str(word): str(state) for word, state in table.get("states", {}).items()}
    known = [state.value for state in JobState]
    faults += [f"[states] '{word}' = '{state}' is none of {', '.join(known)}"
               for word, state in states.items() if state not in known]  # fmt: skip
    faults += [f"unknown table [{key}]" for key in table if key not in ("format", "columns", "states")]
    if head.get("repeated_ids", "attempts") not in ("attempts", "tasks"):
        faults.append(f"[format] repeated_ids '{head['repeated_ids']}' is neither attempts nor tasks")
    origin = None
    if "origin" in head:
        try:
            origin = pd.Timestamp(str(head["origin"]))
            origin = origin.tz_localize("UTC") if origin.tzinfo is None else origin.tz_convert("UTC")
        except ValueError:
            faults.append(f"[format] origin '{head['origin']}' is no time")
    if faults:
        raise ArgumentError(f"the map '{name}' cannot be used", faults=faults)
    return ColumnMap(
        name=str(head.get("name", "csv")), columns=columns, states=states,
        marks=tuple(head.get("marks", ())), fields=tuple(head.get("fields", ())),
        delimiter=head.get("delimiter"), zone=head.get("zone"), origin=origin,
        absent=tuple(head.get("absent", DEFAULT_ABSENT)), drop_copies=bool(head.get("drop_copies", False)),
        repeated_ids=str(head.get("repeated_ids", "attempts")),
    )  # fmt: skip


def _source(canonical: str, source: object, faults: list[str]) -> ColumnSource:
    if isinstance(source, str):
        return ColumnSource(column=source)
    if not isinstance(source, dict):
        faults.append(f"[columns] '{canonical}' must be a column name or a table")
        return ColumnSource()
    unknown = set(source) - {"column", "constant", "scale", "unit", "times"}
    if unknown or ("column" in source) == ("constant" in source):
        faults.append(f"[columns] '{canonical}' takes 'column' or 'constant', and 'scale' or 'unit'")
        return ColumnSource()
    unit = str(source.get("unit", ""))
    if unit and unit not in UNITS and unit not in _PARSED:
        faults.append(f"[columns] '{canonical}' has unit '{unit}'; known are {', '.join([*UNITS, *_PARSED])}")
    scale = source.get("scale", 1.0)
    if not isinstance(scale, int | float):
        faults.append(f"[columns] '{canonical}' has a scale that is no number")
        scale = 1.0
    return ColumnSource(
        column=source.get("column"),
        constant=source.get("constant"),
        times=source.get("times"),
        scale=float(scale) * UNITS.get(unit, 1.0),
        parse=unit if unit in _PARSED else "",
    )

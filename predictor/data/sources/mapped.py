"""This module reads tables whose format is a mapping of columns: CSV, Parquet and the built-in maps."""

import io
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from predictor.data.schema import COLUMNS, REQUIRED_COLUMNS, ColumnType
from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.column_map import ROW_NUMBER, ColumnMap, ColumnSource
from predictor.data.sources.delimited import Delimited, header_of, read_delimited
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords
from predictor.data.sources.slurm_fields import attempts, parse_limit_s, parse_tres
from predictor.data.sources.times import UTC_DTYPE, from_epoch
from predictor.errors import ArgumentError, EmptyInputError, FormatError
from predictor.units import parse_size_mib

_PARQUET = b"PAR1"
_LIFE = ("submitted_at", "started_at", "ended_at")
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedReader:
    """Reader of a delimited table with a header, driven by a map.

    Notes:
        A log that has durations but no starts gives rows with ``elapsed_s`` only. Where the log has no
        state column, the state is UNKNOWN, or RUNNING where an end column is there and empty.
    """

    name: str
    column_map: ColumnMap | None

    @property
    def takes(self) -> frozenset[str]:
        """Options that it uses; see :class:`Reader`."""
        return frozenset({"column_map"} if self.name == "parquet" else {"column_map", "delimiter"})

    def recognises(self, log: LogFile) -> bool:
        """Whether the header has all the columns that mark the format; a Parquet file has magic bytes."""
        is_parquet = log.data.startswith(_PARQUET)
        if self.name == "parquet" or is_parquet:
            return self.name == "parquet" and is_parquet
        if self.column_map is None or not self.column_map.marks:
            return False
        return set(header_of(log, self.column_map.delimiter)) >= set(self.column_map.marks)

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        if not log.data.strip():
            raise EmptyInputError(f"'{log.name}' is empty; give a log with at least one job")
        column_map = options.column_map or self.column_map
        if self.name == "parquet":
            return _convert(
                _read_parquet(log), column_map or identity_map(_parquet_names(log)), options, "parquet", ""
            )
        header = header_of(log, options.delimiter) if log.text() else ()
        column_map = column_map or identity_map(header)
        missing = (
            []
            if column_map.fields
            else sorted((column_map.wanted | set(column_map.marks)) - set(header) - {ROW_NUMBER})
        )
        needed = [name for name in missing if name in column_map.marks or options.column_map is not None]
        if needed:
            raise FormatError(
                f"'{log.name}' is not of format '{column_map.name}'",
                faults=[f"column '{name}' is absent" for name in needed]
                + [f"found: {', '.join(header)[:300]}; choose another --format or map"],
            )
        records = read_delimited(
            log, delimiter=options.delimiter or column_map.delimiter, names=column_map.fields
        )
        if options.column_map is not None:
            return _convert(records, column_map, options, column_map.name, "")
        # a public trace is named after its file
        return _convert(records, column_map, options, self.name, "" if self.column_map is None else log.stem)


def identity_map(header: tuple[str, ...]) -> ColumnMap:
    """Return the map of a table that already uses canonical names.

    Raises:
        FormatError: required columns are absent.
    """
    absent = [name for name in REQUIRED_COLUMNS if name not in header and name != "attempt"]
    if absent:
        raise FormatError(
            "the table has no canonical column names and no map was given",
            faults=[*(f"column '{name}' is absent" for name in absent),
                    f"found: {', '.join(header)[:300]}; give --format, or a map with --map M.toml"],
        )  # fmt: skip
    return ColumnMap(
        name="csv", columns={name: ColumnSource(column=name) for name in header if name in COLUMNS}, states={}
    )


def _parquet_names(log: LogFile) -> tuple[str, ...]:
    return tuple(_open_parquet(log).schema_arrow.names)


def _open_parquet(log: LogFile) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(io.BytesIO(log.data))
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"'{log.name}' is no Parquet file ({error}); choose another --format") from error


def _read_parquet(log: LogFile) -> Delimited:
    table = _open_parquet(log).read().to_pandas(integer_object_nulls=True)  # else they become floats
    if not len(table):
        raise EmptyInputError(f"'{log.name}' has no row; give a table with jobs")
    texts = {}
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_datetime64_any_dtype(column):
            text = column.map(lambda time: time.isoformat(), na_action="ignore")
        else:
            text = column.map(str, na_action="ignore")
        texts[str(name)] = text.astype("str").fillna("")
    return Delimited(
        table=pd.DataFrame(texts), lines=list(range(1, len(table) + 1)), bad=unreadable_rows([], [], [])
    )


def _convert(
    records: Delimited, column_map: ColumnMap, options: ReadOptions, source: str, stem: str
) -> ReadResult:
    if column_map.zone is not None and options.zone == "UTC":
        options = replace(options, zone=column_map.zone)
    raw = RawRecords(records.table, records.lines, options)
    local = {
        name: where.column
        for name, where in column_map.columns.items()
        if name in _LIFE and where.column is not None and where.parse != "relative"
    }
    columns = {
        name: _column(raw, name, where, column_map)
        for name, where in column_map.columns.items()
        if name not in local
    }
    elapsed_s = columns.get("elapsed_s")
    read = raw.life(
        [local.get(name, "") for name in _LIFE], elapsed_s if isinstance(elapsed_s, pd.Series) else None
    )
    columns |= {name: times for name, times in zip(_LIFE, read, strict=True) if name in local}
    nothing = pd.Series(pd.NaT, index=raw.table.index, dtype=UTC_DTYPE)
    moments = [columns.get(name) for name in _LIFE]
    submitted, started, ended = (moment if isinstance(moment, pd.Series) else nothing for moment in moments)
    if "state" not in columns:
        state = pd.Series("UNKNOWN", index=raw.table.index, dtype="str")
        if "ended_at" in columns and "elapsed_s" not in columns:
            state = state.mask(ended.isna(), "RUNNING").mask(ended.isna() & started.isna(), "PENDING")
        columns["state"] = state
    if "elapsed_s" not in columns:
        columns["elapsed_s"] = (ended - started).dt.total_seconds()
    job_id = columns["job_id"]
    if column_map.repeated_ids == "tasks" and isinstance(job_id, pd.Series):
        columns |= _tasks(raw, job_id)
    elif "attempt" not in columns and isinstance(job_id, pd.Series):
        columns["attempt"] = attempts(job_id, submitted, started)
    copies = (
        records.table.duplicated().to_numpy()
        if column_map.drop_copies
        else np.zeros(len(raw), dtype=np.bool_)
    )
    return raw.finish(
        columns,
        source=source,
        stem=stem,
        rows_read=records.rows_read,
        unreadable=records.bad,
        dropped={"duplicate-row": int(copies.sum())},
        keep=~copies,
    )


def _tasks(raw: RawRecords, job_id: "pd.Series[str]") -> dict[str, object]:
    """Number the rows of each id that occurs more than once as the tasks of one array."""
    repeated = job_id.duplicated(keep=False) & job_id.notna()
    number = job_id.groupby(job_id).cumcount()
    raw.note("array-task-made-up", int(repeated.sum()))
    return {
        "job_id": job_id.where(~repeated, job_id + "_" + number.astype("str")),
        "array_job_id": job_id.where(repeated),
        "array_task_index": number.astype("float64").where(repeated),
    }


def _column(raw: RawRecords, name: str, where: ColumnSource, column_map: ColumnMap) -> object:
    kind = COLUMNS[name].type
    if where.column is None:
        return where.constant
    if where.column == ROW_NUMBER:
        raw.note("job-id-made-up", len(raw))
        return pd.Series(np.char.add("row-", raw.lines.astype("U")), dtype="str")
    if kind is ColumnType.TIME:
        return _time(raw, where.column, where, column_map)
    if kind is ColumnType.NUMBER:
        return _number(raw, where.column, where, column_map)
    texts = raw.text(where.column, column_map.absent)
    if kind is ColumnType.FLAG:
        flags = texts.str.lower().map(_FLAGS)
        odd = flags.isna() & texts.notna()
        raw.fault(f"bad-flag:{where.column}", f"'{where.column}' is neither true nor false", odd)
        return flags.astype("boolean")
    return _text(name, texts, column_map)


def _text(name: str, texts: "pd.Series[str]", column_map: ColumnMap) -> "pd.Series[str]":
    if name == "state":
        return _states(texts, column_map)
    return texts.str.lower() if name == "gpu_type" else texts


def _number(raw: RawRecords, column: str, where: ColumnSource, column_map: ColumnMap) -> "pd.Series[float]":
    if where.parse == "tres_gpus":
        tres = parse_tres(raw.text(column, column_map.absent))
        return tres.gpus.mask(tres.listed & tres.gpus.isna(), 0.0)
    if where.parse == "clock":
        return raw.parsed(column, parse_limit_s, column_map.absent)
    if where.parse == "size":
        return raw.parsed(column, parse_size_mib, column_map.absent)
    values = raw.number(column, where.scale, column_map.absent)
    if where.times is not None:
        values = values * raw.number(where.times, absent=column_map.absent)
    return values


def _time(
    raw: RawRecords, column: str, where: ColumnSource, column_map: ColumnMap
) -> "pd.Series[pd.Timestamp]":
    if where.parse != "relative":
        return raw.time(column)
    if column_map.origin is None:
        raise ArgumentError(f"'{column}' is relative but the map names no origin; add origin to [format]")
    offset_s = raw.number(column, where.scale, column_map.absent)
    return from_epoch(offset_s + column_map.origin.timestamp())


def _states(words: "pd.Series[str]", column_map: ColumnMap) -> "pd.Series[str]":
    known = dict(column_map.states)
    default = known.pop("*", None)
    if not known and default is None:
        return words.str.upper()
    return words.map(lambda word: known.get(word, default or word), na_action="ignore").astype("str")

"""This module reads Alibaba's PAI trace of 2020: tables without header, joined by job name.

Notes:
    The task table is the log; the job table (user, time of submission) and the sensor table (peaks) are
    joined where they are given as well. Seconds are relative; the trace hides its year, 2020-07-01 is a
    stand-in. ``plan_cpu`` and ``plan_gpu`` are percent of one core and one GPU per instance, memory is GB
    per instance. Blank times mean that the task had not got there.

References:
    Q. Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous GPU
    Clusters", NSDI 2022.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.delimited import read_delimited
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords
from predictor.data.sources.times import from_epoch
from predictor.errors import FormatError

ORIGIN_S = pd.Timestamp("2020-07-01", tz="UTC").timestamp()
STATUS = {
    "Terminated": JobState.COMPLETED, "Failed": JobState.FAILED, "Running": JobState.RUNNING,
    "Waiting": JobState.PENDING, "Ready": JobState.PENDING, "Interrupted": JobState.CANCELLED,
}  # fmt: skip
JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time",
    "plan_cpu", "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
SENSOR = (
    "job_name", "task_name", "worker_name", "inst_id", "machine", "gpu_name", "cpu_usage", "gpu_wrk_util",
    "avg_mem", "max_mem", "avg_gpu_wrk_mem", "max_gpu_wrk_mem", "read", "write", "read_count", "write_count",
)  # fmt: skip
INSTANCE = (
    "job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time", "end_time",
    "machine",
)  # fmt: skip
_TABLES = {"job": JOB, "task": TASK, "sensor": SENSOR, "instance": INSTANCE}


@dataclass(frozen=True, slots=True, kw_only=True)
class PaiReader:
    """Reader of the PAI tables; the job and sensor tables come as companions of the task table."""

    name: str = "pai"
    takes: frozenset[str] = frozenset()

    def recognises(self, log: LogFile) -> bool:
        """Whether the first record is one of the four tables."""
        return table_of(log) is not None

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read the task table; see :class:`Reader`."""
        text = log.text()
        table = table_of(log)
        if table != "task":
            raise FormatError(
                f"'{log.name}' is {'no' if table is None else f'the {table}'} table of the PAI trace; "
                f"the task table is needed, with {', '.join(TASK)} (found '{text[:80]}')"
            )
        records = read_delimited(log, names=TASK)
        raw = RawRecords(records.table, records.lines, options)
        columns = _columns(raw)
        _join_jobs(raw, columns, _companions(options, "job", JOB))
        _join_sensors(columns, _companions(options, "sensor", SENSOR))
        return raw.finish(
            columns, source=self.name, stem=self.name, rows_read=records.rows_read, unreadable=records.bad
        )


def table_of(log: LogFile) -> str | None:
    """Return which of the PAI tables a log is: ``job``, ``task``, ``sensor``, ``instance`` or None."""
    line = log.head().lstrip("\r\n").split("\n", 1)[0]
    cells = next(csv.reader([line.replace("\r", "")]), [])
    for name, fields in _TABLES.items():
        if len(cells) != len(fields):
            continue
        if "status" not in fields:
            return name if all(_is_number(cell) for cell in cells[6:]) else None
        times = [cells[fields.index(field)] for field in ("start_time", "end_time")]
        if cells[fields.index("status")] in STATUS and all(_is_number(time) for time in times):
            return name
    return None


def is_companion(log: LogFile) -> bool:
    """Whether the log is a PAI table that is joined to the task table."""
    return table_of(log) not in (None, "task")


def _is_number(text: str) -> bool:
    return text.strip() == "" or text.strip().replace(".", "", 1).replace("e+", "", 1).isdigit()


def _companions(options: ReadOptions, table: str, fields: Sequence[str]) -> pd.DataFrame | None:
    tables = [read_delimited(log, names=fields).table for log in options.companions if table_of(log) == table]
    return pd.concat(tables, ignore_index=True) if tables else None


def _columns(raw: RawRecords) -> dict[str, object]:
    words = raw.text("status")
    started = from_epoch(raw.number("start_time") + ORIGIN_S)
    ended = from_epoch(raw.number("end_time") + ORIGIN_S)
    instances = raw.number("inst_num").fillna(1.0)
    gpu_type = raw.text("gpu_type").str.lower()
    return {
        "job_id": raw.text("job_name") + "/" + raw.text("task_name"),
        "task": raw.text("task_name"),
        "requested_gpus": raw.number("plan_gpu", 0.01).fillna(0.0) * instances,
        "gpu_type": gpu_type.where(gpu_type != "cpu"),
        "requested_cpus": raw.number("plan_cpu", 0.01) * instances,
        "requested_memory_mib": raw.number("plan_mem", 1024.0) * instances,
        "submitted_at": started,
        "started_at": started,
        "ended_at": ended,
        "elapsed_s": (ended - started).dt.total_seconds(),
        "state": words.map(lambda word: STATUS.get(word, word), na_action="ignore").astype("str"),
    }


def _join_jobs(raw: RawRecords, columns: dict[str, object], jobs: pd.DataFrame | None) -> None:
    if jobs is None:
        raw.note("submit-time-is-start", len(raw))
        return
    facts = jobs.drop_duplicates("job_name").set_index("job_name")
    names = raw.text("job_name")
    offset_s = pd.to_numeric(names.map(facts["start_time"]), errors="coerce").astype("float64")
    columns["user"] = names.map(facts["user"]).astype("str")
    submitted, started = from_epoch(offset_s + ORIGIN_S), columns["started_at"]
    raw.note("submit-time-is-start", int(submitted.isna().sum()))
    columns["submitted_at"] = submitted.fillna(started) if isinstance(started, pd.Series) else submitted


def _join_sensors(columns: dict[str, object], sensors: pd.DataFrame | None) -> None:
    if sensors is None:
        return
    key = sensors["job_name"] + "/" + sensors["task_name"]
    for name, field in (("peak_host_memory_mib", "max_mem"), ("peak_vram_mib", "max_gpu_wrk_mem")):
        peaks = (pd.to_numeric(sensors[field], errors="coerce") * 1024.0).groupby(key).max()
        job_id = columns["job_id"]
        if isinstance(job_id, pd.Series):
            columns[name] = job_id.map(peaks).astype("float64")

"""This module reads the Standard Workload Format (SWF v2) of the Parallel Workloads Archive.

Notes:
    ``-1`` means missing. Submit times count from the header's ``UnixStartTime``. Memory is KB per
    processor. Submissions need not be sorted. SWF predates GPUs: ``requested_gpus`` is 0. The executable
    number serves as ``job_name``, the group as ``account``, the queue (or else the partition) as ``queue``.
    Files with 21 fields and no header (the MetaCentrum variant) carry epoch seconds, bytes and the queue's
    name; their group, executable and preceding job are placeholders.

References:
    S. J. Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers",
    Job Scheduling Strategies for Parallel Processing, 1999.
"""

import csv
import io
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords
from predictor.data.sources.slurm_fields import attempts
from predictor.data.sources.times import from_epoch
from predictor.errors import EmptyInputError, FormatError

FIELDS = (
    "job", "submit", "wait_s", "run_s", "used_processors", "cpu_s", "used_memory_kb", "requested_processors",
    "requested_s", "requested_memory_kb", "status", "user", "group", "executable", "queue", "partition",
    "preceding_job", "think_s",
)  # fmt: skip
EXTENDED = (*FIELDS, "node_list", "queue_name", "node_request")
STATES = {
    0: JobState.FAILED, 1: JobState.COMPLETED, 5: JobState.CANCELLED, -1: JobState.UNKNOWN,
    # checkpointed jobs: 2 and 3 are parts of a run that went on, 4 its cancelled last part
    2: JobState.PREEMPTED, 3: JobState.COMPLETED, 4: JobState.CANCELLED,
}  # fmt: skip
_EPOCH_FROM = 5e8  # submit fields of a log without header that are larger are epoch seconds (1985)
_HEADER = re.compile(r"^;\s*(?P<key>[A-Za-z]+):\s*(?P<value>.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfReader:
    """Reader of SWF, plain or extended by further fields."""

    name: str = "swf"
    takes: frozenset[str] = frozenset()

    def recognises(self, log: LogFile) -> bool:
        """Whether there are ``;`` headers of SWF, or records of 18 or more numbers."""
        lines = [line for line in log.head().split("\n") if line.strip()]
        records = [line.split() for line in lines if not line.startswith(";")]
        if not records:
            return any(_HEADER.match(line) for line in lines)
        return len(records[0]) >= len(FIELDS) and all(_is_number(text) for text in records[0][: len(FIELDS)])

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        lines = log.text().splitlines()
        records = [(at, line) for at, line in enumerate(lines, 1) if line.strip() and line.lstrip()[0] != ";"]
        if not records:
            raise EmptyInputError(f"'{log.name}' has SWF headers but no record; give a log with jobs")
        widths = np.array([len(line.split()) for _, line in records])
        whole = widths >= len(FIELDS)
        if not whole.any():
            raise FormatError(
                f"no record of '{log.name}' has the {len(FIELDS)} fields of SWF; "
                f"found {int(widths.max())} in '{records[0][1][:80]}'; choose another --format"
            )
        good = [" ".join(line.split()) for (_, line), enough in zip(records, whole, strict=True) if enough]
        values = pd.read_csv(
            io.StringIO("\n".join(good)), sep=" ", quoting=csv.QUOTE_NONE, header=None,
            names=list(range(int(widths.max()))), keep_default_na=False, low_memory=False,
            usecols=list(range(min(int(widths.max()), len(EXTENDED)))),
        )  # fmt: skip
        values.columns = pd.Index(EXTENDED[: values.shape[1]])
        numbers = np.array([at for at, _ in records])
        short = [record for record, good in zip(records, whole, strict=True) if not good]
        bad = unreadable_rows(
            [at for at, _ in short], ["too-few-fields"] * len(short), [line for _, line in short]
        )
        raw = RawRecords(pd.DataFrame({"record": good}, dtype="str"), numbers[whole].tolist(), options)
        headers = {match["key"]: match["value"] for match in _HEADER.finditer("\n".join(lines[:500]))}
        extended = "UnixStartTime" not in headers and bool((widths > len(FIELDS)).all())
        columns = _columns(raw, values, headers.get("UnixStartTime"), extended)
        return raw.finish(columns, source="swf", stem=log.stem, rows_read=len(records), unreadable=bad)


def _columns(raw: RawRecords, values: pd.DataFrame, start: str | None, extended: bool) -> dict[str, object]:
    value = {field: _numbers(raw, values, field) for field in FIELDS}
    known = {field: numbers.where(numbers >= 0) for field, numbers in value.items()}
    origin = float(start) if start is not None and _is_number(start) else 0.0
    offset = value["submit"] + origin
    if origin == 0.0 and not (value["submit"].median() >= _EPOCH_FROM):
        raise FormatError(
            "the log has no 'UnixStartTime' header and its submit times are no epoch seconds; "
            "add a line '; UnixStartTime: SECONDS' with the moment at which the log begins"
        )
    submitted = from_epoch(offset)
    code = value["status"]
    states = code.map(lambda number: STATES.get(int(number), str(int(number))), na_action="ignore").astype(
        "str"
    )
    # a job that never got processors did not run: its wait and its zero run time say nothing
    ran = (known["wait_s"].notna() & (known["run_s"] > 0)) | (
        known["run_s"].notna() & known["wait_s"].notna() & (known["used_processors"] > 0)
    )
    started = from_epoch((offset + known["wait_s"]).where(ran))
    over = code.isin((0, 1)) | (known["used_processors"] > 0)  # it ran, be it for less than a second
    elapsed_s = known["run_s"].where(ran | over | (known["run_s"] > 0))
    processors = known["requested_processors"].where(known["requested_processors"] > 0)
    processors = processors.fillna(known["used_processors"].where(known["used_processors"] > 0))
    per_mib = 1024.0**2 if extended else 1024.0
    queue = _name(value["queue"].where(value["queue"] >= 0).fillna(value["partition"]))
    if extended and "queue_name" in values:
        queue = values["queue_name"].astype("str")
    job_id = _name(value["job"])
    peak = _positive(known["used_memory_kb"]) * known["used_processors"] / per_mib
    return {
        "job_id": job_id,
        "attempt": attempts(job_id, submitted, started),
        "user": _name(value["user"]),
        "account": None if extended else _name(value["group"]),
        "queue": queue,
        "job_name": None if extended else _name(value["executable"]),
        "requested_gpus": 0.0,
        "requested_cpus": processors,
        "requested_memory_mib": _positive(known["requested_memory_kb"]) * processors / per_mib,
        "walltime_s": _positive(known["requested_s"]),
        "dependency": None if extended else _name(value["preceding_job"]),
        "submitted_at": submitted,
        "started_at": started,
        "allocated_cpus": known["used_processors"].where(ran),
        "ended_at": from_epoch((offset + known["wait_s"] + known["run_s"]).where(ran)),
        "elapsed_s": elapsed_s,
        "state": states,
        "peak_host_memory_mib": peak if not extended else None,
    }


def _positive(values: "pd.Series[float]") -> "pd.Series[float]":
    return values.where(values > 0)


def _name(values: "pd.Series[float]") -> "pd.Series[str]":
    """Numbers of users, groups, programs and queues are names: keep them as text, -1 as missing."""
    names = values.fillna(-1).astype("int64").astype("str")
    return names.where(values >= 0)


def _numbers(raw: RawRecords, values: pd.DataFrame, field: str) -> "pd.Series[float]":
    numbers = pd.to_numeric(values[field], errors="coerce").astype("float64")
    numbers = numbers.where(np.isfinite(numbers))
    raw.fault(f"bad-number:{field}", f"'{field}' is no number", numbers.isna())
    return numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""This module reads ``sacct --json`` of all Slurm versions that have it.

Up to 22.05 numbers are plain and states are words; data_parser versions write numbers as
``{"set": true, "infinite": false, "number": 5}`` and states as lists.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords, text_table
from predictor.data.sources.slurm_columns import slurm_columns
from predictor.data.sources.slurm_fields import split_ids
from predictor.errors import EmptyInputError, FormatError

_NO_VALUE = 4294967294  # NO_VAL and INFINITE of slurm.h, as older versions write them
_MARKS = ('"association"', '"submission"', '"allocation_nodes"')
Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SacctJsonReader:
    """Reader of sacct's JSON; steps lie inside their job and are no records of their own."""

    name: str = "sacct-json"
    takes: frozenset[str] = frozenset()

    def recognises(self, log: LogFile) -> bool:
        """Whether there is an object with jobs as slurmdbd describes them."""
        head = log.head().lstrip()
        return head.startswith("{") and '"jobs"' in head and any(mark in head for mark in _MARKS)

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        jobs = _jobs(log)
        rows, bad = [], []
        for at, job in enumerate(jobs, 1):
            if isinstance(job, dict) and isinstance(job.get("time"), dict) and "job_id" in job:
                rows.append((at, _fields(job)))
            else:
                bad.append((at, json.dumps(job)))
        if not rows:
            raise FormatError(
                f"no element of 'jobs' in '{log.name}' is a job of sacct --json (no 'time' and 'job_id'); "
                "squeue --json and the REST API of slurmctld list live jobs and are no accounting log"
            )
        raw = RawRecords(text_table([row for _, row in rows]), [at for at, _ in rows], options)
        columns = slurm_columns(raw, split_ids(raw.text("jobid")))
        columns["peak_host_memory_mib"] = raw.number("peak_bytes", 2.0**-20)
        columns["peak_vram_mib"] = raw.number("peak_gpu_bytes", 2.0**-20)
        lost = unreadable_rows([at for at, _ in bad], ["not-a-job"] * len(bad), [text for _, text in bad])
        return raw.finish(columns, source="sacct-json", rows_read=len(jobs), unreadable=lost)


def _jobs(log: LogFile) -> list[object]:
    try:
        document = json.loads(log.text())
    except ValueError as error:
        raise FormatError(
            f"'{log.name}' is no JSON ({error}); print the log anew with sacct --json"
        ) from error
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list):
        raise FormatError(f"'{log.name}' has no list 'jobs'; print the log with sacct --json")
    if not jobs:
        errors = document.get("errors") or []
        told = f"; Slurm reported: {json.dumps(errors)[:300]}" if errors else "; widen sacct's -S and -E"
        raise EmptyInputError(f"'{log.name}' lists no job{told}")
    return jobs


def _fields(job: Json) -> dict[str, str]:
    """Return a job's facts under sacct's field names, as text."""
    time, state, array, het = (_object(job, key) for key in ("time", "state", "array", "het"))
    tres, required = _object(job, "tres"), _object(job, "required")
    steps = [step for step in _list(job, "steps") if not _is_extern(step)]
    memory = _number(required.get("memory_per_node")) or _number(required.get("memory"))
    per_cpu = _number(required.get("memory_per_cpu"))
    fields: dict[str, object] = {
        "jobid": _job_id(job, array, het),
        "cluster": job.get("cluster"),
        "user": job.get("user") or _object(job, "association").get("user"),
        "account": job.get("account"),
        "partition": job.get("partition"),
        "qos": job.get("qos"),
        "jobname": job.get("name"),
        "submitline": job.get("submit_line"),
        "workdir": job.get("working_directory"),
        "constraints": _joined(job.get("constraints")),
        "reservation": _object(job, "reservation").get("name") or None,
        "state": _joined(state.get("current")),
        "submit": _number(time.get("submission")),
        "eligible": _number(time.get("eligible")),
        "start": _number(time.get("start")),
        "end": _number(time.get("end")),
        "elapsedraw": _number(time.get("elapsed")),
        "timelimitraw": _number(time.get("limit")),
        "allocnodes": _number(job.get("allocation_nodes")),
        "reqcpus": _number(required.get("CPUs")),
        "reqmem": f"{per_cpu}Mc" if per_cpu else f"{memory}Mn" if memory else None,
        "reqtres": _tres(_list(tres, "requested")),
        "alloctres": _tres(_list(tres, "allocated")),
        "nodelist": job.get("nodes"),
        "exitcode": _number(_object(job, "exit_code").get("return_code")),
        "peak_bytes": _peak(steps, "mem", ""),
        "peak_gpu_bytes": _peak(steps, "gres", "gpumem"),
    }
    return {name: "" if value is None else str(value) for name, value in fields.items()}


def _job_id(job: Json, array: Json, het: Json) -> str:
    array_id, het_id = _number(array.get("job_id")), _number(het.get("job_id"))
    task, offset = _number(array.get("task_id")), _number(het.get("job_offset"))
    if array_id and task is not None:
        return f"{array_id}_{task}"
    if array_id and array.get("task"):
        return f"{array_id}_[{array['task']}]"
    if het_id and offset is not None:
        return f"{het_id}+{offset}"
    return str(job["job_id"])


def _number(value: object) -> int | None:
    """Read a number of either shape; unset, infinite and NO_VAL are None."""
    if isinstance(value, dict):
        value = None if value.get("infinite") or not value.get("set", True) else value.get("number")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return int(value) if value < _NO_VALUE else None


def _joined(value: object) -> str | None:
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    return None if value is None else str(value)


def _object(parent: Json, key: str) -> Json:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _list(parent: Json, key: str) -> list[Json]:
    value = parent.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _tres(items: Iterable[Json]) -> str:
    """Write a TRES list as sacct prints it; memory counts are MB, negative counts are unset."""
    parts = []
    for item in items:
        count, kind, name = _number(item.get("count")), item.get("type"), item.get("name")
        if count is not None and count >= 0:
            parts.append(
                f"{kind}/{name}={count}" if name else f"{kind}={count}{'M' if kind == 'mem' else ''}"
            )
    return ",".join(parts)


def _is_extern(step: Json) -> bool:
    named = _object(step, "step")
    return str(named.get("name")) == "extern" or str(named.get("id")).endswith(".extern")


def _peak(steps: Iterable[Json], kind: str, name: str) -> int | None:
    """Return the largest use of a resource by any task of any step, in bytes."""
    counts = [
        _number(item.get("count"))
        for step in steps
        for item in _list(_object(_object(step, "tres"), "requested"), "max")
        if item.get("type") == kind and (item.get("name") or "") == name
    ]
    return max((count for count in counts if count), default=None)

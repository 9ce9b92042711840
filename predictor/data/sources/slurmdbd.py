"""This module reads dumps of slurmdbd's job table: epoch seconds, integer states, numeric TRES ids.

Notes:
    TRES ids 1, 2 and 4 are CPUs, memory in MB and nodes everywhere. Ids from 1001 on are the site's own
    resources in the order of their definition; they are taken to be GPUs, 1001 as ``gres/gpu`` of any type
    and the others as typed GPUs, which count only where 1001 is absent. Limits of 4294967295 or
    4294967294 minutes are none. ``mem_req`` is MB per node, or per CPU where the highest of 64 bits is set.
    Ids that an export turned into floats (``16051200000000.0``) stay as they are written: two jobs whose
    ids lost digits cannot be told apart by a repair.
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.delimited import header_of, read_marked
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords, extract, map_distinct
from predictor.data.sources.slurm_fields import attempts
from predictor.data.sources.slurm_states import translate_numbers
from predictor.data.sources.times import from_epoch

MARKS = frozenset({"id_job", "time_submit", "time_start", "time_end", "state", "timelimit"})
_NO_VALUE = 4294967294
_PER_CPU_FLAG = 2.0**63
_ANY_GPU, _FIRST_TYPED_GPU = 1001, 1002


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmdbdReader:
    """Reader of the ``CLUSTER_job_table`` of slurmdbd, exported as CSV."""

    name: str = "slurmdbd"
    takes: frozenset[str] = frozenset({"delimiter"})

    def recognises(self, log: LogFile) -> bool:
        """Whether the header has the columns of the job table."""
        return set(header_of(log)) >= MARKS

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        records = read_marked(
            log, marks=MARKS, table="dump of slurmdbd's job table", delimiter=options.delimiter
        )
        raw = RawRecords(records.table, records.lines, options)
        return raw.finish(
            _columns(raw), source=self.name,
            rows_read=records.rows_read, unreadable=records.bad,
        )  # fmt: skip


def _columns(raw: RawRecords) -> dict[str, object]:
    moments = {name: raw.number(f"time_{name}") for name in ("submit", "eligible", "start", "end")}
    submitted, eligible, started, ended = (from_epoch(moment) for moment in moments.values())
    state = translate_numbers(raw.number("state"))
    asked, given = raw.text("tres_req"), raw.text("tres_alloc")
    given_nodes, given_cpus = raw.number("nodes_alloc"), _tres(given, 1)
    never = (state == "CANCELLED") & (ended == started) & (given_nodes.fillna(_tres(given, 4)).fillna(0) == 0)
    started = started.mask(never | (state == "PENDING"))
    run = started.notna()
    cpus = raw.number("cpus_req").fillna(_tres(asked, 1))
    nodes = _tres(asked, 4).fillna(given_nodes)
    limit_min, task = raw.number("timelimit"), raw.number("id_array_task")
    gpus = _gpus(asked).fillna(_gpus(given))
    job_id = raw.text("id_job")
    exit_code = raw.number("exit_code")
    return {
        "job_id": job_id,
        "attempt": attempts(job_id, submitted, started),
        "user": raw.text("id_user"),
        "account": raw.first_text("account", "id_assoc"),
        "queue": raw.text("partition"),
        "job_name": raw.text("job_name"),
        "work_dir": raw.text("work_dir"),
        "submit_line": raw.text("submit_line"),
        "task": raw.text("job_type"),
        "array_job_id": raw.text("id_array_job").where(task < _NO_VALUE),
        "array_task_index": task.where(task < _NO_VALUE),
        "requested_gpus": gpus.mask(gpus.isna() & (asked.notna() | given.notna()), 0.0),
        "requested_nodes": nodes,
        "requested_cpus": cpus,
        "requested_memory_mib": _tres(asked, 2).fillna(_memory_mib(raw.number("mem_req"), nodes, cpus)),
        "walltime_s": (limit_min * 60.0).where(limit_min < _NO_VALUE),
        "qos": raw.text("id_qos"),
        "constraints": raw.text("constraints"),
        "submitted_at": submitted,
        "eligible_at": eligible,
        "started_at": started,
        "node_list": raw.text("nodelist", ("", "None assigned", "[]")),
        "allocated_nodes": given_nodes.where(run),
        "allocated_cpus": given_cpus.where(run),
        "allocated_gpus": _gpus(given).mask(given.notna() & _gpus(given).isna(), 0.0).where(run),
        "ended_at": ended,
        "elapsed_s": (ended - started).dt.total_seconds() - raw.number("time_suspended").fillna(0.0),
        "state": state,
        "exit_code": exit_code // 256,  # the wait status of the batch script: code and signal
    }


def _tres(texts: "pd.Series[str]", number: int) -> "pd.Series[float]":
    """Return the count of one TRES id; counts beyond 2**63 are unset."""
    found = pd.to_numeric(extract(texts, rf"(?:^|,){number}=(?P<found>\d+)"), errors="coerce").astype(
        "float64"
    )
    return found.where(found < _PER_CPU_FLAG)


def _gpus(texts: "pd.Series[str]") -> "pd.Series[float]":
    def count(text: str) -> float:
        pairs = {int(key): float(value) for key, value in re.findall(r"(\d+)=(\d+)", text)}
        if _ANY_GPU in pairs:
            return pairs[_ANY_GPU]
        typed = [value for key, value in pairs.items() if key >= _FIRST_TYPED_GPU]
        return sum(typed) if typed else float("nan")

    return map_distinct(texts, count)


def _memory_mib(
    values: "pd.Series[float]", nodes: "pd.Series[float]", cpus: "pd.Series[float]"
) -> "pd.Series[float]":
    per_cpu = values >= _PER_CPU_FLAG
    size = values.mask(per_cpu, values - _PER_CPU_FLAG)
    # an export that writes floats loses the size below the flag; what is left is a rounding error
    size = size.mask(per_cpu & (values % 1e6 == 0))
    total: pd.Series[float] = size * np.where(per_cpu, cpus.fillna(1.0), nodes.fillna(1.0))
    return total.where((total > 0) & (total < 1e12))

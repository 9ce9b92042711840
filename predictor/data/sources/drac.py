"""This module reads the job tables of the Digital Research Alliance of Canada's wait-time studies.

Notes:
    ``account_id`` stands for user and account alike; it fills ``account``, and ``user`` stays missing.
    Columns ending in ``_x`` and ``_y`` are leftovers of a merge; those beginning with ``q_`` and ``r_``
    describe the queue at a snapshot, not the job; all of these are ignored except the partition's number.
    Only jobs pending at a daily snapshot are in these logs, so waits are longer than those of all jobs.
"""

from dataclasses import dataclass

from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.delimited import header_of, read_marked
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords
from predictor.data.sources.slurm_fields import attempts, parse_tres
from predictor.data.sources.slurm_states import translate_words

MARKS = frozenset({"job_unique_id", "submit_time", "req_tres", "state", "time_limit_sec"})
FIELDS = (
    *sorted(MARKS), "partition_id_x", "account_id", "req_cpus", "req_mem_total", "alloc_nodes",
    "eligible_time", "start_time", "end_time", "elapsed_time", "run_time_sec",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DracReader:
    """Reader of the DRAC tables."""

    name: str = "drac"
    takes: frozenset[str] = frozenset({"delimiter"})

    def recognises(self, log: LogFile) -> bool:
        """Whether the header has the fields that mark these tables."""
        return set(header_of(log)) >= MARKS

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        records = read_marked(
            log, marks=MARKS, table="DRAC job table", delimiter=options.delimiter, wanted=FIELDS
        )
        raw = RawRecords(records.table, records.lines, options)
        tres = parse_tres(raw.text("req_tres"))
        job_id = raw.text("job_unique_id")
        elapsed_s = raw.number("elapsed_time").fillna(raw.number("run_time_sec"))
        submitted, started, ended = raw.life(("submit_time", "start_time", "end_time"), elapsed_s)
        limit_s = raw.number("time_limit_sec")
        columns: dict[str, object] = {
            "job_id": job_id,
            "attempt": attempts(job_id, submitted, started),
            "account": raw.text("account_id"),
            "queue": raw.text("partition_id_x"),
            "requested_gpus": tres.gpus.mask(tres.listed & tres.gpus.isna(), 0.0),
            "gpu_type": tres.gpu_type,
            "requested_nodes": tres.nodes.fillna(raw.number("alloc_nodes")),
            "requested_cpus": raw.number("req_cpus").fillna(tres.cpus),
            "requested_memory_mib": raw.number("req_mem_total").fillna(tres.memory_mib),
            "walltime_s": limit_s.where(limit_s > 0),
            "submitted_at": submitted,
            "eligible_at": raw.time("eligible_time"),
            "started_at": started,
            "allocated_nodes": raw.number("alloc_nodes"),
            "ended_at": ended,
            "elapsed_s": elapsed_s,
            "state": translate_words(raw.text("state")),
        }
        return raw.finish(
            columns, source="drac", stem=log.stem, rows_read=records.rows_read, unreadable=records.bad
        )

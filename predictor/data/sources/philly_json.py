"""This module reads the job log of Microsoft's Philly traces: jobs with their attempts, as JSON.

Notes:
    Each attempt is a row. Philly tries a job again after it failed, so all attempts but the last are
    FAILED and the last has the job's status; an attempt entered the queue when the one before it ended.
    Times are local without zone (US Pacific in the published trace: ``--tz America/Los_Angeles``).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from predictor.contracts.job import JobState
from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords, text_table
from predictor.errors import EmptyInputError, FormatError

STATUS = {
    "Pass": JobState.COMPLETED, "Failed": JobState.FAILED, "Killed": JobState.CANCELLED,
    "Running": JobState.RUNNING, "Queued": JobState.PENDING,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PhillyJsonReader:
    """Reader of Philly's ``cluster_job_log``."""

    name: str = "philly-json"
    takes: frozenset[str] = frozenset()

    def recognises(self, log: LogFile) -> bool:
        """Whether there is a list of jobs with attempts and a virtual cluster."""
        head = log.head().lstrip()
        return head.startswith("[") and '"jobid"' in head and '"attempts"' in head and '"vc"' in head

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        try:
            jobs = json.loads(log.text())
        except ValueError as error:
            raise FormatError(f"'{log.name}' is no JSON ({error}); fetch the log again") from error
        if not isinstance(jobs, list):
            raise FormatError(f"'{log.name}' is no list of Philly jobs; choose another --format")
        if not jobs:
            raise EmptyInputError(f"'{log.name}' lists no job; give a log with at least one job")
        rows: list[tuple[int, dict[str, str]]] = []
        bad: list[tuple[int, str]] = []
        for at, job in enumerate(jobs, 1):
            if isinstance(job, dict) and "jobid" in job and isinstance(job.get("attempts", []), list):
                rows += [(at, row) for row in _rows(job)]
            else:
                bad.append((at, json.dumps(job)))
        if not rows:
            raise FormatError(f"no element of '{log.name}' is a Philly job; choose another --format")
        raw = RawRecords(text_table([row for _, row in rows]), [at for at, _ in rows], options)
        lost = unreadable_rows([at for at, _ in bad], ["not-a-job"] * len(bad), [text for _, text in bad])
        submitted, started, ended = raw.life(("submit", "start", "end"))
        columns: dict[str, object] = {
            "job_id": raw.text("job_id"),
            "attempt": raw.number("attempt"),
            "user": raw.text("user"),
            "queue": raw.text("vc"),
            "requested_gpus": raw.number("gpus"),
            "requested_nodes": raw.number("nodes"),
            "submitted_at": submitted,
            "started_at": started,
            "ended_at": ended,
            "elapsed_s": (ended - started).dt.total_seconds(),
            "node_list": raw.text("node_list"),
            "state": raw.text("state"),
        }
        return raw.finish(
            columns, source=self.name, stem="philly", rows_read=len(rows) + len(bad), unreadable=lost
        )


def _rows(job: Mapping[str, object]) -> Iterator[dict[str, str]]:
    tries = job.get("attempts")
    attempts = [one for one in tries if isinstance(one, dict)] if isinstance(tries, list) else []
    status = str(job.get("status", ""))
    submitted = _text(job.get("submitted_time"))
    for number, attempt in enumerate(attempts or [{}]):
        last = number >= len(attempts) - 1
        placement = [node for node in attempt.get("detail") or [] if isinstance(node, dict)]
        state = STATUS.get(status, status) if last else JobState.FAILED
        yield {
            "job_id": _text(job["jobid"]),
            "attempt": str(number),
            "user": _text(job.get("user")),
            "vc": _text(job.get("vc")),
            "submit": submitted,
            "start": _text(attempt.get("start_time")),
            "end": _text(attempt.get("end_time")),
            "gpus": str(sum(len(node.get("gpus") or []) for node in placement)) if placement else "",
            "nodes": str(len(placement)) if placement else "",
            "node_list": ",".join(_text(node.get("ip")) for node in placement),
            "state": str(state),
        }
        submitted = _text(attempt.get("end_time")) or submitted


def _text(value: object) -> str:
    return "" if value in (None, "None") else str(value)

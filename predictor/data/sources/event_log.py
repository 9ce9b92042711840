"""This module turns the events of our own queue into rows of the job table: so retraining learns from them.

A row is a mapping from columns of the canonical table to JSON values, as in the outcome log of the service.
What the events do not tell (exit codes, measured memory) stays open; rows of the outcome log fill it in.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

from predictor.contracts.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from predictor.contracts.job import JobState

SOURCE = "event-log"
Row = Mapping[str, str | float | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One attempt of a job that has not ended; ``started_s`` None = it waits."""

    job: JobSubmitted
    number: int = 0
    started_s: float | None = None


def job_rows(events: Iterable[Event]) -> Iterator[Row]:
    """Yield one row per attempt: those that ended in the order of their ends, then those still alive.

    An interruption ends an attempt as PREEMPTED, which says that it would have run for longer; the job's next
    attempt counts from there. Events of jobs whose submission is not among the events are passed over.
    """
    alive: dict[str, _Attempt] = {}
    for event in events:
        if isinstance(event, JobSubmitted):
            alive[event.job_id] = _Attempt(job=event)
            continue
        attempt = alive.get(getattr(event, "job_id", ""))
        if attempt is None:
            continue
        if isinstance(event, JobStarted):
            alive[attempt.job.job_id] = _Attempt(
                job=attempt.job, number=attempt.number, started_s=event.now_s
            )
        elif isinstance(event, JobRequeued):
            yield _row(attempt, JobState.PREEMPTED, event.now_s)
            alive[attempt.job.job_id] = _Attempt(job=attempt.job, number=attempt.number + 1)
        elif isinstance(event, JobFinished | JobCancelled):
            state = JobState.CANCELLED if isinstance(event, JobCancelled) else _state(event.outcome)
            yield _row(attempt, state, event.now_s)
            del alive[attempt.job.job_id]
    for attempt in alive.values():
        yield _row(attempt, JobState.PENDING if attempt.started_s is None else JobState.RUNNING, None)


def _state(outcome: str) -> JobState:
    try:
        return JobState(outcome.upper())
    except ValueError:
        return JobState.FAILED  # it ended, in a way that has no name here


def _row(attempt: _Attempt, state: JobState, ended_s: float | None) -> Row:
    job = attempt.job
    row: dict[str, str | float | int] = {
        "job_id": job.job_id, "attempt": attempt.number, "state": state.value, "source": SOURCE,
        "submitted_at": _moment(job.now_s), "requested_gpus": job.width,
    }  # fmt: skip
    texts = {"user": job.user, "account": job.team, "queue": job.pool, "gpu_type": job.gpu_type}
    row |= {name: text for name, text in texts.items() if text}
    if isfinite(job.limit_s):
        row["walltime_s"] = job.limit_s
    if attempt.started_s is not None:
        row["started_at"] = _moment(attempt.started_s)
    if ended_s is not None:
        row["ended_at"] = _moment(ended_s)
        if attempt.started_s is not None:
            row["elapsed_s"] = ended_s - attempt.started_s
    return row


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, tz=UTC).isoformat()

"""This module is one line of the outcome log: a row of the canonical job table plus when it came.

A ``submitted`` event is the row of a PENDING job, ``started`` that of a RUNNING one, ``finished`` the final
row with all that was ever told of the job. So the log is a job table that the next retraining can read.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from predictor.contracts.job import JobState
from predictor.contracts.outcome import Outcome
from predictor.contracts.request import JobRequest
from serving.schemas import OutcomeEvent, as_epoch_s, as_text

SUBMITTED, STARTED, FINISHED = "submitted", "started", "finished"
SERVICE_FIELDS = ("event", "recorded_at", "payload")  # the others are columns of the job table
SOURCE = "service"

_REQUEST_TEXTS = ("cluster", "user", "account", "queue", "qos", "gpu_type", "job_name", "dependency")
_REQUEST_NUMBERS = (
    "requested_gpus", "requested_nodes", "requested_cpus", "requested_memory_mib", "walltime_s",
    "array_task_index",
)  # fmt: skip
WORKLOAD = (
    "framework", "task", "model_family", "parameter_count", "precision", "optimizer", "batch_size",
    "sequence_length", "image_size", "parallelism", "gradient_checkpointing", "lora_rank",
)  # fmt: skip
_OUTCOME_FIELDS = (
    "elapsed_s", "exit_code", "peak_vram_mib", "peak_host_memory_mib", "gpu_utilisation_ratio", "node_list",
    "allocated_nodes", "allocated_cpus", "allocated_gpus",
)  # fmt: skip

JobKey = tuple[str | None, str, int]


class OutcomeRow(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One line of the log. ``payload`` is a digest of what the caller sent, to recognise a repetition."""

    event: str
    recorded_at: datetime
    payload: str
    job_id: str
    attempt: int
    state: str
    submitted_at: datetime
    source: str
    cluster: str | None = None
    user: str | None = None
    account: str | None = None
    queue: str | None = None
    qos: str | None = None
    gpu_type: str | None = None
    job_name: str | None = None
    requested_gpus: float | None = None
    requested_nodes: float | None = None
    requested_cpus: float | None = None
    requested_memory_mib: float | None = None
    walltime_s: float | None = None
    array_job_id: str | None = None
    array_task_index: float | None = None
    dependency: str | None = None
    submit_line: str | None = None
    framework: str | None = None
    task: str | None = None
    model_family: str | None = None
    parameter_count: float | None = None
    precision: str | None = None
    optimizer: str | None = None
    batch_size: float | None = None
    sequence_length: float | None = None
    image_size: float | None = None
    parallelism: str | None = None
    gradient_checkpointing: bool | None = None
    lora_rank: float | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    elapsed_s: float | None = None
    exit_code: int | None = None
    peak_vram_mib: float | None = None
    peak_host_memory_mib: float | None = None
    gpu_utilisation_ratio: float | None = None
    node_list: str | None = None
    allocated_nodes: float | None = None
    allocated_cpus: float | None = None
    allocated_gpus: float | None = None

    @property
    def job(self) -> JobKey:
        """Which attempt of which job the row is about."""
        return self.cluster, self.job_id, self.attempt

    @property
    def moment_s(self) -> float:
        """When the event happened."""
        moments = {SUBMITTED: self.submitted_at, STARTED: self.started_at, FINISHED: self.ended_at}
        moment = moments[self.event]
        return (moment or self.submitted_at).timestamp()

    def request(self) -> JobRequest:
        """Return the job as it was submitted."""
        return JobRequest(
            submitted_s=self.submitted_at.timestamp(), job_id=self.job_id, attempt=self.attempt,
            cluster=self.cluster, user=self.user, account=self.account, queue=self.queue, qos=self.qos,
            gpu_type=self.gpu_type, job_name=self.job_name, requested_gpus=self.requested_gpus,
            requested_nodes=self.requested_nodes,
            requested_cpus=self.requested_cpus, requested_memory_mib=self.requested_memory_mib,
            walltime_s=self.walltime_s, array_job_id=self.array_job_id,
            array_task_index=self.array_task_index, dependency=self.dependency,
        )  # fmt: skip

    def workload(self) -> dict[str, object]:
        """Return the columns of the job table that say what the job computes, as far as they are known."""
        found = {name: getattr(self, name) for name in ("submit_line", *WORKLOAD)}
        return {name: value for name, value in found.items() if value is not None}

    def outcome(self) -> Outcome:
        """Return how the attempt ended; for ``finished`` rows only."""
        return Outcome(
            job_id=self.job_id, cluster=self.cluster, attempt=self.attempt, state=JobState(self.state),
            request=self.request(),
            submitted_s=self.submitted_at.timestamp(),
            started_s=None if self.started_at is None else self.started_at.timestamp(),
            ended_s=self.moment_s, elapsed_s=self.elapsed_s, exit_code=self.exit_code,
            peak_vram_mib=self.peak_vram_mib, peak_host_memory_mib=self.peak_host_memory_mib,
        )  # fmt: skip


def row_of(event: OutcomeEvent, known: OutcomeRow | None, *, now_s: float, payload: str) -> OutcomeRow:
    """Return the row of a faultless event; what it leaves out comes from the job's earlier row."""
    values: dict[str, Any] = {}  # fields of the row, of several types
    for name in (*_REQUEST_TEXTS, *_REQUEST_NUMBERS, *WORKLOAD, *_OUTCOME_FIELDS):
        values[name] = getattr(event, name)
    values["submit_line"] = event.command
    values["array_job_id"] = as_text(event.array_job_id)
    for name in ("submitted_at", "started_at", "ended_at"):
        moment = getattr(event, name)
        values[name] = None if moment is None else from_epoch(as_epoch_s(moment))
    if known is not None:
        for name, value in values.items():
            if value is None:
                values[name] = getattr(known, name)
        values["submitted_at"] = known.submitted_at  # one attempt, one submission: all its rows agree
    values["state"] = {SUBMITTED: JobState.PENDING.value, STARTED: JobState.RUNNING.value}.get(
        event.event, str(event.state)
    )
    if event.event == FINISHED and values["elapsed_s"] is None and values["started_at"] is not None:
        values["elapsed_s"] = max((values["ended_at"] - values["started_at"]).total_seconds(), 0.0)
    return OutcomeRow(
        event=event.event, recorded_at=from_epoch(now_s), payload=payload, job_id=str(event.job_id),
        attempt=event.attempt, source=SOURCE, **values,
    )  # fmt: skip


def from_epoch(moment_s: float) -> datetime:
    """Return a moment as an aware datetime."""
    return datetime.fromtimestamp(moment_s, tz=UTC)


def column_names() -> tuple[str, ...]:
    """Return the columns of the job table that a row may hold."""
    return tuple(f.name for f in msgspec.structs.fields(OutcomeRow) if f.name not in SERVICE_FIELDS)

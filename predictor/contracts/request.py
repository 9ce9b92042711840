"""This module defines a job as a scheduler describes it at submission."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job at its submission; the fields are those of the canonical job table.

    Attributes:
        submitted_s: UTC epoch seconds.
        job_id, attempt: needed to match the outcome with the forecast; optional.
    """

    submitted_s: float
    job_id: str | None = None
    attempt: int = 0
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

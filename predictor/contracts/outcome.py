"""This module defines what comes back after a job has run."""

from dataclasses import dataclass

from predictor.contracts.job import JobState
from predictor.contracts.request import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt of a job ended.

    Attributes:
        cluster, job_id, attempt: which attempt.
        state: a final state.
        submitted_s, started_s, ended_s: UTC epoch seconds; ``started_s`` is None when it never ran.
        request: what was asked for, needed when the job was never announced before.
        elapsed_s: seconds it ran; None = ``ended_s - started_s``, or never ran.
    """

    job_id: str
    state: JobState
    submitted_s: float
    ended_s: float
    cluster: str | None = None
    request: JobRequest | None = None
    attempt: int = 0
    started_s: float | None = None
    elapsed_s: float | None = None
    exit_code: int | None = None
    peak_vram_mib: float | None = None
    peak_host_memory_mib: float | None = None

    @property
    def duration_s(self) -> float | None:
        """Seconds the attempt ran, None when it never did."""
        if self.elapsed_s is not None:
            return self.elapsed_s
        return None if self.started_s is None else max(self.ended_s - self.started_s, 0.0)

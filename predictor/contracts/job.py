"""This module defines the states a job attempt can end in, and what each teaches about its duration."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt


class JobState(StrEnum):
    """Life of one attempt, and what its end means for training.

    ::

        PENDING ──start──> RUNNING ──┬── COMPLETED      duration observed
           │                         ├── FAILED         duration observed (ended by itself)
           │                         ├── OUT_OF_MEMORY  duration observed; memory is a lower bound
           │                         ├── TIMEOUT        duration censored at the enforced limit
           │                         ├── CANCELLED      work censored, occupancy ended (cancelled_ends_job)
           │                         ├── PREEMPTED      duration censored at the moment of eviction
           │                         ├── NODE_FAIL      duration censored at the moment of failure
           │                         └── (still RUNNING at the cut: censored at the cut)
           └──cancel──> CANCELLED    never ran: teaches nothing about duration

    UNKNOWN marks logs that do not record a state (Intrepid, Philly by virtual cluster): the recorded
    duration is taken as observed.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    PREEMPTED = "PREEMPTED"
    NODE_FAIL = "NODE_FAIL"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """Whether an attempt in this state has ended."""
        return self not in (JobState.PENDING, JobState.RUNNING)

    @property
    def observes_duration(self) -> bool:
        """Whether the attempt ended by itself, so that its elapsed time is its duration."""
        return self in OBSERVED_STATES

    @property
    def is_failure(self) -> bool:
        """Whether the attempt ended badly by its own doing."""
        return self in (JobState.FAILED, JobState.OUT_OF_MEMORY)


OBSERVED_STATES = frozenset(
    {JobState.COMPLETED, JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.UNKNOWN},
)
CENSORED_STATES = frozenset(
    {JobState.TIMEOUT, JobState.CANCELLED, JobState.PREEMPTED, JobState.NODE_FAIL, JobState.RUNNING},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationLabels:
    """Durations with what is known about them; no model takes a bare duration as its target.

    Attributes:
        elapsed_s: shape (n,), seconds the attempt was seen running, > 0.
        observed: shape (n,), True where the attempt ended by itself; False where ``elapsed_s`` is
            only a lower bound of the duration (right-censored).
        limit_s: shape (n,), enforced walltime limit in seconds, ``inf`` where there is none. The
            time a job can occupy its resources is ``min(duration, limit)``.
    """

    elapsed_s: npt.NDArray[np.float64]
    observed: npt.NDArray[np.bool_]
    limit_s: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if not len(self.elapsed_s) == len(self.observed) == len(self.limit_s):
            raise ValueError(
                f"elapsed_s has {len(self.elapsed_s)} rows, observed {len(self.observed)}, "
                f"limit_s {len(self.limit_s)}; pass arrays of one length",
            )

    def __len__(self) -> int:
        return len(self.elapsed_s)

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "DurationLabels":
        """Return the labels of the chosen rows."""
        return DurationLabels(
            elapsed_s=self.elapsed_s[rows], observed=self.observed[rows], limit_s=self.limit_s[rows]
        )

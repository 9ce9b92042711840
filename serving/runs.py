"""This module tells the runs of one job id apart: schedulers give the id of a job that is over to another.

A run is one attempt from its submission to its end. What is submitted once the recorded run is over, later
than that was, is another run. Whatever else comes belongs to the recorded one.
"""

from datetime import datetime

import msgspec
from msgspec import Struct

from serving.outcome_rows import FINISHED, SUBMITTED, OutcomeRow
from serving.schemas import as_epoch_s

_ROUNDING_S = 1e-6  # rows keep microseconds


class Run(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What is recorded of the latest run of a job id, nothing to begin with.

    Attributes:
        payloads: digests of what callers sent, by event.
        submitted_s, ended_s: when it began to wait, and when it was over; None = not told.
    """

    payloads: dict[str, str] = {}
    submitted_s: float | None = None
    ended_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether its end is recorded."""
        return self.ended_s is not None

    def of(self, submitted_at: datetime | float | None) -> "Run":
        """Return the run of an event of the same id that says this of its submission: this or a new one."""
        if self.ended_s is None or self.submitted_s is None or submitted_at is None:
            return self
        moment_s = as_epoch_s(submitted_at) + _ROUNDING_S
        is_later = moment_s >= self.ended_s and moment_s > self.submitted_s + 2 * _ROUNDING_S
        return Run() if is_later else self

    def after(self, row: OutcomeRow) -> "Run":
        """Return the run with one more event."""
        return Run(
            payloads={**self.payloads, row.event: row.payload},
            submitted_s=row.submitted_at.timestamp() if self.submitted_s is None else self.submitted_s,
            ended_s=row.moment_s if row.event == FINISHED else self.ended_s,
        )

    def latest(self, before: OutcomeRow | None, row: OutcomeRow) -> OutcomeRow | None:
        """Return the row that tells most of an open job once this row came; None where it is over."""
        if row.event == FINISHED:
            return None
        return before if self.is_over or (row.event == SUBMITTED and before is not None) else row


def encode_run(run: Run) -> str:
    """Return a run as text."""
    return msgspec.json.encode(run).decode()


def decode_run(text: str) -> Run:
    """Return the run of a text."""
    return msgspec.json.decode(text, type=Run)

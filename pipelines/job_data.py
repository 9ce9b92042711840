"""This module says what a retraining knows of its job table, and freezes the window models are judged on."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipelines.settings import EvaluationSettings
from predictor.data.schema import seconds
from predictor.data.table import ended_at_s, fingerprint
from predictor.errors import ArgumentError

SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """Identity and extent of a job table.

    Attributes:
        fingerprint: SHA-256 of the content.
        first_s, last_s: first and last submission, epoch seconds.
        known_until_s: moment from which nothing in the table is newer, epoch seconds.
    """

    fingerprint: str
    rows: int
    first_s: float
    last_s: float
    known_until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The jobs that models are judged on.

    Attributes:
        from_s: first submission, which is also the moment up to which the challenger learns.
        until_s: end of the submissions.
        rows: count of jobs.
        champion_saw: the champion has learned from jobs of the window.
    """

    from_s: float
    until_s: float
    rows: int
    champion_saw: bool


def describe_data(frame: pd.DataFrame, now_s: float) -> DataFacts:
    """Return the facts of a canonical table with at least one row.

    Args:
        now_s: epoch seconds; a job that ends later has a wrong clock, and does not date what is known.
    """
    submitted_s = seconds(frame["submitted_at"])
    ends_s = ended_at_s(frame)
    return DataFacts(
        fingerprint=fingerprint(frame),
        rows=len(frame),
        first_s=float(submitted_s.min()),
        last_s=float(submitted_s.max()),
        known_until_s=min(float(np.nanmax(np.concatenate([submitted_s, ends_s]))) + 1.0, now_s),
    )


def freeze_window(
    frame: pd.DataFrame, facts: DataFacts, settings: EvaluationSettings, champion_until_s: float | None
) -> Window:
    """Return the last ``window_days`` of the log, but at most ``max_share`` of its length.

    Args:
        champion_until_s: moment up to which the champion learned. Where enough jobs are newer, they are
            the window, since a model shines on jobs that it has seen. None = there is no champion.

    Raises:
        ArgumentError: too few jobs lie before or in the window.
    """
    submitted_s = seconds(frame["submitted_at"])
    longest_s = (facts.last_s - facts.first_s) * settings.max_share
    from_s = facts.last_s - min(settings.window_days * SECONDS_PER_DAY, longest_s)
    if champion_until_s is not None and champion_until_s > from_s:
        unseen = int((submitted_s >= champion_until_s).sum())
        if unseen >= settings.unseen_rows:
            from_s = champion_until_s
    recent = int((submitted_s >= from_s).sum())
    if min(recent, facts.rows - recent) < settings.min_rows:
        raise ArgumentError(
            f"the table has {facts.rows - recent} jobs before and {recent} in the last "
            f"{(facts.last_s - from_s) / SECONDS_PER_DAY:.1f} days; {settings.min_rows} are needed in each: "
            f"ingest more logs, or change [evaluation]"
        )
    saw = champion_until_s is not None and champion_until_s > from_s
    return Window(from_s=from_s, until_s=facts.last_s + 1.0, rows=recent, champion_saw=saw)

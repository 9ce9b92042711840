"""This module decides which rows of a canonical job table are fit for use and why the others are not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.faults import Fault, Mask, RowFaults, count_rows
from predictor.data.runs import IDENTITY, run_numbers
from predictor.data.schema import JOB_TABLE, ColumnType, seconds

EARLIEST = pd.Timestamp("1980-01-01", tz="UTC")
LATEST = pd.Timestamp("2100-01-01", tz="UTC")
LONGEST_TEXT = 65536  # characters; longer fields are scripts or damage, not names
CLOCK_SLACK_S = 1.0  # both ends of an attempt are rounded to seconds

FINAL_STATES = tuple(state.value for state in JobState if state.is_final)
# A job in one of these states must have run; the other final states can be reached from the queue
# (a failure in the queue, such as a launch that failed, has at least a time of its end).
RAN_STATES = ("COMPLETED", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED", "NODE_FAIL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """A job table, sorted into rows fit for use and rows that are not.

    Every row of the input is in ``clean``, in ``quarantined`` or counted in ``dropped``.

    Attributes:
        clean: rows without fault, unchanged.
        quarantined: rows with faults, unchanged, plus ``fault_codes`` (joined by ``;``) and ``fault_text``.
        is_clean, is_faulty: shape (n,), which rows of the input these are.
        faults: kinds of fault, each with the rows of the input that have it.
        drops: kinds of rows that hold nothing new (``duplicate-row``, ``superseded-snapshot``).
        notes: kinds of clean rows about which something is worth knowing.
    """

    clean: pd.DataFrame
    quarantined: pd.DataFrame
    is_clean: Mask
    is_faulty: Mask
    faults: Sequence[Fault]
    drops: Sequence[Fault]
    notes: Sequence[Fault]

    @property
    def fault_counts(self) -> dict[str, int]:
        """Count of rows per fault code; a row with two faults counts in both."""
        return count_rows(self.faults)

    @property
    def drop_counts(self) -> dict[str, int]:
        """Count of dropped rows per reason."""
        return count_rows(self.drops)

    @property
    def note_counts(self) -> dict[str, int]:
        """Count of noted rows per code."""
        return count_rows(self.notes)


def validate(frame: pd.DataFrame) -> Validated:
    """Check every row of a canonical table for every fault; no value is repaired.

    Rows with ``elapsed_s`` but without start are accepted (note ``start-unknown``): their end is taken to
    be ``submitted_at + elapsed_s``. Jobs that were cancelled while pending are valid rows.
    A snapshot of a job that was still pending or running gives way to the final record of the same attempt.
    """
    frame = frame.reset_index(drop=True)
    drops = RowFaults(len(frame))
    identical = _identical(frame)
    drops.add("duplicate-row", "a copy of another row", identical)
    drops.add("superseded-snapshot", "the same attempt also has a final row", _superseded(frame, ~identical))
    kept = ~drops.faulty
    faults = RowFaults(len(frame))
    _check_presence(frame, faults)
    _check_times(frame, faults)
    _check_outcome(frame, faults)
    _check_numbers(frame, faults)
    _check_texts(frame, faults)
    conflicting = np.zeros(len(frame), dtype=np.bool_)
    runs = frame[kept].assign(run=run_numbers(frame[kept]))
    conflicting[kept] = runs.duplicated([*IDENTITY, "run"], keep=False).to_numpy()
    conflicting &= frame["job_id"].notna().to_numpy()
    faults.add("duplicate-id", "several different rows have this cluster, job_id and attempt", conflicting)
    faulty = faults.faulty & kept
    clean = ~faults.faulty & kept
    quarantined = frame[faulty].copy()
    quarantined["fault_codes"] = faults.codes()[faulty]
    quarantined["fault_text"] = faults.sentences()[faulty]
    return Validated(
        clean=frame[clean].reset_index(drop=True),
        quarantined=quarantined.reset_index(drop=True),
        is_clean=clean,
        is_faulty=faulty,
        faults=faults.among(kept),
        drops=drops.faults,
        notes=_notes(frame).among(clean),
    )


def _identical(frame: pd.DataFrame) -> Mask:
    """Mark the second and later copies of rows; only rows that share an identity are compared in full."""
    marks = np.zeros(len(frame), dtype=np.bool_)
    repeated = frame.duplicated(IDENTITY, keep=False).to_numpy()
    marks[repeated] = frame[repeated].duplicated(keep="first").to_numpy()
    return marks


def _superseded(frame: pd.DataFrame, among: Mask) -> Mask:
    """Mark snapshots of live jobs where the same attempt also has exactly one final row."""
    repeated = frame.duplicated(IDENTITY, keep=False).to_numpy() & among
    if not repeated.any():
        return np.zeros(len(frame), dtype=np.bool_)
    final = frame["state"].isin(FINAL_STATES)
    keys = [frame[name].fillna("") if name == "cluster" else frame[name] for name in IDENTITY]
    finals = (final & among).groupby([*keys, frame["submitted_at"]], dropna=False).transform("sum")
    return np.asarray(repeated & frame["state"].isin(("PENDING", "RUNNING")) & (finals == 1), dtype=np.bool_)


def _check_presence(frame: pd.DataFrame, faults: RowFaults) -> None:
    state = frame["state"]
    faults.add("job-id-missing", "job_id is missing", frame["job_id"].isna() | (frame["job_id"] == ""))
    faults.add("attempt-missing", "attempt is missing", frame["attempt"].isna())
    faults.add("submitted-missing", "submitted_at is missing", frame["submitted_at"].isna())
    faults.add("state-missing", "state is missing", state.isna() | (state == ""))
    unknown = state.notna() & (state != "") & ~state.isin([known.value for known in JobState])
    faults.add("state-unknown", f"state is none of {', '.join(JobState)}", unknown)


def _check_times(frame: pd.DataFrame, faults: RowFaults) -> None:
    submitted, started, ended = (frame[name] for name in ("submitted_at", "started_at", "ended_at"))
    faults.add("started-before-submitted", "started_at is before submitted_at", started < submitted)
    faults.add("ended-before-started", "ended_at is before started_at", ended < started)
    unstarted = started.isna() & (ended < submitted)
    faults.add("ended-before-submitted", "ended_at is before submitted_at", unstarted)
    for column in JOB_TABLE:
        if column.type is ColumnType.TIME:
            values = frame[column.name]
            outside = (values < EARLIEST) | (values >= LATEST)
            faults.add("time-out-of-range", f"{column.name} is outside of the years 1980 to 2099", outside)


def _check_outcome(frame: pd.DataFrame, faults: RowFaults) -> None:
    final = frame["state"].isin(FINAL_STATES)
    started, ended, elapsed = (frame[name].notna() for name in ("started_at", "ended_at", "elapsed_s"))
    faults.add(
        "end-missing", "the attempt started and is over, but ended_at is missing", final & started & ~ended
    )
    ran = frame["state"].isin(RAN_STATES) | ((frame["state"] == "FAILED") & ~ended)
    faults.add("elapsed-missing", "the attempt ran and is over, but elapsed_s is missing",
               ((final & started) | ran) & ~elapsed)  # fmt: skip


def _check_numbers(frame: pd.DataFrame, faults: RowFaults) -> None:
    for column in JOB_TABLE:
        if column.type is not ColumnType.NUMBER:
            continue
        values = frame[column.name].to_numpy(dtype=np.float64)
        faults.add("number-infinite", f"{column.name} is infinite", np.isinf(values))
        if column.minimum is not None:
            code = "number-negative" if column.minimum == 0 else "number-out-of-range"
            faults.add(code, f"{column.name} is below {column.minimum:g}", values < column.minimum)
        if column.maximum is not None:
            sentence = f"{column.name} is above {column.maximum:g}"
            faults.add("number-out-of-range", sentence, (values > column.maximum) & ~np.isinf(values))


def _check_texts(frame: pd.DataFrame, faults: RowFaults) -> None:
    for column in JOB_TABLE:
        if column.type is ColumnType.TEXT:
            too_long = (frame[column.name].str.len() > LONGEST_TEXT).fillna(False)
            faults.add("field-too-long", f"{column.name} is longer than {LONGEST_TEXT} characters", too_long)


def _notes(frame: pd.DataFrame) -> RowFaults:
    elapsed_s: npt.NDArray[np.float64] = frame["elapsed_s"].to_numpy(dtype=np.float64)
    run_s = seconds(frame["ended_at"]) - seconds(frame["started_at"])
    final = frame["state"].isin(FINAL_STATES).to_numpy()
    started = frame["started_at"].notna().to_numpy()
    notes = RowFaults(len(frame))
    notes.add("zero-elapsed", "ran for less than a second", (elapsed_s == 0) & final)
    notes.add(
        "elapsed-differs", "elapsed_s is not ended_at - started_at", np.abs(elapsed_s - run_s) > CLOCK_SLACK_S
    )
    notes.add("start-unknown", "elapsed_s is known, the start is not", ~started & (elapsed_s >= 0))
    notes.add("never-started", "was over before it started", ~started & final & ~(elapsed_s >= 0))
    return notes

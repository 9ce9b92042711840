"""This module holds validation to its promise: every fault of every row, no repair, no loss."""

import numpy as np
import pandas as pd
import pytest

from predictor.data.schema import conform
from predictor.data.validate import LONGEST_TEXT, Validated, validate

NOON = pd.Timestamp("2026-01-05T12:00:00Z")
HOUR = pd.Timedelta(hours=1)


def jobs(*changes: dict[str, object]) -> pd.DataFrame:
    """Return good finished jobs, each with the given changes."""
    good = {
        "attempt": 0.0, "cluster": "alpha", "submitted_at": NOON, "started_at": NOON + HOUR,
        "ended_at": NOON + 2 * HOUR, "elapsed_s": 3600.0, "state": "COMPLETED",
    }  # fmt: skip
    rows = [{**good, "job_id": str(at), **change} for at, change in enumerate(changes, 1)]
    frame = pd.DataFrame(rows)
    for name in ("submitted_at", "started_at", "ended_at"):
        frame[name] = pd.to_datetime(frame[name], utc=True).astype("datetime64[us, UTC]")
    return conform(frame)


def accounted(checked: Validated) -> int:
    return len(checked.clean) + len(checked.quarantined) + sum(checked.drop_counts.values())


@pytest.mark.parametrize(
    ("change", "want_codes"),
    [
        ({"job_id": None}, {"job-id-missing"}),
        ({"job_id": ""}, {"job-id-missing"}),
        ({"submitted_at": pd.NaT}, {"submitted-missing"}),
        ({"state": None}, {"state-missing"}),
        ({"state": "EXPLODED"}, {"state-unknown"}),
        ({"attempt": np.nan}, {"attempt-missing"}),
        ({"started_at": NOON - HOUR}, {"started-before-submitted"}),
        ({"ended_at": NOON}, {"ended-before-started"}),
        ({"started_at": pd.NaT, "ended_at": NOON - HOUR}, {"ended-before-submitted"}),
        ({"ended_at": pd.NaT}, {"end-missing"}),
        ({"elapsed_s": np.nan}, {"elapsed-missing"}),
        ({"elapsed_s": -1.0}, {"number-negative"}),
        ({"requested_gpus": np.inf}, {"number-infinite"}),
        ({"gpu_utilisation_ratio": 1.5}, {"number-out-of-range"}),
        ({"walltime_s": -5.0}, {"number-negative"}),
        ({"submitted_at": pd.Timestamp("1969-12-31T23:00:00Z")}, {"time-out-of-range"}),
        ({"ended_at": pd.Timestamp("2106-02-07T06:28:15Z")}, {"time-out-of-range"}),
        ({"job_name": "x" * (LONGEST_TEXT + 1)}, {"field-too-long"}),
        ({"state": "FAILED", "started_at": pd.NaT, "ended_at": pd.NaT, "elapsed_s": np.nan},
         {"elapsed-missing"}),
        ({"submitted_at": pd.NaT, "state": "?", "elapsed_s": -1.0},
         {"submitted-missing", "state-unknown", "number-negative"}),
    ],
)  # fmt: skip
def test_each_fault_of_a_row_is_named_and_the_row_is_kept_unchanged(
    change: dict[str, object], want_codes: set[str]
) -> None:
    frame = jobs({}, change)
    checked = validate(frame)
    assert set(checked.quarantined["fault_codes"].iloc[0].split(";")) == want_codes
    assert checked.quarantined["fault_text"].iloc[0]
    assert set(checked.fault_counts) == want_codes
    pd.testing.assert_frame_equal(
        checked.quarantined[frame.columns].reset_index(drop=True), frame.iloc[[1]].reset_index(drop=True)
    )
    assert len(checked.clean) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"state": "CANCELLED", "started_at": pd.NaT, "elapsed_s": np.nan},
        {"state": "CANCELLED", "started_at": pd.NaT, "ended_at": pd.NaT, "elapsed_s": np.nan},
        {"state": "PENDING", "started_at": pd.NaT, "ended_at": pd.NaT, "elapsed_s": np.nan},
        {"state": "RUNNING", "ended_at": pd.NaT, "elapsed_s": 10.0},
        {"state": "RUNNING", "ended_at": pd.NaT, "elapsed_s": np.nan},
        {"exit_code": -1.0},
        {"job_name": "x" * LONGEST_TEXT},
    ],
)
def test_jobs_that_never_started_or_still_run_are_valid(change: dict[str, object]) -> None:
    checked = validate(jobs(change))
    assert checked.fault_counts == {}
    assert len(checked.clean) == 1


def test_a_duration_without_start_is_valid_and_noted() -> None:
    checked = validate(jobs({"started_at": pd.NaT, "ended_at": pd.NaT, "elapsed_s": 60.0}))
    assert checked.fault_counts == {}
    assert checked.note_counts == {"start-unknown": 1}


def test_zero_elapsed_and_differing_elapsed_are_notes_not_faults() -> None:
    checked = validate(jobs({"ended_at": NOON + HOUR, "elapsed_s": 0.0}, {"elapsed_s": 1800.0}, {}))
    assert checked.note_counts == {"zero-elapsed": 1, "elapsed-differs": 1}
    assert len(checked.clean) == 3


def test_equal_copies_are_dropped_and_conflicting_ones_quarantined() -> None:
    checked = validate(jobs(
        {"job_id": "a"}, {"job_id": "a"}, {"job_id": "b"}, {"job_id": "b", "state": "FAILED"},
        {"job_id": "b", "cluster": "beta"}, {"job_id": "b", "attempt": 1.0},
    ))  # fmt: skip
    assert checked.drop_counts == {"duplicate-row": 1}
    assert checked.fault_counts == {"duplicate-id": 2}
    assert len(checked.clean) == 3
    assert accounted(checked) == 6


def test_an_id_that_is_used_again_after_the_end_of_its_job_is_another_job() -> None:
    def run(days: int, **more: object) -> dict[str, object]:
        later = pd.Timedelta(days=days)
        times = {
            "submitted_at": NOON + later,
            "started_at": NOON + HOUR + later,
            "ended_at": NOON + 2 * HOUR + later,
        }
        return {"job_id": "7"} | times | more

    checked = validate(jobs(run(0), run(30), run(60), run(60, state="FAILED")))
    assert checked.fault_counts == {"duplicate-id": 2}  # only those that were submitted at once
    assert checked.clean["submitted_at"].tolist() == [NOON, NOON + pd.Timedelta(days=30)]
    overlaps = run(0, ended_at=NOON + 800 * HOUR, elapsed_s=799 * 3600.0)
    assert validate(jobs(overlaps, run(30))).fault_counts == {"duplicate-id": 2}


def test_a_snapshot_of_a_running_job_gives_way_to_its_final_record() -> None:
    running = {"job_id": "a", "state": "RUNNING", "ended_at": pd.NaT, "elapsed_s": 5.0}
    checked = validate(jobs(running, {"job_id": "a"}, {"job_id": "b"}))
    assert checked.drop_counts == {"superseded-snapshot": 1}
    assert checked.clean["state"].tolist() == ["COMPLETED", "COMPLETED"]


def test_an_empty_table_is_valid() -> None:
    checked = validate(jobs({})[:0])
    assert accounted(checked) == 0


def test_every_row_is_accounted_for() -> None:
    changes: list[dict[str, object]] = [
        {},
        {"job_id": None},
        {"job_id": "1"},
        {"elapsed_s": -3.0},
        {"state": "X"},
    ]
    frame = jobs(*changes * 20)
    assert accounted(validate(frame)) == len(frame)

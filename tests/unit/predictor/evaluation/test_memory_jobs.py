"""This module tests the backtest of memory on a job table: what it knows when, and what it scores."""

import numpy as np
import pandas as pd
import pytest

from predictor.contracts.memory import PeakKind
from predictor.errors import EmptyInputError, SchemaError
from predictor.evaluation.memory_jobs import backtest_job_memory

PER_USER_MIB = 1000.0


def job_table(rows: int = 200, *, noise: float = 0.02, run_hours: float = 0.5, seed: int = 0) -> pd.DataFrame:
    """Return one job an hour; the peak of a job is that of its user, in proportion to the batch."""
    random = np.random.default_rng(seed)
    users, batches = random.integers(0, 5, rows), random.choice([4.0, 8.0, 16.0], rows)
    at = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(rows), unit="h")
    peak = PER_USER_MIB * (1 + users) * batches * np.exp(noise * random.standard_normal(rows))
    return pd.DataFrame({
        "job_id": [str(row) for row in range(rows)], "user": [f"u{user}" for user in users],
        "job_name": "train", "batch_size": batches, "requested_gpus": 1.0, "gpu_type": "a100",
        "requested_memory_mib": 64_000.0, "state": "COMPLETED", "submitted_at": at, "started_at": at,
        "ended_at": at + pd.Timedelta(hours=run_hours), "elapsed_s": run_hours * 3600.0,
        "peak_vram_mib": peak, "peak_host_memory_mib": 2.0 * peak,
    })  # fmt: skip


def test_peaks_that_follow_user_and_batch_are_forecast_far_better_than_by_the_last_run() -> None:
    report = backtest_job_memory(job_table())
    assert (report.train_rows, report.test_rows) == (159, 40)  # the last one before the cut still ran
    assert report.models["ours"].median_ape < 0.05 < report.models["last_run"].mape
    assert report.models["ours"].mape < report.models["user_max"].mape
    assert report.bound.coverage >= 0.8
    assert sum(report.regimes.values()) == report.test_rows


def test_a_job_that_still_ran_at_the_cut_is_not_trained_on() -> None:
    quick, slow = (backtest_job_memory(job_table(run_hours=hours)) for hours in (0.5, 40.5))
    assert slow.train_rows == quick.train_rows - 40


def test_peaks_of_the_test_change_no_earlier_forecast() -> None:
    frame = job_table(run_hours=5000.0)
    frame.loc[:150, "ended_at"] = frame.loc[:150, "started_at"]  # those alone have ended before the test
    other = frame.copy()
    other.loc[165:, "peak_vram_mib"] *= 7.0
    one, two = (backtest_job_memory(table) for table in (frame, other))
    # all later peaks are seven times higher and the forecasts are the same: all but the first few lie under
    assert one.train_rows == two.train_rows == 151
    assert two.models["ours"].under_rate > 0.8
    assert one.models["last_run"].mape < two.models["last_run"].mape


def test_an_out_of_memory_is_learned_from_and_not_scored() -> None:
    frame = job_table()
    frame.loc[190:, "state"] = "FAILED"
    report = backtest_job_memory(frame, bounds_mib={str(row): 90_000.0 for row in range(190, 200)})
    assert report.test_rows == 30
    host = backtest_job_memory(frame.assign(state="OUT_OF_MEMORY").where(frame["state"] == "FAILED", frame),
                               kind=PeakKind.HOST)  # fmt: skip
    assert host.test_rows == 30


def test_the_request_is_a_baseline_of_host_memory_alone() -> None:
    host = backtest_job_memory(job_table(), kind=PeakKind.HOST)
    assert "requested_memory" in host.models
    assert "requested_memory" not in backtest_job_memory(job_table()).models


def test_a_table_without_peaks_or_with_too_few_is_refused() -> None:
    with pytest.raises(SchemaError, match="peak_vram_mib"):
        backtest_job_memory(job_table().drop(columns="peak_vram_mib"))
    with pytest.raises(EmptyInputError, match="20 or more"):
        backtest_job_memory(job_table(30))
    with pytest.raises(EmptyInputError):
        backtest_job_memory(job_table().assign(peak_vram_mib=np.nan))

"""This module tests that out-of-memory messages teach lower bounds and never targets."""

from pathlib import Path

import pandas as pd
import pytest

from pipelines.measured_memory import MemoryTarget
from pipelines.settings import MemorySettings
from predictor.contracts.memory import PeakKind
from predictor.data.sources.gpu_metrics.bounds_file import read_lower_bounds
from predictor.errors import FormatError
from predictor.forecasting.memory.bundle import read_memory_bundle
from predictor.forecasting.memory.forecaster import MemoryForecaster
from predictor.forecasting.memory.jobs import observation_groups, row_request, table_observations

BOUND_MIB = 70_000.0


def _row(job: str, user: str, batch: float, peak_mib: float | None, state: str) -> dict[str, object]:
    at = pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(hours=int(job))
    return {"job_id": job, "attempt": 0, "cluster": "c", "user": user, "job_name": "train",
            "batch_size": batch, "requested_gpus": 1.0, "gpu_type": "a100", "peak_vram_mib": peak_mib,
            "state": state, "submitted_at": at,
            "started_at": at, "ended_at": at + pd.Timedelta(hours=1),
            "elapsed_s": 3600.0}  # fmt: skip


def _jobs() -> pd.DataFrame:
    """Return jobs of 8 users at two batches; of user 0, a larger batch died early at a small peak."""
    rows = [
        _row(str(10 * user + at), f"u{user}", batch, 5000.0 + 400.0 * user + 100.0 * batch, "COMPLETED")
        for user in range(8) for at, batch in enumerate((8.0, 16.0) * 5)
    ]  # fmt: skip
    return pd.DataFrame([*rows, _row("200", "u0", 64.0, 9000.0, "FAILED"),
                         _row("201", "u1", 64.0, None, "FAILED")])  # fmt: skip


def _peaks_file(folder: Path) -> Path:
    path = folder / "peaks.parquet"
    pd.DataFrame({
        "job_id": ["200", "200", "201", "3"], "host": "n1", "gpu": ["0", "1", "0", "0"],
        "kind": ["lower-bound", "lower-bound", "lower-bound", "used"],
        "peak_mib": [None, None, None, 6000.0], "lower_bound_mib": [60_000.0, BOUND_MIB, 65_000.0, None],
    }).to_parquet(path)  # fmt: skip
    return path


def test_the_bound_of_a_job_is_the_largest_of_its_gpus(tmp_path: Path) -> None:
    assert read_lower_bounds(_peaks_file(tmp_path)) == {"200": BOUND_MIB, "201": 65_000.0}


def test_a_file_of_something_else_is_refused_with_what_to_do(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(FormatError, match="ingest-metrics --peaks"):
        read_lower_bounds(tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_text("no parquet")
    with pytest.raises(FormatError, match="cannot be read"):
        read_lower_bounds(tmp_path / "y.parquet")


def test_a_job_with_a_bound_is_an_out_of_memory_whatever_peak_was_recorded() -> None:
    found, places = table_observations(_jobs(), bounds_mib={"200": BOUND_MIB, "201": 65_000.0, "0": 99_000.0})
    died = {places[at]: one for at, one in enumerate(found) if one.is_oom}
    assert {place: one.peak_mib for place, one in died.items()} == {80: BOUND_MIB, 81: 65_000.0}
    assert not found[0].is_oom  # it completed: its program had caught the error


def test_device_bounds_say_nothing_about_host_memory() -> None:
    frame = _jobs().assign(peak_host_memory_mib=1000.0)
    found, _ = table_observations(frame, kind=PeakKind.HOST, bounds_mib={"200": BOUND_MIB})
    assert not any(one.is_oom for one in found)


def test_a_forecast_is_not_below_what_the_same_job_ran_out_of_memory_with() -> None:
    asked = row_request(_row("300", "u0", 64.0, None, "PENDING"))
    answers = []
    for bounds in ({}, {"200": BOUND_MIB}):
        found, _ = table_observations(_jobs(), bounds_mib=bounds)
        model = MemoryForecaster.fit(found, groups=observation_groups(found))
        answers.append(model.predict([asked], risk=0.05)[0])
    without, with_bound = answers
    assert without.p50_mib < 20_000.0
    assert with_bound.p50_mib >= BOUND_MIB
    assert with_bound.upper_mib >= with_bound.p50_mib


def test_retraining_takes_the_file_among_its_measurements(tmp_path: Path) -> None:
    settings = MemorySettings(measurements=(str(_peaks_file(tmp_path)),))
    target = MemoryTarget()
    data = target.collect(settings, _jobs())
    assert any("lower bounds of 2 jobs" in source for source in data.sources)
    target.write(tmp_path / "bundle", data, seed=0, version="v1", card="", metadata={})
    model = read_memory_bundle(tmp_path / "bundle").model
    asked = row_request(_row("300", "u1", 64.0, None, "PENDING"))
    assert model.predict([asked])[0].p50_mib >= 65_000.0

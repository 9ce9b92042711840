"""This module tests what a backtest of memory on a job table prints and writes."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pipelines.vram_jobs import backtest_job_table
from predictor.data.table import write_table
from predictor.errors import EmptyInputError


def _table(folder: Path, **changes: float) -> Path:
    rows = 150
    random = np.random.default_rng(0)
    users, batches = random.integers(0, 4, rows), random.choice([4.0, 8.0], rows)
    at = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(rows), unit="h")
    frame = pd.DataFrame({
        "job_id": [str(row) for row in range(rows)], "attempt": 0, "cluster": "c",
        "user": [f"u{user}" for user in users],
        "job_name": "train", "batch_size": batches, "requested_gpus": 1, "gpu_type": "a100",
        "requested_memory_mib": 64_000.0, "state": "COMPLETED", "submitted_at": at, "started_at": at,
        "ended_at": at + pd.Timedelta(minutes=30), "elapsed_s": 1800.0,
        "peak_vram_mib": 1000.0 * (1 + users) * batches,
        "peak_host_memory_mib": 3000.0 * (1 + users),
    }).assign(**changes)  # fmt: skip
    path = folder / "jobs.parquet"
    write_table(frame, path)
    return path


def _run(path: Path) -> tuple[dict[str, object], str, list[str]]:
    console, told = Console(width=110, record=True, file=io.StringIO()), []
    document = backtest_job_table(path, seed=3, console=console, tell=lambda step, _: told.append(step))
    return json.loads(json.dumps(document)), console.export_text(), told


def test_both_kinds_of_peak_are_scored_and_shown(tmp_path: Path) -> None:
    document, shown, told = _run(_table(tmp_path))
    assert (document["target"], document["rows"], document["seed"]) == ("vram", 150, 3)
    splits = document["splits"]
    assert isinstance(splits, dict)
    assert set(splits) == {"later_jobs", "later_jobs_host"}
    for split in splits.values():
        assert {"mape", "median_ape", "under_rate"} <= set(split["models"]["ours"])
        assert {"target", "coverage", "mean_over_mib"} <= set(split["bound"])
        assert split["rows"] == 30
    assert told == ["peak_vram_mib", "peak_host_memory_mib"]
    assert "peak_vram_mib: 30 later jobs" in shown
    assert "upper bound at 5% risk" in shown


def test_a_kind_that_the_table_lacks_is_left_out(tmp_path: Path) -> None:
    document, shown, _ = _run(_table(tmp_path, peak_host_memory_mib=np.nan))
    assert list(document["splits"]) == ["later_jobs"]  # type: ignore[call-overload]
    assert "peak_host_memory_mib" not in shown


def test_a_table_without_any_peak_says_what_to_do(tmp_path: Path) -> None:
    path = _table(tmp_path, peak_host_memory_mib=np.nan, peak_vram_mib=np.nan)
    with pytest.raises(EmptyInputError, match="ingest GPU metrics"):
        _run(path)

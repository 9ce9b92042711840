"""This module holds the command ``predictor ingest-metrics`` to its table, its account and its exit codes."""

import json
from pathlib import Path

import pandas as pd
import pytest

from predictor.cli import main
from predictor.data.schema import conform
from predictor.data.table import read_metadata, read_table, write_table

START = pd.Timestamp("2026-01-01T00:00:00Z")


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    starts = pd.Series([START, START + pd.Timedelta(200, "s")]).astype("datetime64[us, UTC]")
    frame = pd.DataFrame({
        "job_id": ["1", "2"], "attempt": 0.0, "submitted_at": starts, "started_at": starts,
        "state": "COMPLETED", "ended_at": starts + pd.Timedelta(100, "s"), "node_list": "n1",
        "allocated_gpus": 1.0, "peak_vram_mib": [float("nan"), 77.0],
    })  # fmt: skip
    path = tmp_path / "jobs.parquet"
    write_table(conform(frame), path)
    return path


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    lines = ["timestamp, index, uuid, memory.used [MiB]"]
    for second in range(0, 400, 10):
        moment = (START + pd.Timedelta(second, "s")).strftime("%Y/%m/%d %H:%M:%S.000")
        lines.append(f"{moment}, 0, GPU-a, {1000 + second} MiB")
    path = tmp_path / "smi.csv"
    path.write_text("\n".join(lines))
    return path


def test_peaks_are_filled_older_ones_kept_and_everything_is_counted(
    jobs: Path, smi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "slurm-2.out"
    log.write_text(
        "RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 15.78 GiB total capacity; "
        "14.00 GiB already allocated)"
    )
    out, peaks = tmp_path / "out.parquet", tmp_path / "peaks.parquet"
    call = [str(smi), str(log), "--host", "n1", "--jobs", str(jobs), "--out", str(out), "--peaks", str(peaks)]
    assert main(["ingest-metrics", *call, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["filled"], report["kept_older"], report["lower_bounds"]) == (1, 1, 1)
    assert sum(report["samples"].values()) == 40
    assert report["jobs"] == {"measured": 2}
    assert read_table(out)["peak_vram_mib"].tolist() == [1080, 77]
    assert read_metadata(out)["peak_vram_kind"] == "used"
    rows = pd.read_parquet(peaks)
    assert rows["kind"].tolist() == ["used", "used", "lower-bound"]
    assert rows["lower_bound_mib"].max() == 15 * 1024
    assert main(["ingest-metrics", *call]) == 0
    assert "1 jobs filled" in capsys.readouterr().out


def test_samples_of_no_host_and_no_job_are_told_with_what_to_pass(
    jobs: Path, smi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["ingest-metrics", str(smi), "--jobs", str(jobs), "--out", str(tmp_path / "out.parquet")]
    assert main(call) == 0
    printed = capsys.readouterr().out
    assert "40 samples name neither host nor job" in printed
    assert "--host NAME" in printed
    assert main([*call, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == {"without-host-and-job": 40}


@pytest.mark.parametrize("value", ["-5", "0", "nan", "inf"])
def test_an_interval_that_is_none_is_refused(
    value: str, jobs: Path, smi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.parquet"
    call = [str(smi), "--host", "n1", "--jobs", str(jobs), "--out", str(out), "--interval-s", value]
    assert main(["ingest-metrics", *call]) == 2
    assert f"interval_s={value}: give seconds above 0" in capsys.readouterr().err
    assert not out.exists()


def test_files_without_metrics_are_refused_with_exit_code_2(
    jobs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("a,b\n1,2\n")
    out = tmp_path / "out.parquet"
    assert main(["ingest-metrics", str(other), "--jobs", str(jobs), "--out", str(out)]) == 2
    assert "other.txt" in capsys.readouterr().err
    assert not out.exists()


def test_an_assignment_without_its_columns_is_refused(
    jobs: Path, smi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owned = tmp_path / "gpus.csv"
    owned.write_text("job_id,host\n1,n1\n")
    call = [str(smi), "--jobs", str(jobs), "--out", str(tmp_path / "o.parquet"), "--gpu-map", str(owned)]
    assert main(["ingest-metrics", *call]) == 2
    assert "no column 'gpu'" in capsys.readouterr().err

"""This module tests the command ``predictor simulate`` on a small generated log."""

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.simulation_cluster import cluster_for
from pipelines.simulation_forecasts import forecasts_of, read_forecasts
from predictor.cli import EXIT_USAGE, main
from predictor.contracts.events import JobSubmitted
from predictor.contracts.forecast import LEVELS
from predictor.data.schema import seconds
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.data.table import read_table, write_table
from predictor.errors import ArgumentError, FormatError
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.presets import preset
from predictor.scheduling.snapshot import snapshot
from predictor.simulation.forecasts import refit_times

SCORES = {
    "jobs", "mean_wait_s", "p95_wait_s", "p99_wait_s", "max_wait_s", "mean_bounded_slowdown", "mean_jct_s",
    "unfit", "cancelled", "utilisation", "preemptions", "lost_gpu_h", "jain", "promises",
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three hundred jobs."""
    path = tmp_path_factory.mktemp("log") / "jobs.parquet"
    write_table(generate(WorkloadSpec(jobs=300, days=3.0, random_state=1)).frame, path)
    return path


@pytest.fixture(scope="module")
def forecasts(table: Path) -> Path:
    """Forecasts of that log, none for its first half."""
    frame = read_table(table)
    quantiles_s = np.outer(
        frame["elapsed_s"].fillna(60.0).clip(lower=1.0), np.linspace(0.3, 3.0, len(LEVELS))
    )
    quantiles_s[: len(frame) // 2] = np.nan
    path = table.with_name("f.npz")
    np.savez(path, q=quantiles_s, sub=seconds(frame["submitted_at"]))
    return path


def test_all_policies_are_scored_and_written(
    table: Path, forecasts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.json"
    arguments = ["simulate", str(table), "--cluster", "cpus", "--load", "0.9", "--policy", "all"]
    assert main([*arguments, "--forecasts", str(forecasts), "--json", str(out)]) == 0
    document = json.loads(out.read_text())
    assert len(document["policies"]) == 9
    assert document["jobs_per_second"] > 0
    for scores in document["policies"].values():
        assert set(scores) == SCORES
        assert set(scores["promises"]) == {"made", "kept", "median_abs_error_s", "coverage_q90"}
        assert scores["jobs"] == document["trace"]["jobs"]
    assert document["trace"]["offered_load"] <= 0.9
    printed = capsys.readouterr().out
    assert "sjf-oracle" in printed
    assert "left out" in printed


def test_emergencies_checkpoints_and_failures_are_played(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    arguments = ["simulate", str(table), "--cluster", "cpus", "--load", "1.1", "--policy", "easy,srtf-oracle"]
    extra = ["--emergencies", "0.1", "--checkpoint", "60", "--restart-cost", "5", "--mtbf", "20000"]
    assert main([*arguments, *extra, "--json", str(out)]) == 0
    policies = json.loads(out.read_text())["policies"]
    assert policies["easy"]["jobs"] == policies["srtf-oracle"]["jobs"]
    assert policies["srtf-oracle"]["preemptions"] > policies["easy"]["preemptions"] == 0


def test_wrong_options_are_told_all_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no" / "o.json"
    assert main(["simulate", "--emergencies", "2", "--json", str(missing)]) == EXIT_USAGE
    told = capsys.readouterr().err
    for part in ("either a job table", "--json", "--emergencies"):
        assert part in told
    assert main(["simulate", "jobs.parquet", "--policy", "nonsense", "--cluster", "cpus"]) == EXIT_USAGE
    assert "choose of fifo" in capsys.readouterr().err


def test_a_snapshot_is_played_on_and_drawn(tmp_path: Path) -> None:
    coordinator = Coordinator(preset("fifo"), (Pool(name="cpu", total=4),))
    for at in range(6):
        coordinator.apply(JobSubmitted(now_s=at, job_id=f"j{at}", width=3, limit_s=100))
    path, out = tmp_path / "queue.json", tmp_path / "o.json"
    path.write_text(json.dumps(snapshot(coordinator)))
    arguments = ["simulate", "--snapshot", str(path), "--policy", "easy,ours", "--json", str(out)]
    plots = tmp_path / "plots"
    assert main([*arguments, "--plot", str(plots)]) == 0
    assert {each.name for each in plots.iterdir()} >= {"wait_by_size.png", "gantt_ours.png", "fairness.png"}
    document = json.loads(out.read_text())
    assert sorted(document["starts"]["easy"]) == [f"j{at}" for at in range(6)]
    assert document["policies"]["ours"]["jobs"] == 6
    served = {"form": "f", "sequence": 1, "at_s": 6.0, "state": json.loads(path.read_text())}
    path.write_text(json.dumps(served))  # as the service exports it
    assert main(arguments) == 0
    assert main(["explain", "j1", "--snapshot", str(path)]) == 0
    path.write_text("{")
    assert main(["simulate", "--snapshot", str(path)]) == EXIT_USAGE


def test_a_cluster_is_an_example_a_size_or_made_for_a_load() -> None:
    assert cluster_for("philly-11cb48").pools[0].node_units == (8,) * 8
    assert cluster_for("gpus=12").total == 12
    with pytest.raises(ArgumentError, match="no file and no example"):
        cluster_for("gpus=many")


def test_forecasts_are_made_once_and_never_used_for_another_table(table: Path, tmp_path: Path) -> None:
    frame = read_table(table)
    told: list[str] = []
    folder = tmp_path / "kept"
    first = forecasts_of(frame, folder, seed=0, progress=lambda step, _: told.append(step))
    count = len(told)
    second = forecasts_of(frame, folder, seed=0, progress=lambda step, _: told.append(step))
    assert count == len(told) > 0
    assert np.array_equal(first, second, equal_nan=True)
    with pytest.raises(FormatError, match="of another table"):
        read_forecasts(next(folder.iterdir()), frame.iloc[:-1])
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(FormatError, match="holds no forecasts"):
        read_forecasts(tmp_path / "bad.npz", frame)


def test_refits_grow_further_and_further_apart_and_never_follow_the_last_submission() -> None:
    cuts = refit_times(np.arange(10_000.0), 5000.0, 1.3)
    assert cuts == [1000.0, 1301.0, 1692.0, 2200.0, 2861.0, 3720.0, 4837.0]


def test_jobs_that_do_not_fit_are_counted_beside_the_scores(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.json"
    arguments = ["simulate", str(table), "--cluster", "cpus=16", "--policy", "easy", "--json", str(out)]
    assert main(arguments) == 0
    document = json.loads(out.read_text())
    scores = document["policies"]["easy"]
    assert scores["unfit"] > 0
    assert scores["jobs"] + scores["unfit"] + scores["cancelled"] == document["trace"]["jobs"]
    printed = capsys.readouterr().out
    assert "unfit: jobs that no pool can ever hold" in printed
    assert "cancelled" not in printed


def test_a_log_of_one_job_has_no_load(table: Path, tmp_path: Path) -> None:
    out, one = tmp_path / "o.json", tmp_path / "one.parquet"
    frame = read_table(table)
    write_table(frame[frame["state"] == "COMPLETED"].head(1), one)
    assert main(["simulate", str(one), "--cluster", "cpus=64", "--policy", "easy", "--json", str(out)]) == 0
    document = json.loads(out.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert document["trace"]["offered_load"] is None


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        (["t.parquet", "--cluster", "cpus", "--from", "foo", "--to", "bar"], ("--from foo", "--to bar")),
        (["t.parquet", "--cluster", "cpus", "--from", "2026-02-01", "--to", "2026-01-01"], ("no time lies",)),
        (["t.parquet", "--cluster", "gpus=0"], ("--cluster gpus=0: give a number above 0",)),
        (["t.parquet", "--cluster", "cpus", "--forecasts", "no.npz"], ("--forecasts no.npz: there is no",)),
        (["t.parquet", "--cluster", "cpus", "--repair", "5"], ("--repair: without --mtbf",)),
        (["--snapshot", "q.json", "--cluster", "cpus", "--load", "2"], ("--cluster, --load: a snapshot",)),
    ],
)
def test_options_that_mean_nothing_are_refused(
    call: list[str], faults: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *call]) == EXIT_USAGE
    told = capsys.readouterr().err
    for fault in faults:
        assert fault in told


@pytest.mark.parametrize(
    ("option", "value"),
    [("--load", "0"), ("--load", "nan"), ("--checkpoint", "-5"), ("--restart-cost", "nan")],
)
def test_numbers_that_no_cluster_has_are_refused(
    table: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    assert (
        main(["simulate", str(table), "--cluster", "gpus", "--policy", "easy", option, value]) == EXIT_USAGE
    )
    assert f"{option} {value}" in capsys.readouterr().err

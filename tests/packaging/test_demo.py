"""This module runs the demo as a newcomer does, and holds it to what it promises."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.commands.demo import find_sample, prepare
from pipelines.loopback_service import run_service
from predictor.cli import main
from predictor.errors import ArgumentError, EmptyInputError, PipelineError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("PREDICTOR_", "DEMO_"))]:
        monkeypatch.delenv(name)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("bare_environment")
def test_the_demo_runs_the_whole_loop_and_ends_by_itself_when_told_to(tmp_path: Path) -> None:
    """Every step is printed, ours leads the backtest, an outcome moves a forecast, and nothing runs on."""
    command = [sys.executable, "-m", "predictor.cli", "demo", "--sample", str(find_sample(None).resolve())]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "DEMO_NO_WAIT": "1", "COLUMNS": "120"},
        capture_output=True, text=True, timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [f"[{number}/6]" in done.stdout for number in range(1, 7)] == [True] * 6
    backtest = done.stdout.split("[3/6]")[1].split("[4/6]")[0]
    assert backtest.index("ours  ") < backtest.index("template_median")
    talk = done.stdout.split("[5/6]")[1]
    assert "no-history-of-this-user" in talk
    assert "rests on 1 jobs of this template" in talk
    assert "is ready" in done.stdout
    assert "the queue, live:" in done.stdout
    assert "the queue moves" in done.stdout
    assert (tmp_path / "demo" / "models" / "duration" / "aliases.json").is_file()
    assert (tmp_path / "demo" / "runs" / "mlflow.db").is_file()
    assert list((tmp_path / "demo" / "outcomes").glob("*.jsonl"))
    assert {path.name for path in tmp_path.iterdir()} == {"demo"}
    for name in ("service.log", "queue.log"):
        log = (tmp_path / "demo" / name).read_text(encoding="utf-8")
        assert "Application shutdown complete" in log


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ArgumentError, match="holds other files"):
        prepare(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.usefixtures("bare_environment")
def test_a_directory_of_an_earlier_demo_is_made_anew_and_its_settings_are_its_own(tmp_path: Path) -> None:
    place = tmp_path / 'a "demo"'
    prepare(place)
    (place / "jobs.parquet").touch()
    settings = prepare(place)
    assert not (place / "jobs.parquet").exists()
    assert settings.runs == place / "runs"
    assert settings.models.root == place / "models"
    assert settings.data.outcomes == (str(place / "outcomes" / "*.jsonl"),)


def test_the_sample_of_the_checkout_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_sample(None) == ROOT / "training_data" / "sample" / "jobs.psv.gz"
    monkeypatch.setattr("pipelines.commands.demo.__file__", str(tmp_path / "a" / "b" / "demo.py"))
    with pytest.raises(EmptyInputError, match="--sample"):
        find_sample(None)


def test_a_log_that_cannot_be_read_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    previous = signal.getsignal(signal.SIGTERM)
    try:
        code = main(["demo", "--directory", str(tmp_path / "demo"), "--sample", str(tmp_path / "absent.psv")])
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert code == 2
    assert "cannot read" in capsys.readouterr().err


def test_a_service_without_champion_is_told_with_its_reason_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.loopback_service.PATIENCE_S", 25.0)  # a first start compiles
    with (
        pytest.raises(PipelineError, match="no version is champion"),
        run_service(
            models=tmp_path / "models", outcomes=tmp_path / "outcomes", log=tmp_path / "service.log"
        ) as service,
    ):
        service.wait_until_ready()
    assert service.process.poll() is not None


def test_a_service_that_ends_is_noticed_at_once(tmp_path: Path) -> None:
    (tmp_path / "outcomes").touch()  # no directory: the service cannot start
    began = time.monotonic()
    with (
        pytest.raises(PipelineError, match=r"service\.log"),
        run_service(
            models=tmp_path / "models", outcomes=tmp_path / "outcomes", log=tmp_path / "service.log"
        ) as service,
    ):
        service.wait_until_ready()
    assert time.monotonic() - began < 40.0

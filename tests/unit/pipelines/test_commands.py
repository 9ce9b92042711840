"""This module checks the options, exit codes and tables of backtest, models, retrain and review."""

import json
import socket
from pathlib import Path

import pytest
from rich.console import Console

from pipelines.commands.backtest import parse_day, parse_span, show
from pipelines.commands.review import server_command
from pipelines.lock import hold_lock
from pipelines.reports import read_report
from pipelines.retrain_request import read_request, take_request
from pipelines.settings import load_settings
from predictor.cli import EXIT_LOCKED, EXIT_REFUSED, EXIT_USAGE, main
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.data.table import write_table
from predictor.errors import ArgumentError


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Settings whose every path is in a new folder."""
    path = tmp_path / "c.toml"
    path.write_text(
        f"runs = '{tmp_path / 'runs'}'\n[data]\ntable = '{tmp_path / 'jobs.parquet'}'\noutcomes = []\n"
        f"[models]\nroot = '{tmp_path / 'models'}'\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("text", "want_s"),
    [
        ("7d", 604800.0),
        ("12h", 43200.0),
        ("1.5h", 5400.0),
        ("2w", 1209600.0),
        ("0d", None),
        ("d", None),
        ("-1d", None),
    ],
)
def test_spans_of_time_have_a_number_and_a_unit(text: str, want_s: float | None) -> None:
    assert parse_span(text) == want_s


def test_a_day_without_zone_is_utc() -> None:
    assert parse_day("1970-01-02") == parse_day("1970-01-02T01:00+01:00") == 86400.0
    for text in ("soon", "", "NaT"):
        with pytest.raises(ArgumentError, match="give a date"):
            parse_day(text)


def test_all_faulty_options_of_a_backtest_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--target", "size", "--refit", "often", "--json", str(tmp_path / "no" / "r.json")]
    assert main(["backtest", str(tmp_path / "t.parquet"), *options]) == EXIT_USAGE
    told = capsys.readouterr().err
    assert all(text in told for text in ("--target size", "--refit often", "--json"))


def test_a_measured_target_takes_no_dates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", "vram", "--refit", "1d", "--test-from", "2026-01-01"]
    assert main(["backtest", str(tmp_path / "t.csv"), *options]) == EXIT_USAGE
    assert "--test-from, --refit: --target vram has splits of its own" in capsys.readouterr().err


def test_an_absent_table_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backtest", str(tmp_path / "t.parquet"), "--target", "duration"]) == EXIT_USAGE
    assert "predictor ingest" in capsys.readouterr().err


def test_tables_fit_eighty_characters_and_show_every_model() -> None:
    scores = {
        "crps_log": 0.5, "mean_abs_log_ratio": 0.8, "median_abs_log_ratio": 0.4, "mae_s": 10742.0,
        "within_2x": 0.7, "under_rate": 0.45, "coverage": {"q50": 0.5, "q90": 0.9, "q95": 1.0},
    }  # fmt: skip
    models = {"ours": scores, "requested_limit": {**scores, "crps_log": 2.0}}
    slices = {"forecast_duration_decile_10": {"rows": 1234, **scores, "models": models}}
    console = Console(width=80, record=True)
    show(read_report({"test_rows": 9, "models": models, "slices": slices}), 0.0, console)
    text = console.export_text()
    for word in (
        "requested_limit",
        "forecast_duration_decile_10",
        "0.5000",
        "2.0000",
        "10,742",
        "mean|ln|",
        "90.0%",
    ):
        assert word in text
    assert "…" not in text


@pytest.mark.slow
def test_a_backtest_writes_report_and_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "jobs.parquet"
    write_table(generate(WorkloadSpec(jobs=600, days=20.0, users=8, random_state=1)).frame, table)
    out, plots = tmp_path / "r.json", tmp_path / "plots"
    options = [
        "--target",
        "duration",
        "--refit",
        "30d",
        "--json",
        str(out),
        "--plots",
        str(plots),
        "--seed",
        "4",
    ]
    assert main(["backtest", str(table), *options]) == 0
    report = json.loads(out.read_text())
    assert report["settings"]["seed"] == 4
    assert {"ours", "last_run", "user_median"} <= set(report["models"])
    assert sum(report["models"]["ours"]["pit"]) == report["test_rows"]
    assert {path.name for path in plots.iterdir()} >= {"calibration.png", "pit.png", "slices_crps_log.png"}
    assert "ours" in capsys.readouterr().out


def test_an_empty_store_is_listed_as_such(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--config", config]) == 0
    assert "no model is published" in capsys.readouterr().out
    assert main(["models", "list", "--json", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == []


@pytest.mark.parametrize("command", [["show", "champion"], ["promote", "v1"], ["rollback"], ["verify", "v1"]])
def test_what_is_not_there_is_refused_with_a_message(
    command: list[str], config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", *command, "--config", config]) == EXIT_REFUSED
    assert "[bundle-missing]" in capsys.readouterr().err


def test_a_held_lock_has_its_own_exit_code(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_lock(tmp_path / "runs" / "retrain" / "lock", now_text="noon"):
        assert main(["retrain", "--config", config]) == EXIT_LOCKED
    assert "since noon" in capsys.readouterr().err


def test_retraining_without_data_is_a_usage_error(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retrain", "--config", config]) == EXIT_USAGE
    assert "[empty-input]" in capsys.readouterr().err


def test_settings_that_cannot_be_used_are_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.toml"
    path.write_text("nonsense = 1\n")
    for command in (["retrain"], ["models", "list"], ["review"]):
        assert main([*command, "--config", str(path)]) == EXIT_USAGE
        assert "nonsense: no such setting" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["retrain"], ["backtest"], ["review"], ["models", "promote"]])
def test_help_shows_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert "Example" in capsys.readouterr().out


def test_the_review_server_listens_on_loopback_on_our_store_only(config: str, tmp_path: Path) -> None:
    command = server_command(load_settings(Path(config)), 5001)
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"
    assert command[command.index("--default-artifact-root") + 1].startswith("file://")


def test_a_review_needs_runs_and_a_free_port(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", "--config", config]) == EXIT_USAGE
    assert "predictor retrain" in capsys.readouterr().err
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["review", "--config", config, "--port", str(port)]) == EXIT_USAGE
    assert "is not free" in capsys.readouterr().err


def test_a_retraining_that_nobody_asked_for_does_nothing(
    tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    request = str(tmp_path / "request.json")
    assert main(["retrain", "--config", config, "--if-requested", request, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"outcome": "not-requested"}


@pytest.mark.parametrize(
    ("text", "told"),
    [('{"alerts": [{"sentence": "the mix changed"}]}', "the mix changed"), ("{", "no reason")],
)
def test_a_request_is_taken_once_and_its_reason_told(
    tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    """There is no data here: that the retraining begins shows in its error."""
    request = tmp_path / "request.json"
    request.write_text(text)
    assert main(["retrain", "--config", config, "--if-requested", str(request)]) == EXIT_USAGE
    assert told in capsys.readouterr().err
    assert not request.exists()


def test_a_request_whose_retraining_was_killed_is_answered_by_the_next(
    tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"alerts": [{"sentence": "the mix changed"}]}')
    take_request(request)
    assert main(["retrain", "--config", config, "--if-requested", str(request)]) == EXIT_USAGE
    assert "the mix changed" in capsys.readouterr().err
    assert read_request(request) is None


def test_a_request_that_comes_while_another_retraining_runs_stays_for_the_next(
    tmp_path: Path, config: str
) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"alerts": [{"sentence": "the mix changed"}]}')
    with hold_lock(tmp_path / "runs" / "retrain" / "lock", now_text="now"):
        assert main(["retrain", "--config", config, "--if-requested", str(request)]) == EXIT_LOCKED
    assert request.exists()

"""This module checks how the settings of the batch jobs are read."""

from pathlib import Path

import pytest

from pipelines.settings import load_settings
from predictor.errors import ArgumentError, FormatError


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_hold() -> None:
    settings = load_settings()
    assert settings.evaluation.window_days == 14
    assert settings.tracking_uri == f"sqlite:///{Path('runs/mlflow.db').resolve()}"
    assert settings.artifact_root == Path("runs/mlartifacts").resolve()


def test_a_file_sets_sections_and_sources(tmp_path: Path) -> None:
    config = write(
        tmp_path / "c.toml",
        "[data]\noutcomes = ['out/*.jsonl']\n[[data.sources]]\nfiles = ['*.psv']\nformat = 'sacct'\n"
        "[gate]\nq90_coverage = [0.8, 1.0]\n",
    )
    settings = load_settings(config)
    assert settings.data.sources[0].format == "sacct"
    assert settings.gate.q90_coverage == (0.8, 1.0)


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tmp_path / "c.toml", "[gate]\nmax_crps_worsening = 0.5\nslice_min_rows = 7\n")
    monkeypatch.setenv("PREDICTOR_GATE__MAX_CRPS_WORSENING", "0.1")
    gate = load_settings(config).gate
    assert (gate.max_crps_worsening, gate.slice_min_rows) == (0.1, 7)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    config = write(
        tmp_path / "c.toml",
        "nonsense = 1\n[gate]\nmax_crsp = 1\n[evaluation]\nwindow_days = -1\nmin_rows = 'x'\n",
    )
    with pytest.raises(ArgumentError) as caught:
        load_settings(config)
    told = "\n".join(caught.value.faults)
    assert len(caught.value.faults) == 4
    for text in (
        "nonsense: no such setting",
        "gate.max_crsp: no such setting",
        "evaluation.window_days",
        "min_rows",
    ):
        assert text in told


def test_reversed_bands_of_the_gates_are_refused(tmp_path: Path) -> None:
    config = write(
        tmp_path / "c.toml",
        "[gate]\nq90_coverage = [0.97, 0.84]\n[memory]\ncoverage = [1.0, 0.9]\n"
        "[topology]\ncoverage = [1, 1]\n",
    )
    with pytest.raises(ArgumentError) as caught:
        load_settings(config)
    assert len(caught.value.faults) == 2
    assert "gate.q90_coverage: [0.97, 0.84] is reversed; give the lower" in caught.value.faults[0]
    assert caught.value.faults[1].startswith("memory.coverage: ")


def test_an_unknown_key_in_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDICTOR_GATE__MAX_CRSP", "0.1")
    with pytest.raises(ArgumentError, match="max_crsp: no such setting"):
        load_settings()


def test_variables_of_the_service_under_the_same_prefix_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDICTOR_MODELS", "/srv/models")
    monkeypatch.setenv("PREDICTOR_PORT", "8000")
    monkeypatch.setenv("PREDICTOR_MODELS__KEEP", "3")
    models = load_settings().models
    assert (models.root, models.keep) == (Path("models/store"), 3)


def test_a_variable_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDICTOR_GATE__Q90_COVERAGE", "[0.8")
    with pytest.raises(ArgumentError):
        load_settings()


@pytest.mark.parametrize("text", ["[gate", "a = ", "\x00"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match="cannot read the settings"):
        load_settings(write(tmp_path / "c.toml", text))


def test_a_file_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot read the settings"):
        load_settings(tmp_path / "absent.toml")


def test_a_tracking_server_keeps_its_own_artifacts(tmp_path: Path) -> None:
    config = write(tmp_path / "c.toml", "[tracking]\nuri = 'http://mlflow.example:5000'\n")
    settings = load_settings(config)
    assert settings.tracking_uri == "http://mlflow.example:5000"
    assert settings.artifact_root is None


def test_only_what_decides_the_result_is_part_of_a_runs_identity() -> None:
    assert set(load_settings().deciding()) == {"evaluation", "gate", "training"}

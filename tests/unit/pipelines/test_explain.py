"""``predictor explain`` answers from a snapshot, in words and as JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.commands.explain import app
from predictor.contracts.events import JobSubmitted
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.presets import preset
from predictor.scheduling.snapshot import snapshot

NOW = 1_800_000_000.0


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    coordinator = Coordinator(preset("ours"), [Pool(name="gpu", total=8)])
    for k, width in enumerate((6, 8, 4)):
        coordinator.apply(JobSubmitted(now_s=NOW + k, job_id=f"j{k}", width=width, limit_s=3600.0))
    path = tmp_path / "state.json"
    path.write_text(json.dumps(snapshot(coordinator), allow_nan=False))
    return path


def test_a_waiting_job_is_explained_in_words_and_as_data(stored: Path) -> None:
    words = CliRunner().invoke(app, ["j1", "--snapshot", str(stored)])
    assert words.exit_code == 0
    assert "CAPACITY_SHORT" in words.output
    assert "promised" in words.output
    data = json.loads(CliRunner().invoke(app, ["j1", "--snapshot", str(stored), "--json"]).output)
    assert data["reason"]["numbers"] == {"needed": 8.0, "free": 2.0}
    assert data["eta"]["q50_s"] > NOW


def test_a_running_job_tells_how_it_is_not_what_would_change(stored: Path) -> None:
    told = CliRunner().invoke(app, ["j0", "--snapshot", str(stored)]).output
    assert "at present   It runs in gpu" in told
    assert "would change" not in told
    assert "would change" in CliRunner().invoke(app, ["j1", "--snapshot", str(stored)]).output


def test_a_key_file_that_cannot_be_used_is_named(stored: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, told in (("absent", "cannot be read"), ("empty", "holds no key")):
        answer = CliRunner().invoke(app, ["j1", "--key-file", str(tmp_path / name)])
        assert answer.exit_code == 2
        assert f"--key-file {tmp_path / name} {told}" in answer.output
        assert "cannot be asked" not in answer.output
    both = CliRunner().invoke(app, ["j1", "--snapshot", str(stored), "--key-file", "k"])
    assert both.exit_code == 2
    assert "--key-file: a snapshot is asked" in both.output


def test_an_unknown_job_and_a_damaged_snapshot_have_their_own_exit_codes(
    stored: Path, tmp_path: Path
) -> None:
    assert CliRunner().invoke(app, ["nobody", "--snapshot", str(stored)]).exit_code == 1
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{}")
    assert CliRunner().invoke(app, ["j1", "--snapshot", str(damaged)]).exit_code == 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "ftp://site"])
def test_a_service_that_cannot_be_asked_is_named(url: str) -> None:
    answer = CliRunner().invoke(app, ["j1", "--url", url])
    assert answer.exit_code == 2
    assert url in answer.output

"""``predictor policy`` shows, writes and checks policies."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.commands.policy import app
from predictor import cli
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_from_document
from predictor.scheduling.policy_file import read_policy


def test_it_shows_the_default_policy_as_toml() -> None:
    shown = CliRunner().invoke(app, [])
    assert policy_from_document(tomllib.loads(shown.output)) == Policy()


def test_it_writes_a_changed_policy_and_tells_what_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    written = CliRunner().invoke(app, ["ours:reserve.heads=5", "--out", str(path)])
    assert (written.exit_code, written.output) == (0, "")
    assert read_policy(path).reserve.heads == 5
    changed = CliRunner().invoke(app, [str(path), "--changed"])
    assert changed.output == "reserve.heads = 5 (default 1)\n"
    data = json.loads(CliRunner().invoke(app, [str(path), "--changed", "--json"]).output)
    assert data["policy"]["reserve"]["heads"] == 5
    assert [each["path"] for each in data["settings"]] == ["reserve.heads"]


def test_a_file_with_faults_is_refused_with_all_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("[reserve]\nhead = 1\ndepth = 0\n")
    assert cli.main(["policy", str(path)]) == cli.EXIT_USAGE
    told = capsys.readouterr().err
    assert "policy.reserve.head is not known" in told
    assert "reserve.depth=0 must be 1 or more" in told

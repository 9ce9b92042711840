"""Where results cannot be written, a command says so before it works, and without a traceback."""

from pathlib import Path

import pytest

from pipelines.output_paths import file_faults, folder_faults
from predictor.cli import EXIT_REFUSED, EXIT_USAGE, main


def test_a_file_must_be_in_an_existing_folder(tmp_path: Path) -> None:
    assert file_faults("--json", None) == []
    assert file_faults("--json", tmp_path / "new.json") == []
    assert file_faults("--json", tmp_path) != []
    assert file_faults("--json", tmp_path / "none" / "new.json") != []


def test_a_folder_may_be_made_but_not_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    assert folder_faults("--plot", None) == []
    assert folder_faults("--plot", tmp_path / "deep" / "new") == []
    assert folder_faults("--plot", tmp_path / "taken") != []
    assert folder_faults("--plot", tmp_path / "taken" / "deep") != []


@pytest.mark.parametrize(
    "call",
    [
        ["backtest", "t.parquet", "--target", "duration", "--json", "none/a.json", "--plots", "taken"],
        ["simulate", "t.parquet", "--cluster", "kth-sp2", "--json", "none/a.json", "--plot", "taken"],
        ["policy", "--out", "none/policy.toml"],
    ],
)
def test_the_commands_refuse_before_they_work(
    call: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    assert main(call) == EXIT_USAGE
    told = capsys.readouterr().err
    assert "none/" in told
    assert ("taken" in told) == ("taken" in call)


def test_a_disk_that_refuses_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    path = tmp_path / "policy.toml"
    assert main(["policy", "--out", str(path)]) == EXIT_REFUSED
    assert f"[pipeline] '{path}': No space left on device" in capsys.readouterr().err

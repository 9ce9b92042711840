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


UNWRITABLE = Path("/proc")  # nobody can make files there, root included


@pytest.mark.skipif(not UNWRITABLE.is_dir(), reason="needs /proc")
def test_a_folder_in_which_nothing_can_be_written_is_found_by_trying(tmp_path: Path) -> None:
    for faults in (
        file_faults("--json", UNWRITABLE / "a.json"),
        file_faults("--out", UNWRITABLE / "deep" / "a.parquet", as_whole=True),
        folder_faults("--plot", UNWRITABLE / "plots"),
    ):
        assert len(faults) == 1
        assert "nothing can be written in '/proc'" in faults[0]
    assert "/proc/a.json" in file_faults("--json", UNWRITABLE / "a.json")[0]
    assert "cannot be written" in file_faults("--json", UNWRITABLE / "version")[0]
    assert file_faults("--json", Path("/dev/null")) == []
    assert "nothing can be written" in file_faults("--out", UNWRITABLE / "version", as_whole=True)[0]
    kept = tmp_path / "old.json"
    kept.write_text("kept")
    assert file_faults("--json", kept) == []
    assert kept.read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


_TAKEN = "taken' is a file, not a folder"


@pytest.mark.parametrize(("call", "wanted"), [
    (["ingest", "absent.psv", "--out", "taken/jobs.parquet"], [_TAKEN]),
    (["ingest-metrics", "absent.csv", "--jobs", "t.parquet", "--out", "m.parquet", "--peaks", "taken/p"],
     [_TAKEN]),
    (["models", "make-fallback", "--out", "taken/bundle"], [_TAKEN]),
    (["retrain", "--config", "c.toml"], [_TAKEN, "runs taken/runs", "models.root taken/models"]),
    (["backtest", "t.parquet", "--target", "duration", "--json", "none/a.json", "--plots", "taken"],
     ["none/", _TAKEN]),
    (["simulate", "t.parquet", "--cluster", "kth-sp2", "--json", "none/a.json", "--plot", "taken"],
     ["none/", _TAKEN]),
    (["policy", "--out", "none/policy.toml"], ["none/"]),
])  # fmt: skip
def test_the_commands_refuse_before_they_work(
    call: list[str], wanted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    (tmp_path / "c.toml").write_text("runs = 'taken/runs'\n[models]\nroot = 'taken/models'\n")
    assert main(call) == EXIT_USAGE
    told = capsys.readouterr().err
    assert [text for text in wanted if text not in told] == []
    assert ("taken" in told) == (_TAKEN in wanted)


def test_a_disk_that_refuses_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(path: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    path = tmp_path / "policy.toml"
    assert main(["policy", "--out", str(path)]) == EXIT_REFUSED
    assert f"[pipeline] '{path}': No space left on device" in capsys.readouterr().err

"""This module holds the command line to its manners: quick help, examples, versions and exit codes."""

import json
import resource
import subprocess
import sys

import pytest
import typer

from predictor import __version__
from predictor.cli import SUMMARIES, find_commands, main

HEAVY = (
    "fastapi",
    "lightgbm",
    "mlflow",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "sklearn",
    "typer",
    "uvicorn",
)


def test_help_needs_less_than_a_second_of_processor_time() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "predictor.cli", "--help"], check=True, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "usage: predictor COMMAND" in done.stdout
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 1.0


def test_help_imports_no_library_of_weight() -> None:
    code = (
        "import json, sys; from predictor.cli import main; main(['--help']); "
        f"print(json.dumps(sorted(set(sys.modules) & set({HEAVY!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_help_of_a_command_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that has commands of its own shows an example for each of them."""
    assert main([name, "--help"]) == 0
    shown = {"": capsys.readouterr().out}
    for below in getattr(typer.main.get_command(find_commands()[name].load()), "commands", {}):
        shown.pop("", None)
        assert main([name, below, "--help"]) == 0
        shown[f" {below}"] = capsys.readouterr().out
    for below, text in shown.items():
        assert f"predictor {name}{below}" in text.split("Example", 1)[1], below


def test_every_command_is_installed_and_has_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(find_commands()) == set(SUMMARIES)
    assert main([]) == 0
    assert all(name in capsys.readouterr().out for name in ["ingest"])


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_an_unknown_command_exits_2_and_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict"]) == 2
    assert "ingest" in capsys.readouterr().err


def test_a_wrong_option_exits_2() -> None:
    assert main(["ingest", "--no-such-option"]) == 2

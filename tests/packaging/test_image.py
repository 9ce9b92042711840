"""This module holds the Dockerfile to the project: what it copies, installs, starts and checks."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer

from predictor.cli import find_commands
from serving.security.guard import OPEN_PATHS

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instruction of the Dockerfile."""

    name: str
    text: str


def steps() -> list[Step]:
    text = re.sub(r"\\\n", " ", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Step(name=name, text=rest) for name, rest in (line.split(None, 1) for line in lines)]


def texts(name: str, found: list[Step] | None = None) -> list[str]:
    return [step.text for step in found or steps() if step.name == name]


def last_stage() -> list[Step]:
    every = steps()
    first = max(number for number, step in enumerate(every) if step.name == "FROM")
    return every[first:]


def copied_from_here() -> set[str]:
    copies = [text.split() for text in texts("COPY") if not text.startswith("--from")]
    return {source for words in copies for source in words[:-1]}


def test_every_instruction_is_one_that_we_know() -> None:
    assert {step.name for step in steps()} <= INSTRUCTIONS


def test_both_stages_are_of_one_pinned_python_that_the_project_supports() -> None:
    """A virtual environment runs only on the Python that made it."""
    images = {text.split(" AS ")[0] for text in texts("FROM")}
    (image,) = images
    version = re.fullmatch(r"python:(\d+)\.(\d+)-[a-z-]+", image)
    assert version is not None, f"'{image}' names no version of Python and Debian"
    assert (int(version[1]), int(version[2])) >= (3, 11)


def test_all_that_is_copied_exists_and_all_that_the_build_needs_is_copied() -> None:
    copied = copied_from_here()
    assert [name for name in copied if not (ROOT / name).exists()] == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {settings["project"]["readme"], *settings["project"]["license-files"], "pyproject.toml"}
    needed |= set(settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert needed <= copied
    ignored = {line.strip("/\n ") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    assert not copied & ignored, "a fresh checkout does not have it"


def test_what_is_installed_is_the_project_with_extras_that_exist() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (install,) = re.findall(r"pip install (?:--\S+ )*(\S+)", " ".join(texts("RUN")))
    place = re.fullmatch(r"\.(?:\[(.+)\])?", install)
    assert place is not None
    assert {*(place[1] or "").split(",")} - {""} <= set(settings["project"]["optional-dependencies"])


def test_what_is_put_into_the_last_stage_is_on_its_path() -> None:
    (venv,) = re.findall(r"python -m venv (\S+)", " ".join(texts("RUN")))
    assert f"--from=build {venv} {venv}" in texts("COPY", last_stage())
    assert f"PATH={venv}/bin:$PATH" in " ".join(texts("ENV", last_stage()))
    (fallback,) = re.findall(r"PREDICTOR_FALLBACK=(\S+)", " ".join(texts("ENV", last_stage())))
    assert f"models/fallback {fallback}" in texts("COPY", last_stage())


def test_it_runs_as_nobody_special_from_a_folder_of_its_own() -> None:
    found = last_stage()
    (user,) = texts("USER", found)
    (made,) = re.findall(r"useradd (.*)", " ".join(texts("RUN", found)))
    assert f"--uid {user}" in made
    (folder,) = texts("WORKDIR", found)
    assert f"--home-dir {folder} --create-home" in made
    assert [step.name for step in found].index("USER") < [step.name for step in found].index("ENTRYPOINT")
    assert int(user) > 0


def test_what_it_starts_is_a_command_of_ours_on_the_port_that_it_exposes() -> None:
    (entry,), (command,), (port,) = texts("ENTRYPOINT"), texts("CMD"), texts("EXPOSE")
    program, name, *arguments = json.loads(entry) + json.loads(command)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert program in settings["project"]["scripts"]
    parsed = typer.main.get_command(find_commands()[name].load()).make_context(name, arguments).params
    assert (parsed["host"], parsed["port"]) == ("0.0.0.0", int(port))  # noqa: S104  (a container's own)


def test_its_health_is_asked_for_at_a_page_that_needs_no_key() -> None:
    (check,) = texts("HEALTHCHECK")
    (url,) = re.findall(r"http://[^']+", check)
    assert urlsplit(url).path in OPEN_PATHS - {"/"}
    assert urlsplit(url).port == int(texts("EXPOSE")[0])
    words = json.loads(check[check.index("[") :])
    compile(words[words.index("-c") + 1], "health check", "exec")


@pytest.mark.parametrize("line", texts("FROM"))
def test_no_base_image_is_called_latest(line: str) -> None:
    assert "latest" not in line

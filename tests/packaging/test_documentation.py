"""This module holds the documentation to the code: links, commands, options, settings and codes."""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import typer

from pipelines.settings import PipelineSettings
from predictor import __version__, errors
from predictor.cli import find_commands
from predictor.contracts.job import JobState
from predictor.data.sources.column_map import parse_column_map
from predictor.features.history_kernel import READINGS
from predictor.features.keys import KEY_KINDS
from predictor.forecasting.duration import DurationSettings
from serving.problems import catalogue
from serving.schemas import Job, JobBatch, OutcomeEvent

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "models").glob("*.md"),
                *(ROOT / "training_data").rglob("*.md")])  # fmt: skip
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def fences(path: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(path.read_text(encoding="utf-8")) if kind == language]


def anchors(path: Path) -> set[str]:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def calls(path: Path) -> Iterator[list[str]]:
    """Yield the words of every call of the command in the snippets of a page."""
    text = path.read_text(encoding="utf-8")
    snippets = [
        line for kind, body in FENCE.findall(text) if kind in ("", "ini") for line in body.splitlines()
    ]
    snippets += INLINE.findall(FENCE.sub("", text))
    for line in snippets:
        found = re.match(r"(?:.*[/=])?predictor (.+)", line.strip())
        if found and not line.strip().startswith("predictor COMMAND"):
            yield re.split(r"\s", found[1].split(" #")[0].split(";")[0].strip())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_snippets_call_commands_and_options_that_exist(page: Path) -> None:
    for words in calls(page):
        if words[0].startswith(("-", "COMMAND")):
            continue
        assert words[0] in find_commands(), words
        command = typer.main.get_command(find_commands()[words[0]].load())
        rest: Sequence[str] = words[1:]
        subcommands = getattr(command, "commands", None)
        if subcommands is not None and rest and not rest[0].startswith("-"):
            assert rest[0] in subcommands, words
            command, rest = subcommands[rest[0]], rest[1:]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        used = {word.strip("[]").split("=")[0] for word in rest if word.strip("[]").startswith("--")}
        assert used <= known, words


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_snippets_name_make_targets_that_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", text)) | set(
        re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
    )
    assert named <= targets


def test_every_error_code_is_explained() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    domain = {
        kind.code for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PredictorError)
    }  # fmt: skip
    documented = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    assert documented == domain | set(catalogue())


def test_every_status_in_the_errors_page_is_that_of_the_catalogue() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", text, re.MULTILINE)
    assert {code: int(status) for code, status in rows} == {
        code: kind.status for code, kind in catalogue().items()
    }


def test_the_page_on_forecasts_says_what_every_state_teaches() -> None:
    text = (ROOT / "docs" / "reference" / "forecast.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (\w+)", text, re.MULTILINE))
    wanted = {state: "observed" if state.observes_duration else "censored" for state in JobState}
    assert DurationSettings().cancelled_ends_job
    assert rows == {**wanted, JobState.CANCELLED: "observed", JobState.PENDING: "nothing"}


def test_the_page_on_features_names_every_key_and_reading() -> None:
    text = (ROOT / "docs" / "reference" / "features.md").read_text(encoding="utf-8")
    named = set(INLINE.findall(text))
    assert {kind.name for kind in KEY_KINDS} | set(READINGS) <= named


def test_the_settings_in_the_retraining_page_are_settings() -> None:
    text, measured = fences(ROOT / "docs" / "howto" / "retrain.md", "toml")
    settings = PipelineSettings(**tomllib.loads(text), **tomllib.loads(measured))
    assert settings.memory.coverage == PipelineSettings().memory.coverage
    assert settings.topology.coverage == PipelineSettings().topology.coverage
    assert settings.data.sources[0].format == "sacct"
    assert settings.gate == PipelineSettings().gate


def test_the_map_in_the_ingest_page_is_a_map() -> None:
    (text,) = fences(ROOT / "docs" / "howto" / "ingest.md", "toml")
    assert parse_column_map(text, "mysite.toml").name == "mysite"


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/howto/serve.md"])
def test_bodies_of_requests_in_the_docs_are_valid(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    bodies = re.findall(r"curl -s \S+?(/v1/\w+) .*?-d '(.*?)'", text, re.DOTALL)
    assert bodies
    for route, body in bodies:
        kind = {"/v1/predictions": JobBatch if '"jobs"' in body else Job, "/v1/outcomes": OutcomeEvent}[route]
        msgspec.convert(json.loads(body), kind)


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[([\d.]+)\]", text, re.MULTILINE)
    assert versions[0] == __version__


def test_the_index_lists_every_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {"index.md"} <= set(LINK.findall(text))

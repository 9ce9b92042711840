"""This module is the command ``predictor explain``: why this place in the queue, why not now, when."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import typer

from pipelines.given_options import given_options, ignored_fault, refuse
from predictor.errors import FormatError, PipelineError, PredictorError
from predictor.scheduling.snapshot import restore, state_of
from predictor.scheduling.views import explain as explain_job

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor explain 4711

  predictor explain 4711 --url https://predictor.site --key-file ~/.predictor-key

  predictor explain 4711 --snapshot state.json --json

Exit codes: 0 explained; 1 no such job; 2 the service or the snapshot cannot be read.
"""
_UNKNOWN_JOB = 1
_UNREADABLE = 2
_PATIENCE_S = 10.0
_NOT_FOUND = 404
Document = Mapping[str, Any]  # Any: JSON values


@app.command(epilog=EXAMPLES)
def explain(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="Id of a job that waits or runs.")],
    *,
    url: Annotated[str, typer.Option(help="Service that keeps the queue.")] = "http://127.0.0.1:8000",
    key_file: Annotated[Path | None, typer.Option(help="File with the API key, where it wants one.")] = None,
    snapshot: Annotated[
        Path | None, typer.Option(help="Snapshot (JSON) to ask instead of a service.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the service answers it.")] = False,
) -> None:
    """Say why a job has its place in the queue, why it does not run now, and when it may."""
    given = given_options(context)
    try:
        if snapshot is not None:
            refuse(ignored_fault(given, {"url", "key_file"}, "a snapshot is asked instead of a service"))
        found = _from_service(job, url, key_file) if snapshot is None else _from_snapshot(job, snapshot)
    except PredictorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_UNREADABLE) from error
    if isinstance(found, str):
        typer.echo(found, err=True)
        raise typer.Exit(_UNKNOWN_JOB)
    if as_json:
        typer.echo(json.dumps(found, indent=2, default=str))
        return
    for line in lines(found):
        typer.echo(line)


def lines(found: Document) -> list[str]:
    """Return an explanation as lines of text."""
    place = "" if found["position"] is None else f", place {found['position']}"
    of_class = f"class {found['workload_class']}, as of {_instant(found['at_s'])}"
    told = [f"{found['job_id']}: {found['state']}{place}, {of_class}"]
    if found["reason"] is not None:
        told.append(f"  why not now  [{found['reason']['code']}] {found['reason']['sentence']}")
    if found["promise"] is not None:
        start_s, latest_s = found["promise"]["start_s"], found["promise"]["latest_s"]
        told.append(f"  promised     {_instant(start_s)}, at the latest {_instant(latest_s)}")
    if found["eta"]:
        levels = ", ".join(
            f"{name.removesuffix('_s')} {_instant(at_s)}" for name, at_s in found["eta"].items()
        )
        told.append(f"  when         {levels}")
    if found["siblings"]:
        told.append(f"  siblings     {found['siblings']}")
    told += [f"  factor       {name:24}{_number(value)}" for name, value in found["factors"].items()]
    label = "would change" if found["state"] == "waiting" else "at present"
    told += [f"  {label:<12} {text}" for text in found["would_change"]]
    return told


def _from_snapshot(job: str, path: Path) -> Document | str:
    """Return the explanation of a job, or that there is none of that name."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read as a snapshot: {error}") from error
    if not isinstance(document, dict):
        raise FormatError(f"{path} is not a snapshot: its JSON is no object")
    coordinator = restore(state_of(document))
    now_s = coordinator.state.now_s
    if not coordinator.knows(job):
        return f"job '{job}' neither waits nor runs in {path}"
    found = explain_job(coordinator, job, now_s)
    promise = None
    if found.promise is not None:
        promise = {"start_s": found.promise[0], "latest_s": found.promise[1]}
    reason = None if found.reason is None else found.reason.document()
    return {**asdict(found), "at_s": now_s, "reason": reason, "promise": promise}


def _from_service(job: str, url: str, key_file: Path | None) -> Document | str:
    """Return the explanation of a job, or that there is none of that name."""
    if not url.startswith(("http://", "https://")):
        raise PipelineError(f"--url {url}: begin it with http:// or https://")
    headers = {} if key_file is None else {"Authorization": f"Bearer {_key(key_file)}"}
    try:
        address = f"{url.rstrip('/')}/v1/jobs/{quote(job, safe='')}/explanation"
        with urlopen(Request(address, headers=headers), timeout=_PATIENCE_S) as answer:  # noqa: S310  (checked)
            return dict(json.load(answer))
    except HTTPError as error:
        with error:
            told = error.read().decode(errors="replace")
        try:
            told = str(json.loads(told)["detail"])
        except (ValueError, LookupError, TypeError):
            told = told[:200]
        if error.code == _NOT_FOUND:
            return f"the service at {url}: {told}"
        raise PipelineError(f"the service at {url} answers {error.code}: {told}") from error
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"the service at {url} cannot be asked: {error}; "
            "pass --url of one that runs with a cluster, or --snapshot FILE"
        ) from error


def _key(path: Path) -> str:
    try:
        key = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"--key-file {path} cannot be read: {error}; name the file with the key") from error
    if not key or not key.isascii() or len(key.split()) > 1:
        raise FormatError(f"--key-file {path} holds no key; 'predictor keys create' makes one")
    return key


def _number(value: float | None) -> str:
    return f"{'-':>14}" if value is None else f"{value:14,.1f}"


def _instant(at_s: float | None) -> str:
    if at_s is None or not abs(at_s) < 1e11:
        return "not foreseeable"
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%SZ}"

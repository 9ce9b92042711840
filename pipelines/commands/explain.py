"""This module is the command ``predictor explain``: why this place in the queue, why not now, when."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from predictor.errors import FormatError, PredictorError
from predictor.scheduling.snapshot import restore
from predictor.scheduling.view_rows import Explanation
from predictor.scheduling.views import explain as explain_job

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_UNKNOWN_JOB = 1
_BAD_SNAPSHOT = 2


@app.command(epilog="Example:  predictor explain 4711 --snapshot state.json")
def explain(
    job: Annotated[str, typer.Argument(help="Id of a job that waits or runs.")],
    *,
    snapshot: Annotated[Path, typer.Option(help="Snapshot of the service or the simulator (JSON).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why a job has its place in the queue, why it does not run now, and when it may.

    Exit codes: 0 explained, 1 no such job, 2 the snapshot cannot be read.
    """
    try:
        coordinator = restore(_document(snapshot))
    except PredictorError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_BAD_SNAPSHOT) from error
    now_s = coordinator.state.now_s
    if not coordinator.knows(job):
        typer.echo(f"job '{job}' neither waits nor runs in {snapshot}", err=True)
        raise typer.Exit(_UNKNOWN_JOB)
    found = explain_job(coordinator, job, now_s)
    if as_json:
        reason = None if found.reason is None else found.reason.document()
        document = {**asdict(found), "reason": reason, "now_s": now_s}
        typer.echo(json.dumps(document, indent=2, default=str))
        return
    for line in lines(found, now_s):
        typer.echo(line)


def lines(found: Explanation, now_s: float) -> list[str]:
    """Return an explanation as lines of text."""
    place = "" if found.position is None else f", place {found.position}"
    told = [f"{found.job_id}: {found.state}{place}, class {found.workload_class}, as of {_instant(now_s)}"]
    if found.reason is not None:
        told.append(f"  why not now  [{found.reason.code.name}] {found.reason.sentence}")
    if found.promise is not None:
        start_s, latest_s = found.promise
        told.append(f"  promised     {_instant(start_s)}, at the latest {_instant(latest_s)}")
    if found.eta:
        levels = ", ".join(f"{name.removesuffix('_s')} {_instant(at_s)}" for name, at_s in found.eta.items())
        told.append(f"  when         {levels}")
    told += [f"  factor       {name:24}{value:14,.1f}" for name, value in found.factors.items()]
    told += [f"  would change {text}" for text in found.would_change]
    return told


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read as a snapshot: {error}") from error
    if not isinstance(document, dict):
        raise FormatError(f"{path} is not a snapshot: its JSON is no object")
    return document


def _instant(at_s: float) -> str:
    if not abs(at_s) < 1e11:
        return "not foreseeable"
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%SZ}"

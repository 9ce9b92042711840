"""This module is the command ``predictor retrain``: the batch job from new logs to the served champion."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipelines.duration_domain import duration_domain
from pipelines.given_options import refuse
from pipelines.measured_retrain import MeasuredOutcome, MeasuredResult, MeasuredRetraining
from pipelines.output_paths import file_faults, folder_faults
from pipelines.reports import Scores, finite
from pipelines.retrain import STEPS, Retraining, RetrainOutcome, RetrainResult
from pipelines.retrain_request import read_request
from pipelines.run_record import RunRecord, utc_text
from pipelines.settings import load_settings
from pipelines.targets import measured_targets, store_of
from pipelines.tracking_access import open_tracker
from predictor.cli import EXIT_REFUSED
from predictor.data.table import read_table

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor retrain

  predictor retrain --config site.toml --json

  predictor retrain --config site.toml --if-requested runs/retrain-request.json

  PREDICTOR_GATE__MAX_CRPS_WORSENING=0.1 predictor retrain --config site.toml

Exit codes: 0 promoted, or nothing to do; 1 the gate refused the challenger,
or a step failed; 2 settings or data cannot be used; 3 another retraining
holds the lock.

A run that was killed is continued by the next one. The champion changes
only at the very end.
"""
_COLUMNS = {"crps_log": "crps_log", "mean_abs_log_ratio": "mean|ln|", "within_2x": "<2x"}


@app.command(epilog=EXAMPLES)
def retrain(
    *,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings; PREDICTOR_SECTION__KEY wins over it.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train anew although neither data nor settings have changed.")
    ] = False,
    if_requested: Annotated[
        Path | None,
        typer.Option(
            help="Do nothing unless a service has asked for it by this file, which is removed as it ends."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Ingest new logs, train a challenger, judge it beside the champion and all baselines, and publish it.

    The challenger learns from the jobs before the most recent window and is
    judged on that window. If it passes the gate it is refitted on everything,
    verified and made champion; else it becomes the alias challenger and the
    champion goes on serving.

    GPU memory and topology are retrained after the durations, from the files
    under memory and topology and from the peaks of the job table, judged on
    groups that were kept out. A target without enough data is skipped.
    """
    settings = load_settings(config)
    if if_requested is not None and not is_requested(if_requested, as_json=as_json):
        return
    refuse(
        [
            *file_faults("data.table", settings.data.table, as_whole=True),
            *folder_faults("runs", settings.runs),
            *folder_faults("models.root", settings.models.root),
        ]
    )
    domain = duration_domain()
    store = store_of(settings, domain.target)
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("collect", total=len(STEPS))

        def progress(step: str, share: float) -> None:
            verb = step.split(" ", 1)[0].rstrip(":")
            done = STEPS.index(verb) + share if verb in STEPS else len(STEPS)
            bar.update(task, description=step, completed=done)

        work = Retraining(
            settings=settings, domain=domain, store=store,
            tracker=lambda: open_tracker(settings), progress=progress, request=if_requested,
        )  # fmt: skip
        now = datetime.now(UTC)
        result = work.run(now=now, force=force)
        jobs = read_table(result.collected.table)
        others = [
            MeasuredRetraining(
                settings=settings, section=section, target=target, store=store_of(settings, name),
                tracker=lambda: open_tracker(settings), progress=progress,
            ).run(jobs, now=now, parent=result.tracking_run, force=force)
            for name, (target, section) in measured_targets(settings).items()
        ]  # fmt: skip
    if as_json:
        document = plain(result) | {"targets": {one.target: one.to_json() for one in others}}
        typer.echo(json.dumps(finite(document), indent=2, allow_nan=False))
    else:
        show(result, Console())
        for one in others:
            show_measured(one, Console())
    refused = [one for one in others if one.outcome is MeasuredOutcome.REFUSED]
    if result.outcome is RetrainOutcome.REFUSED or refused:
        raise typer.Exit(EXIT_REFUSED)


def is_requested(path: Path, *, as_json: bool) -> bool:
    """Tell the reasons of a service's request; return whether there is one."""
    text = read_request(path)
    if text is None:
        typer.echo(json.dumps({"outcome": "not-requested"}) if as_json else "no retraining was asked for")
        return False
    try:
        reasons = [str(alert["sentence"]) for alert in json.loads(text)["alerts"]]
    except (ValueError, LookupError, TypeError):
        reasons = [f"'{path}' says no reason that can be read"]
    for reason in reasons:
        typer.echo(f"asked for, because {reason}", err=True)
    return True


def plain(result: RetrainResult) -> dict[str, object]:
    """Return the result as JSON-able values."""
    document: dict[str, object] = {
        "outcome": result.outcome.value,
        "version": result.version,
        "run_key": result.key,
        "data": {
            "fingerprint": result.facts.fingerprint,
            "rows": result.facts.rows,
            "first": utc_text(result.facts.first_s),
            "last": utc_text(result.facts.last_s),
        },
        "new_files": list(result.collected.new_files),
        "unmatched": list(result.collected.unmatched),
        "quarantined": result.collected.quarantined,
        "quarantines": list(result.collected.quarantines),
    }
    if result.record is None:
        return {**document, "last_outcome": result.last_outcome}
    record = result.record
    return {
        **document,
        "window": {"from": utc_text(record.window.from_s), "rows": record.window.rows},
        "champion_before": record.champion,
        "champion_note": record.champion_note,
        "scores": {name: scores.flat() for name, scores in models(record).items()},
        "gate": record.decision.to_json(),
        "tracking_run": result.tracking_run,
        "pruned": list(result.pruned),
    }


def models(record: RunRecord) -> dict[str, Scores]:
    """Return the scores of all models of a run, ours first."""
    named = {"challenger": record.challenger_report.only}
    if record.champion_report is not None:
        named[f"champion {record.champion}"] = record.champion_report.only
    return named | dict(record.baseline_report.ranked())


def show(result: RetrainResult, console: Console) -> None:
    """Print the result for people."""
    if result.collected.new_files:
        console.print(f"{len(result.collected.new_files)} new logs were added", highlight=False)
    for pattern in result.collected.unmatched:
        console.print(
            f"[yellow]no file matches[/yellow] '{escape(pattern)}' under data.sources; correct it, unless "
            f"no log is due",
            highlight=False,
        )
    if result.collected.quarantined:
        console.print(
            f"[red]{result.collected.quarantined:,} records were refused[/red]; they lie in "
            f"{', '.join(result.collected.quarantines)}",
            highlight=False,
        )
    if result.record is None:
        console.print(
            f"nothing to do: data, settings and features are those of the last run "
            f"({result.last_outcome} {result.version})",
            highlight=False,
        )
        return
    record = result.record
    title = f"{record.window.rows:,} jobs submitted from {utc_text(record.window.from_s)}"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, title_justify="left")
    table.add_column("model", no_wrap=True)
    for head in (*_COLUMNS.values(), "q90", "q95"):
        table.add_column(head, justify="right")
    for name, scores in models(record).items():
        cells = [f"{scores[column]:.4f}" for column in _COLUMNS]
        cells += [f"{scores.coverage.get(level, float('nan')):.1%}" for level in (0.9, 0.95)]
        table.add_row(name, *cells, style="bold" if name == "challenger" else "")
    console.print(table)
    for check in record.decision.checks:
        mark = "[green]pass[/green]" if check.passed else "[bold red]fail[/bold red]"
        console.print(f"{mark} {check.code}: {check.sentence}", highlight=False)
    if record.champion_note:
        console.print(f"the champion was not scored: {record.champion_note}", highlight=False, markup=False)
    console.print(_verdict(result), highlight=False)


def show_measured(result: MeasuredResult, console: Console) -> None:
    """Print what became of a target that learns from measurements."""
    name, judgement, decision = result.target, result.judgement, result.decision
    if result.outcome is MeasuredOutcome.SKIPPED:
        console.print(f"{name}: skipped: {result.reason}", highlight=False, markup=False)
        return
    if judgement is None or decision is None:
        console.print(
            f"{name}: nothing to do: input and settings are those of the last run "
            f"({result.reason} {result.version})", highlight=False,
        )  # fmt: skip
        return
    table = Table(
        title=f"{name}: {judgement.score} on {', '.join(judgement.judged_on)}", box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0), show_edge=False, title_justify="left",
    )  # fmt: skip
    for head in ("model", judgement.score, "ours there"):
        table.add_column(head, no_wrap=True, justify="left" if head == "model" else "right")
    table.add_row("ours", f"{judgement.ours:.4f}", "", style="bold")
    for model, value in sorted(judgement.baselines.items(), key=lambda item: item[1]):
        table.add_row(model, f"{value:.4f}", f"{judgement.ours_beside[model]:.4f}")
    console.print(table)
    for check in decision.checks:
        mark = "[green]pass[/green]" if check.passed else "[bold red]fail[/bold red]"
        console.print(f"{mark} {check.code}: {check.sentence}", highlight=False)
    is_champion = "is champion" if decision.passed else "is challenger only"
    console.print(f"{name}: [bold]{result.outcome}[/bold]: {result.version} {is_champion}", highlight=False)


def _verdict(result: RetrainResult) -> str:
    if result.outcome is RetrainOutcome.PROMOTED:
        return f"[bold green]promoted[/bold green]: {result.version} is champion, refitted on all jobs"
    return (
        f"[bold red]refused[/bold red]: {result.version} is challenger only; the champion goes on serving. "
        f"'predictor models promote {result.version}' overrules the gate"
    )

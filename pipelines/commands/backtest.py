"""This module is the command ``predictor backtest``: our forecasts beside every baseline, rolling origin."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipelines.domain import Document
from pipelines.duration_domain import report_document
from pipelines.given_options import given_options, ignored_fault, refuse
from pipelines.measured_backtest import MeasuredBacktest
from pipelines.output_paths import file_faults, folder_faults
from pipelines.plots import report_figures
from pipelines.reports import WindowReport, finite, read_report
from pipelines.run_record import utc_text
from pipelines.topology_backtest import backtest_topology_file
from pipelines.vram_backtest import vram_backtest
from predictor.data.table import fingerprint, read_table
from predictor.errors import ArgumentError
from predictor.evaluation.backtest import backtest_duration, default_test_from
from predictor.evaluation.report import OURS
from predictor.forecasting.duration import DurationSettings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor backtest jobs.parquet --target duration

  predictor backtest jobs.parquet --target duration --test-from 2026-03-01 --refit 1d

  predictor backtest jobs.parquet --target duration --json report.json --plots plots/ --seed 1

  predictor backtest timm_a100.csv.gz --target vram --json vram.json

  predictor backtest placements.csv.gz --target topology --json topology.json

Scores: crps_log and |ln| (of forecast / actual) are in natural log of
seconds, lower is better; <2x is the share of jobs forecast within a factor
of two, under the share that ran longer than forecast, q90 the share that
ended by their q90, best near 90 %.
"""
TARGETS = ("duration", "vram", "topology")
# targets measured apart from the job log; each has splits of its own
MEASURED: Mapping[str, MeasuredBacktest] = {"vram": vram_backtest, "topology": backtest_topology_file}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_COLUMNS = {  # score: head of its column, format
    "crps_log": ("crps_log", ".4f"), "mean_abs_log_ratio": ("mean|ln|", ".3f"),
    "median_abs_log_ratio": ("med|ln|", ".3f"), "mae_s": ("mae_s", ",.0f"),
    "within_2x": ("<2x", ".0%"), "under_rate": ("under", ".0%"),
}  # fmt: skip
_LEVELS = (0.5, 0.9, 0.95)


@app.command(epilog=EXAMPLES)
def backtest(
    context: typer.Context,
    table: Annotated[
        Path, typer.Argument(help="Canonical job table (Parquet), as 'predictor ingest' makes it.")
    ],
    *,
    target: Annotated[str, typer.Option(help=f"What to forecast: {', '.join(TARGETS)}.")],
    test_from: Annotated[
        str | None,
        typer.Option(help="First day of the test, UTC, such as 2026-03-01; default: last 20 % of jobs."),
    ] = None,
    refit: Annotated[str, typer.Option(help="Time between refits: 12h, 7d, 2w.")] = "7d",
    json_out: Annotated[
        Path | None, typer.Option("--json", help="File for the whole report as JSON.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all randomness.")] = 0,
    plots: Annotated[Path | None, typer.Option(help="Folder for plots of calibration and errors.")] = None,
) -> None:
    """Forecast past jobs as it would have been done live, and score ours beside every baseline.

    Every refit uses only what was known then: later jobs do not exist and
    jobs that ended later still run.
    """
    refit_s = check_options(target, refit, json_out, plots, given_options(context))
    if target in MEASURED:
        _measured(MEASURED[target], table, seed=seed, json_out=json_out, plots=plots)
        return
    given_s = None if test_from is None else parse_day(test_from)
    frame = read_table(table)
    from_s = default_test_from(frame) if given_s is None else given_s
    with _progress() as bar:
        task = bar.add_task("backtest", total=1.0)
        report = backtest_duration(
            frame, test_from_s=from_s, refit_s=refit_s, settings=DurationSettings(random_state=seed),
            progress=lambda step, share: bar.update(task, description=step, completed=share),
            labels={"seed": seed, "fingerprint": fingerprint(frame), "rows": len(frame)},
        )  # fmt: skip
    document = report_document(report, OURS)
    parsed = read_report(document)
    show(parsed, from_s, Console())
    if json_out is not None:
        _write_json(json_out, document)
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        for name, figure in report_figures(parsed, OURS).items():
            figure.savefig(plots / name)
    _tell_written(json_out, plots)


def _measured(
    run: MeasuredBacktest, path: Path, *, seed: int, json_out: Path | None, plots: Path | None
) -> None:
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
    with _progress() as bar:
        task = bar.add_task("backtest", total=1.0)
        document = run(
            path, seed=seed, plots=plots, console=Console(),
            tell=lambda step, share: bar.update(task, description=step, completed=share),
        )  # fmt: skip
    if json_out is not None:
        _write_json(json_out, document)
    _tell_written(json_out, plots)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip


def _tell_written(*paths: Path | None) -> None:
    for path in paths:
        if path is not None:
            typer.echo(f"wrote {path}", err=True)


def check_options(
    target: str, refit: str, json_out: Path | None, plots: Path | None, given: Mapping[str, str]
) -> float:
    """Return the seconds between refits.

    Args:
        given: parameter: option, of the options that the call gave.

    Raises:
        ArgumentError: one or more options cannot be used; all are listed.
    """
    faults = []
    if target not in TARGETS:
        faults.append(f"--target {target}: known is {', '.join(TARGETS)}")
    refit_s = parse_span(refit)
    if refit_s is None:
        faults.append(
            f"--refit {refit}: give a number above 0 and a unit of {', '.join(_SECONDS)}, such as 7d"
        )
    if target in MEASURED:
        faults += ignored_fault(given, {"test_from", "refit"}, f"--target {target} has splits of its own")
    faults += [*file_faults("--json", json_out), *folder_faults("--plots", plots)]
    refuse(faults)
    assert refit_s is not None  # noqa: S101  (else there is a fault; for the type checker)
    return refit_s


def parse_span(text: str) -> float | None:
    """Return the seconds of ``12h``, ``7d`` or ``2w``; None where it is no span of time.

    Examples:
        >>> parse_span("7d"), parse_span("1.5h"), parse_span("soon")
        (604800.0, 5400.0, None)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip())
    if found is None or float(found[1]) <= 0:
        return None
    return float(found[1]) * _SECONDS[found[2]]


def parse_day(text: str, option: str = "--test-from") -> float:
    """Return the epoch seconds of a date or time that an option names, UTC where it names no zone.

    Raises:
        ArgumentError: it is no date.
    """
    try:
        moment = pd.Timestamp(text)
    except ValueError as error:
        raise ArgumentError(f"{option} {text}: give a date such as 2026-03-01") from error
    if pd.isna(moment):
        raise ArgumentError(f"{option} {text}: give a date such as 2026-03-01")
    return float((moment.tz_localize("UTC") if moment.tzinfo is None else moment).timestamp())


def show(report: WindowReport, from_s: float, console: Console) -> None:
    """Print all models, the best by crps_log first, and ours in each slice beside the best baseline."""
    models = _table(f"{report.rows:,} jobs submitted from {utc_text(from_s)}, by crps_log", "model")
    for head in (*(head for head, _ in _COLUMNS.values()), *(f"q{level * 100:.0f}" for level in _LEVELS)):
        models.add_column(head, justify="right")
    for name, scores in report.ranked():
        cells = [_cell(scores[score], form) for score, (_, form) in _COLUMNS.items()]
        cells += [_cell(scores.coverage.get(level, math.nan), ".1%") for level in _LEVELS]
        models.add_row(name, *cells, style="bold" if name == OURS else "")
    console.print(models)
    if report.slices:
        console.print(_slices(report))
    console.print("[dim]q50, q90, q95: share of jobs that ended by that quantile[/dim]", highlight=False)


def _slices(report: WindowReport) -> Table:
    table = _table("slices", "slice")
    for head in ("jobs", "crps_log", "q90"):
        table.add_column(head, justify="right")
    table.add_column("best baseline", no_wrap=True)
    table.add_column("its crps", justify="right")
    for part in report.slices:
        ours = part.models.get(OURS)
        if ours is None:
            continue
        others = {name: scores["crps_log"] for name, scores in part.models.items() if name != OURS}
        finite = {name: value for name, value in others.items() if math.isfinite(value)}
        best = min(finite, key=lambda name: finite[name]) if finite else ""
        table.add_row(
            part.name, f"{part.rows:,}", _cell(ours["crps_log"], ".4f"),
            _cell(ours.coverage.get(0.9, math.nan), ".1%"),
            best, _cell(finite.get(best, math.nan), ".4f"),
        )  # fmt: skip
    return table


def _table(title: str, first: str) -> Table:
    """Return a table that fits 80 characters."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, title_justify="left")
    table.add_column(first, no_wrap=True)
    return table


def _cell(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "-"


def _write_json(path: Path, document: Document) -> None:
    path.write_text(json.dumps(finite(document), indent=2, allow_nan=False) + "\n", encoding="utf-8")

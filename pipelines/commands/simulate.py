"""This module is the command ``predictor simulate``: recorded jobs under other policies, by the same code."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipelines.commands.backtest import parse_day
from pipelines.given_options import given_options, ignored_fault, refuse
from pipelines.output_paths import file_faults, folder_faults
from pipelines.settings import load_settings
from pipelines.simulation_cluster import SimulatedCluster, cluster_for
from pipelines.simulation_forecasts import forecasts_of, read_forecasts
from pipelines.simulation_mix import mixed
from pipelines.simulation_plots import simulation_figures
from predictor.data.table import fingerprint, read_table
from predictor.errors import ArgumentError, FormatError
from predictor.scheduling.snapshot import state_of
from predictor.simulation.arrivals import Arrivals
from predictor.simulation.engine import simulate as play
from predictor.simulation.failures import Outage, draw_outages
from predictor.simulation.forecasts import expected_s
from predictor.simulation.policies import Contender, arrivals_for, contenders
from predictor.simulation.report import PolicyScores, score, simulation_document
from predictor.simulation.result import SimulationResult
from predictor.simulation.trace import FloatArray, Trace, build_trace
from predictor.simulation.what_if import play_on

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor simulate kth.parquet --cluster kth-sp2 --policy easy

  predictor simulate kth.parquet --cluster kth-sp2 --policy all --json out.json --plot plots/

  predictor simulate jobs.parquet --cluster gpus --load 0.9 --policy easy,ours

  predictor simulate --snapshot queue.json --policy easy,ours

  predictor simulate jobs.parquet --cluster site.toml --policy easy,ours:reserve.heads=5

--cluster takes a file, an example (predictor cluster examples), a number of units such as cpus=512 or
gpus=64, or just cpus or gpus with --load: the fewest units that such a load fits on.
"""
_WHOLE = 1.0
_FORECASTS = Path("runs/forecasts")
_WITHOUT_SCORE = {
    "unfit": "that no pool can ever hold",
    "cancelled": "that the policy ended before their end",
}


@app.command(epilog=EXAMPLES)
def simulate(
    context: typer.Context,
    table: Annotated[
        Path | None, typer.Argument(help="Canonical job table (Parquet), as 'predictor ingest' makes it.")
    ] = None,
    *,
    cluster: Annotated[str, typer.Option(help="Cluster file, example, cpus=N, gpus=N, cpus or gpus.")] = "",
    policy: Annotated[
        str, typer.Option(help="Policies by commas, or all; NAME:SETTING=VALUE changes a setting.")
    ] = "easy,ours",
    json_out: Annotated[Path | None, typer.Option("--json", help="File for the scores as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Folder for plots.")] = None,
    load: Annotated[
        float | None, typer.Option(help="Offered load: arrivals are stretched to it, such as 0.9.")
    ] = None,
    queue: Annotated[str, typer.Option(help="Only jobs of this queue or virtual cluster.")] = "",
    since: Annotated[
        str | None, typer.Option("--from", help="Only jobs submitted from this day, UTC.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Only jobs submitted before this day, UTC.")
    ] = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="End jobs at their limit, also where the log let them go on.")
    ] = False,
    forecasts: Annotated[
        Path | None, typer.Option(help="Forecasts (.npz) of this very table, or the folder that keeps them.")
    ] = None,
    checkpoint: Annotated[
        float | None, typer.Option(help="All jobs checkpoint every so many seconds; 0 = by the system.")
    ] = None,
    restart_cost: Annotated[float, typer.Option(help="Seconds lost at each restart.")] = 0.0,
    emergencies: Annotated[float, typer.Option(help="Share of jobs that are made emergencies.")] = 0.0,
    mtbf: Annotated[float | None, typer.Option(help="Hours between two failures of a node.")] = None,
    repair: Annotated[float, typer.Option(help="Hours until a failed node is back.")] = 4.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all randomness.")] = 0,
    snapshot: Annotated[
        Path | None, typer.Option(help="Play on from this snapshot of a live queue instead of a table.")
    ] = None,
    track: Annotated[bool, typer.Option("--track", help="Keep scores and plots in MLflow.")] = False,
    config: Annotated[Path | None, typer.Option(help="Settings (TOML), for the MLflow store.")] = None,
) -> None:
    """Play recorded jobs on a cluster under one or more policies, with the code that schedules live.

    Forecasts are made as of each job's submission by models that are
    refitted as the log grows, and kept for the next run.
    """
    chosen = contenders(policy)
    span, faults = _span(since, until)
    faults += _option_faults(table, cluster, snapshot, given_options(context))
    faults += [*file_faults("--json", json_out), *folder_faults("--plot", plot)]
    if any(each.needs_forecasts for each in chosen) and snapshot is None:
        faults += _forecast_faults(forecasts)
    faults += _number_faults({"--load": load, "--mtbf": mtbf, "--repair": repair}, checkpoint, restart_cost)
    if not 0 <= emergencies < 1:
        faults.append(f"--emergencies {emergencies}: give a share from 0 up to below 1, such as 0.05")
    refuse(faults)
    if snapshot is not None:
        _what_if(snapshot, chosen, json_out, plot)
        return
    assert table is not None  # noqa: S101  (else there is a fault; for the type checker)
    units = cluster_for(cluster).units
    frame = read_table(table)
    trace = build_trace(frame, units=units, queue=queue, kill_at_limit=kill, **span)
    place = cluster_for(cluster, trace, load)
    if load is not None and place.is_given:
        trace = trace.at_load(load, place.total)
    trace = mixed(
        trace,
        place.pools,
        checkpoint_s=checkpoint,
        restart_cost_s=restart_cost,
        emergencies=emergencies,
        seed=seed,
    )
    outages = _outages(place, trace, mtbf, repair, seed)
    with _progress() as bar:
        task = bar.add_task("simulate", total=_WHOLE)
        quantiles_s = None
        if any(each.needs_forecasts for each in chosen):

            def tell(step: str, part: float) -> None:
                bar.update(task, description=step, completed=part)

            if forecasts is not None and forecasts.is_file():
                quantiles_s = read_forecasts(forecasts, frame)
            else:
                quantiles_s = forecasts_of(frame, forecasts or _FORECASTS, seed=seed, progress=tell)
        _warm_up(chosen[0], trace, place)
        results = [
            _play(each, trace, place, quantiles_s, outages, _teller(bar, task, each.name)) for each in chosen
        ]
    offered = trace.offered_load(place.total)
    document = simulation_document(results) | {
        "trace": {
            "table": table.name, "fingerprint": fingerprint(frame), "jobs": len(trace),
            "left_out": dict(trace.left_out), "units": place.total, "unit": units, "seed": seed,
            "offered_load": None if math.isnan(offered) else offered,
        }
    }  # fmt: skip
    told = "" if math.isnan(offered) else f", load {offered:.2f}"
    title = f"{len(trace):,} jobs on {place.total:,} {place.units}{told}"
    show(results, title, Console())
    _write(json_out, document)
    figures = simulation_figures(results) if plot is not None or track else {}
    _draw(plot, figures)
    if track:
        from pipelines.tracking import MlflowTracker  # noqa: PLC0415 - mlflow takes seconds to import

        settings = load_settings(config)
        MlflowTracker(
            uri=settings.tracking_uri, artifact_root=settings.artifact_root,
            experiment=f"{settings.tracking.experiment}-simulations",
        ).record_simulation(document, figures)  # fmt: skip


def _play(
    contender: Contender,
    trace: Trace,
    place: SimulatedCluster,
    quantiles_s: FloatArray | None,
    outages: Sequence[Outage],
    tell: Callable[[float], None],
) -> SimulationResult:
    mine = None if quantiles_s is None else quantiles_s[trace.rows]
    means_s = None if mine is None else expected_s(mine)
    arrivals = arrivals_for(contender, trace, mine, means_s)
    result = play(trace, place.pools, contender.policy, arrivals, outages=outages, progress=tell)
    return replace(result, name=contender.name)


def _teller(bar: Progress, task: TaskID, name: str) -> Callable[[float], None]:
    return lambda part: bar.update(task, description=name, completed=part)


def _warm_up(contender: Contender, trace: Trace, place: SimulatedCluster) -> None:
    """Play a few jobs, so that loading compiled code does not count as the speed of the first policy."""
    few = trace.take(slice(0, 50))
    play(few, place.pools, contender.policy, Arrivals(few))


def _outages(
    place: SimulatedCluster, trace: Trace, mtbf_h: float | None, repair_h: float, seed: int
) -> tuple[Outage, ...]:
    if mtbf_h is None:
        return ()
    first_s, last_s = float(trace.submitted_s[0]), float(trace.submitted_s[-1])
    return draw_outages(
        place.pools,
        from_s=first_s,
        to_s=last_s,
        mean_between_s=mtbf_h * 3600,
        repair_s=repair_h * 3600,
        seed=seed,
    )


def _what_if(path: Path, chosen: Sequence[Contender], json_out: Path | None, plot: Path | None) -> None:
    """Play the jobs of a snapshot on under each policy; durations are medians of their forecasts."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot read the snapshot '{path}': {error}") from error
    document = state_of(document)
    results = [replace(play_on(document, each.policy), name=each.name) for each in chosen]
    units = sum(each["total"] for each in document["pools"])
    show(results, f"{len(results[0].trace):,} jobs of the snapshot, on {units:,} units", Console())
    starts = {
        result.name: {
            job_id: None if math.isnan(start_s) else start_s
            for job_id, start_s in zip(result.trace.job_ids, result.start_s.tolist(), strict=True)
        }
        for result in results
    }
    _write(json_out, simulation_document(results) | {"starts": starts})
    _draw(plot, simulation_figures(results) if plot is not None else {})


def _span(since: str | None, until: str | None) -> tuple[dict[str, float], list[str]]:
    """Return the bounds of the submissions, and what is wrong with them."""
    span: dict[str, float] = {}
    faults = []
    for name, option, text in (("from_s", "--from", since), ("to_s", "--to", until)):
        try:
            span |= {} if text is None else {name: parse_day(text, option)}
        except ArgumentError as error:
            faults.append(error.message)
    if len(span) > 1 and span["from_s"] >= span["to_s"]:
        faults.append(f"--from {since}, --to {until}: no time lies between them; give the earlier day first")
    return span, faults


def _number_faults(
    above_0: Mapping[str, float | None], checkpoint_s: float | None, restart_cost_s: float
) -> list[str]:
    faults = [
        f"{option} {value:g}: give a number above 0"
        for option, value in above_0.items()
        if value is not None and not 0 < value < math.inf
    ]
    for option, span_s in (("--checkpoint", checkpoint_s), ("--restart-cost", restart_cost_s)):
        if span_s is not None and not 0 <= span_s < math.inf:
            faults.append(f"{option} {span_s:g}: give a number of seconds, 0 or more")
    return faults


def _forecast_faults(path: Path | None) -> list[str]:
    if path is None or path.suffix != ".npz":
        return [] if path is not None and path.is_file() else folder_faults("--forecasts", path or _FORECASTS)
    return [] if path.is_file() else [f"--forecasts {path}: there is no such file; name it, or a folder"]


def _option_faults(
    table: Path | None, cluster: str, snapshot: Path | None, given: Mapping[str, str]
) -> list[str]:
    faults = []
    if (table is None) == (snapshot is None):
        faults.append("give either a job table to play or --snapshot of a live queue")
    if table is not None and not cluster:
        faults.append("--cluster is missing: a file, an example, cpus=N or gpus=N")
    if snapshot is not None:
        played_on = {"table", "snapshot", "policy", "json_out", "plot"}
        faults += ignored_fault(given, given.keys() - played_on, "a snapshot is played on as it is")
    elif "mtbf" not in given:
        faults += ignored_fault(given, {"repair"}, "without --mtbf no node fails")
    return faults


def _write(path: Path | None, document: Mapping[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        typer.echo(f"wrote {path}", err=True)


def _draw(folder: Path | None, figures: Mapping[str, Figure]) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            figure.savefig(folder / name, dpi=110)
        typer.echo(f"wrote {len(figures)} plots to {folder}", err=True)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip


def show(results: Sequence[SimulationResult], title: str, console: Console) -> None:
    """Print one line for each policy."""
    trace = results[0].trace
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, title_justify="left")
    table.add_column("policy", no_wrap=True)
    for head in ("wait s", "p95", "p99", "max", "bsld", "util", "evicted", "lost h", "kept", "jobs/s"):
        table.add_column(head, justify="right")
    scored = [(result, score(result)) for result in results]
    without_score = [name for name in _WITHOUT_SCORE if any(getattr(scores, name) for _, scores in scored)]
    for head in without_score:
        table.add_column(head, justify="right")
    for result, scores in scored:
        cells = _cells(scores, len(trace) / max(result.elapsed_s, 1e-9))
        table.add_row(result.name, *cells, *(f"{getattr(scores, name):,}" for name in without_score))
    console.print(table)
    for name in without_score:
        console.print(f"[dim]{name}: jobs {_WITHOUT_SCORE[name]}, in no score[/dim]", highlight=False)
    for reason, count in trace.left_out.items():
        console.print(f"[dim]left out: {count:,} rows {reason}[/dim]", highlight=False)


def _cells(scores: PolicyScores, speed: float) -> list[str]:
    figures: list[tuple[Any, str]] = [
        (scores.mean_wait_s, ",.0f"), (scores.p95_wait_s, ",.0f"), (scores.p99_wait_s, ",.0f"),
        (scores.max_wait_s, ",.0f"), (scores.mean_bounded_slowdown, ".2f"), (scores.utilisation, ".1%"),
        (scores.preemptions, ",d"), (scores.lost_gpu_h, ",.1f"), (scores.promises.coverage_q90, ".1%"),
        (speed, ",.0f"),
    ]  # fmt: skip
    return ["-" if value != value else format(value, form) for value, form in figures]  # noqa: PLR0124

"""This module is the command ``predictor ingest-metrics``: logs of GPU metrics onto a job table."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipelines.given_options import refuse
from pipelines.gpu_metrics import MetricsReport, ingest_metrics, total
from pipelines.output_paths import file_faults
from predictor.data.sources.gpu_metrics.join import WITHOUT_HOST_AND_JOB, JoinOptions
from predictor.data.sources.gpu_metrics.registry import AUTO, metric_readers
from predictor.data.sources.gpu_metrics.samples import MetricOptions, SampleKind
from predictor.data.sources.times import parse_zone
from predictor.errors import ArgumentError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor ingest-metrics smi-gpu01.csv --host gpu01 --jobs jobs.parquet --out jobs2.parquet

  predictor ingest-metrics range.json --gpu-map gpus.csv --jobs jobs.parquet --out jobs2.parquet --json

  predictor ingest-metrics slurm-*.out --kind allocated --jobs jobs.parquet --out jobs2.parquet
"""


@app.command(epilog=EXAMPLES)
def main(
    *,
    files: Annotated[list[Path], typer.Argument(help="Logs of GPU metrics: plain, .gz or .tar.gz.")],
    jobs: Annotated[Path, typer.Option(help="Canonical job table (Parquet).")],
    out: Annotated[Path, typer.Option(help="The job table to write, with peak_vram_mib filled.")],
    format_name: Annotated[
        str, typer.Option("--format", help=f"One of: {AUTO}, {', '.join(metric_readers())}.")
    ] = AUTO,
    kind: Annotated[
        SampleKind, typer.Option(help="What the peaks shall count; other kinds are left out.")
    ] = SampleKind.USED,
    gpu_map: Annotated[
        Path | None, typer.Option(help="CSV of job_id, host, gpu: which GPUs a job had on shared hosts.")
    ] = None,
    peaks: Annotated[Path | None, typer.Option(help="Also write one row per job and GPU (Parquet).")] = None,
    host: Annotated[str, typer.Option(help="Host of logs that do not name it.")] = "",
    job_id: Annotated[str, typer.Option(help="Job of logs that belong to one job.")] = "",
    tz: Annotated[str, typer.Option(help="Zone of times that carry no offset.")] = "UTC",
    min_samples: Annotated[int, typer.Option(help="Samples that each GPU of a job must have.")] = 3,
    interval_s: Annotated[float | None, typer.Option(help="Sampling interval [measured].")] = None,
    skew_intervals: Annotated[
        float, typer.Option(help="Intervals cut off at both ends of a job, as clocks differ.")
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Fill the measured GPU memory of jobs from what monitors and programs logged.

    A sample belongs to the job that it names, or else to the one that ran on its host and GPU at its time.
    The peak of a job is the maximum over time, then over its GPUs. Nothing is dropped silently: samples and
    jobs are counted by what became of them. Exit code 0 also where no job could be filled; 2 where no file
    is a log of GPU metrics.
    """
    parse_zone(tz)
    written = [each.absolute() for each in (out, peaks) if each is not None]
    taken = {each.absolute() for each in (*files, gpu_map) if each is not None}
    if len(set(written)) < len(written) or taken & set(written):
        raise ArgumentError("--out and --peaks must be files of their own; one is another's, or is read here")
    refuse([*file_faults("--out", out, as_whole=True), *file_faults("--peaks", peaks, as_whole=True)])
    options = MetricOptions(zone=tz, host=host, job_id=job_id, interval_s=interval_s)
    rules = JoinOptions(kind=kind, least_samples=min_samples, skew_intervals=skew_intervals)
    with Progress(
        TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}"), console=Console(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=len(files))
        report = ingest_metrics(
            files, jobs, out, format_name=format_name, options=options, rules=rules, assignment=gpu_map,
            peaks=peaks, progress=lambda name: bar.update(task, advance=1, description=name),
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        _show(report, out, Console())


def _show(report: MetricsReport, out: Path, console: Console) -> None:
    files = Table(box=box.SIMPLE_HEAD)
    for title in ("file", "format"):
        files.add_column(title, overflow="fold")
    for title in ("values", "samples"):
        files.add_column(title, justify="right", no_wrap=True)
    for account in report.files:
        files.add_row(account.name, account.format, f"{account.read:,}", f"{account.kept:,}")
    console.print(files)
    fates = Table(box=box.SIMPLE_HEAD)
    fates.add_column("of")
    fates.add_column("what became of them", overflow="fold")
    fates.add_column("count", justify="right", no_wrap=True)
    for of, counts in (
        ("values", total(report.files, "dropped")), ("values, noted", total(report.files, "notes")),
        ("samples", report.samples), ("jobs", report.jobs),
    ):  # fmt: skip
        for reason, count in counts.items():
            fates.add_row(of, reason, f"{count:,}")
    console.print(fates)
    nameless = report.samples.get(WITHOUT_HOST_AND_JOB, 0)
    if nameless:
        console.print(
            f"[yellow]{nameless:,} samples[/yellow] name neither host nor job and belong to nobody; "
            f"pass --host NAME or --job-id ID",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    for message in report.skipped:
        console.print(f"[yellow]skipped[/yellow] {escape(message)}", highlight=False)
    console.print(
        f"{report.filled:,} jobs filled in {escape(str(out))}; {report.kept_older:,} kept an older peak; "
        f"{report.lower_bounds:,} ran out of memory", highlight=False, soft_wrap=True,
    )  # fmt: skip

"""This module is the command ``predictor ingest``: scheduler logs in, a canonical job table out."""

import json
from collections.abc import Sequence
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
from pipelines.ingest import FileAccount, IngestReport, ingest
from pipelines.output_paths import file_faults
from predictor.data.pseudonyms import read_names_key
from predictor.data.sources.base import ReadOptions
from predictor.data.sources.column_map import read_column_map
from predictor.data.sources.registry import AUTO, readers
from predictor.data.sources.times import parse_zone

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor ingest jobs.psv --format sacct --tz Europe/Berlin --out jobs.parquet

  sacct -a -D -S 2026-01-01 --json > jobs.json;  predictor ingest jobs.json --out jobs.parquet

  predictor ingest old.log --fields JobID,User,Submit,Start,End,State --delimiter '|' --out jobs.parquet

  predictor ingest 2025-*.csv.gz --map site.toml --cluster alpha --out jobs.parquet --json
"""
_ESCAPES = {"\\t": "\t", "tab": "\t", "\\x1f": "\x1f", "\\x1e": "\x1e"}


@app.command(epilog=EXAMPLES)
def ingest_logs(
    *,
    files: Annotated[list[Path], typer.Argument(help="Logs: plain, .gz, or .tar.gz with several logs.")],
    out: Annotated[Path, typer.Option(help="The canonical table to write (Parquet).")],
    format_name: Annotated[
        str,
        typer.Option(
            "--format", help=f"{AUTO} looks at the content. One of: {AUTO}, {', '.join(readers())}."
        ),
    ] = AUTO,
    map_file: Annotated[
        Path | None, typer.Option("--map", help="TOML that maps the columns of a CSV or Parquet table.")
    ] = None,
    tz: Annotated[
        str, typer.Option(help="Zone of times that carry no offset, such as Europe/Berlin.")
    ] = "UTC",
    delimiter: Annotated[
        str | None, typer.Option(help="Field delimiter; '\\x1f' and 'tab' are understood.")
    ] = None,
    fields: Annotated[
        str | None, typer.Option(help="Field names, in order, of a sacct log without header.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Name for the cluster column; wins over the log's.")
    ] = None,
    names_key: Annotated[
        Path | None,
        typer.Option(help="File with the site's key: write keyed hashes in place of users and accounts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Read scheduler logs into the canonical job table.

    Rows with faults are never repaired and never lost: they go to OUT.quarantine.parquet with their
    reasons. The exit code is 0 also then; it is 2 where a file is empty or of another format.
    """
    parse_zone(tz)
    refuse(file_faults("--out", out, as_whole=True))
    names = None if names_key is None else read_names_key(names_key)
    options = ReadOptions(
        zone=tz,
        delimiter=None if delimiter is None else _ESCAPES.get(delimiter, delimiter),
        fields=tuple(name for name in (fields or "").split(",") if name.strip()),
        column_map=None if map_file is None else read_column_map(map_file),
        cluster=cluster,
    )
    console = Console(stderr=True)
    with Progress(
        TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.description}"), console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=len(files))
        report = ingest(
            files, out, format_name=format_name, options=options, names=names,
            progress=lambda name: bar.update(task, advance=1, description=name),
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(_plain(report), indent=2))
    else:
        _show(report, Console())


def _plain(report: IngestReport) -> dict[str, object]:
    return {
        "table": str(report.table),
        "quarantine": None if report.quarantine is None else str(report.quarantine),
        "kept": report.kept,
        "quarantined": report.quarantined,
        "files": [asdict(account) for account in report.files],
        "skipped": list(report.skipped),
        "sources": dict(report.sources),
    }


def _show(report: IngestReport, console: Console) -> None:
    counts = Table(box=box.SIMPLE_HEAD)
    for title in ("file", "format"):
        counts.add_column(title, overflow="fold")
    for title in ("read", "merged", "dropped", "quarantined", "kept"):
        counts.add_column(title, justify="right", no_wrap=True)
    for account in report.files:
        numbers = (
            account.read, sum(account.merged.values()), sum(account.dropped.values()),
            account.quarantined + account.unreadable, account.kept,
        )  # fmt: skip
        counts.add_row(account.name, account.format, *(f"{number:,}" for number in numbers))
    console.print(counts)
    _show_reasons(report.files, console)
    for message in report.skipped:
        console.print(f"[yellow]skipped[/yellow] {escape(message)}", highlight=False)
    console.print(f"{report.kept:,} jobs in {escape(str(report.table))}", highlight=False, soft_wrap=True)
    if report.quarantine is not None:
        console.print(
            f"[bold red]{report.quarantined:,} records were refused[/bold red]; "
            f"they lie with their reasons in {escape(str(report.quarantine))}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip


def _show_reasons(files: Sequence[FileAccount], console: Console) -> None:
    reasons = Table(box=box.SIMPLE_HEAD)
    for title in ("file", "records that were", "reason"):
        reasons.add_column(title, overflow="fold")
    reasons.add_column("count", justify="right", no_wrap=True)
    for account in files:
        kinds = {
            "merged": account.merged, "dropped": account.dropped,
            "[red]quarantined[/red]": account.reasons, "[dim]kept with a note[/dim]": account.notes,
        }  # fmt: skip
        for kind, counts in kinds.items():
            for reason, count in counts.items():
                reasons.add_row(account.name, kind, reason, f"{count:,}")
    if reasons.row_count:
        console.print(reasons)

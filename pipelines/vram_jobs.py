"""This module backtests peak GPU and host memory on a canonical job table, split by time."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from pipelines.domain import Document
from predictor.contracts.memory import PeakKind
from predictor.data.table import fingerprint, read_table
from predictor.errors import EmptyInputError
from predictor.evaluation.memory_jobs import JobMemoryReport, backtest_job_memory
from predictor.forecasting.memory.jobs import PEAK_COLUMNS


def backtest_job_table(
    path: Path, *, seed: int, console: Console, tell: Callable[[str, float], None]
) -> Document:
    """Score forecasts of the later jobs, for each kind of peak that the table holds.

    Raises:
        EmptyInputError: the table holds neither peaks of GPU nor of host memory.
        FormatError, SchemaError: the table cannot be read.
    """
    frame = read_table(path)
    kinds = [kind for kind, column in PEAK_COLUMNS.items() if frame[column].notna().any()]
    if not kinds:
        raise EmptyInputError(
            f"'{path.name}' has neither of {', '.join(PEAK_COLUMNS.values())}; ingest GPU metrics too"
        )
    splits = {}
    for at, kind in enumerate(kinds):
        tell(PEAK_COLUMNS[kind], at / len(kinds))
        report = backtest_job_memory(frame, kind=kind, seed=seed)
        console.print(_table(report))
        console.print(
            f"[dim]upper bound at {1 - report.bound.target:.0%} risk: {1 - report.bound.coverage:.1%} above "
            f"it; {report.regimes}[/dim]", highlight=False,
        )  # fmt: skip
        splits["later_jobs" if kind is PeakKind.USED else "later_jobs_host"] = _document(report)
    return {"target": "vram", "name": path.stem, "rows": len(frame), "seed": seed,
            "fingerprint": fingerprint(frame), "splits": splits}  # fmt: skip


def _document(report: JobMemoryReport) -> Document:
    return {
        "kind": str(report.kind), "train_rows": report.train_rows, "rows": report.test_rows,
        "models": {name: asdict(scores) for name, scores in report.models.items()},
        "bound": asdict(report.bound), "regimes": dict(report.regimes),
    }  # fmt: skip


def _table(report: JobMemoryReport) -> Table:
    title = f"{PEAK_COLUMNS[report.kind]}: {report.test_rows:,} later jobs, {report.train_rows:,} trained on"
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, title_justify="left")
    table.add_column("model", no_wrap=True)
    for head in ("MAPE", "median", "under", "within 10 %"):
        table.add_column(head, justify="right")
    for name, scores in report.models.items():
        table.add_row(
            name, f"{scores.mape:.3f}", f"{scores.median_ape:.3f}", f"{scores.under_rate:.1%}",
            f"{scores.within_10:.1%}", style="bold" if name == "ours" else "",
        )  # fmt: skip
    return table

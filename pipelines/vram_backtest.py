"""This module is ``predictor backtest --target vram``: tables, plots and JSON of backtests of peak memory."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from pipelines.domain import Document
from pipelines.vram_jobs import backtest_job_table
from pipelines.vram_plots import split_figures
from predictor.data.measurements import read_measurements
from predictor.evaluation.memory_backtest import OURS, MemoryReport, SplitReport, backtest_memory

Tell = Callable[[str, float], None]


def vram_backtest(path: Path, /, *, seed: int, plots: Path | None, console: Console, tell: Tell) -> Document:
    """Score ours and the baselines on a file of measurements, or on a canonical job table.

    Raises:
        FormatError: the file is of no known set.
        SchemaError, EmptyInputError: a job table has no peaks.
    """
    if path.suffix == ".parquet":
        return backtest_job_table(path, seed=seed, console=console, tell=tell)
    sets = read_measurements(path)
    reports = []
    for at, runs in enumerate(sets):

        def told(step: str, share: float, at: int = at) -> None:
            tell(step, (at + share) / len(sets))

        reports.append(backtest_memory(runs, seed=seed, progress=told))
    for report in reports:
        for name, split in report.splits.items():
            console.print(_table(report, name, split))
            _below(report, split, console)
            if plots is not None:
                for kind, figure in split_figures(split).items():
                    figure.savefig(plots / f"{report.name}_{name}_{kind}.png", dpi=110)
    documents = [memory_document(report, seed) for report in reports]
    return documents[0] if len(documents) == 1 else {**documents[0], "sets": documents}


def memory_document(report: MemoryReport, seed: int) -> Document:
    """Return a report as JSON; where a split has no families it has no ``unseen_family``."""
    return {
        "target": "vram", "name": report.name, "kind": str(report.kind), "rows": report.rows,
        "oom_rows": report.oom_rows, "quarantined": dict(report.quarantined), "seed": seed,
        "splits": {name: _split_document(split) for name, split in report.splits.items()},
    }  # fmt: skip


def _split_document(split: SplitReport) -> Document:
    document: Document = {
        "rows": split.rows, "groups": split.groups,
        "models": {name: asdict(scores) for name, scores in split.models.items()},
        "bound": asdict(split.bound), "policy": asdict(split.policy),
        "flat_policy": asdict(split.flat_policy),
    }  # fmt: skip
    if split.fit is not None:
        document["fits_on_card"] = asdict(split.fit)
    if split.dry_run_bound is not None and split.dry_run_policy is not None:
        document["with_dry_run"] = {
            "bound": asdict(split.dry_run_bound),
            "policy": asdict(split.dry_run_policy),
        }
    return document


def _table(report: MemoryReport, name: str, split: SplitReport) -> Table:
    title = (
        f"{report.name} ({report.kind}), {name.replace('_', ' ')}: {split.rows:,} rows, {split.groups} groups"
    )
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, title_justify="left")
    table.add_column("model", no_wrap=True)
    for head in ("MAPE", "median", "under", "within 10 %"):
        table.add_column(head, justify="right")
    for model, scores in sorted(split.models.items(), key=lambda item: item[1].mape):
        table.add_row(
            model, f"{scores.mape:.4f}", f"{scores.median_ape:.4f}", f"{scores.under_rate:.1%}",
            f"{scores.within_10:.1%}", style="bold" if model == OURS else "",
        )  # fmt: skip
    return table


def _below(report: MemoryReport, split: SplitReport, console: Console) -> None:
    bound, policy, flat = split.bound, split.policy, split.flat_policy
    few = f" (only {bound.support} groups: wide on purpose)" if bound.few_groups else ""
    lines = [
        f"upper bound at {1 - bound.target:.0%} risk: {1 - bound.coverage:.1%} above it, "
        f"{bound.mean_over_mib:,.0f} MiB over on average{few}",
        f"first allocation: MAQ {policy.maq:.3f} with {policy.oom_rate:.1%} out of memory; "
        f"forecast x 1.3: {flat.maq:.3f} with {flat.oom_rate:.1%}",
    ]
    if split.dry_run_policy is not None and split.dry_run_bound is not None:
        lines.append(
            f"with a dry run as input: {1 - split.dry_run_bound.coverage:.1%} above the bound, MAQ "
            f"{split.dry_run_policy.maq:.3f} with {split.dry_run_policy.oom_rate:.1%} out of memory"
        )
    if split.fit is not None:
        lines.append(
            f"fits on the card: AUC {split.fit.auc:.3f}, {split.fit.caught:.0%} of {split.fit.oom_rows} "
            f"out-of-memories caught at {split.fit.false_alarm:.0%} false alarm"
        )
    left_out = ", ".join(f"{reason}: {count}" for reason, count in report.quarantined.items() if count)
    lines.append(f"left out: {left_out or 'nothing'}")
    console.print("\n".join(f"[dim]{line}[/dim]" for line in lines), highlight=False)

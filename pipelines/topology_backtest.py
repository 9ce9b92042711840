"""This module is the backtest of placements, GPU types and MLPerf results for the command line."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from pipelines.domain import Document
from pipelines.topology_plots import score_by_model, topology_figures
from predictor.data.measurements import gpu_throughputs, mlperf_times, placements
from predictor.errors import FormatError
from predictor.evaluation.gpu_type_backtest import backtest_gpu_types
from predictor.evaluation.mlperf_backtest import backtest_mlperf
from predictor.evaluation.topology_backtest import OURS, SplitReport, backtest_topology

_HEADS = {
    "regret": "regret", "regret_p95": "p95", "rel_mape": "rel MAPE", "kendall_tau": "tau",
    "median_abs_log_ratio": "med|ln|", "mape": "MAPE",
}  # fmt: skip


def backtest_topology_file(
    path: Path,
    /,
    *,
    seed: int,
    plots: Path | None,
    console: Console,
    tell: Callable[[str, float], None],
) -> Document:
    """Backtest a table of placements, of throughputs by GPU type, or of MLPerf runs, known by its columns.

    Raises:
        FormatError: it cannot be read, or is none of the three.
    """
    try:
        frame = pd.read_csv(path, dtype={"placement": "str"}, low_memory=False)
    except (OSError, ValueError) as error:
        raise FormatError(f"'{path.name}' cannot be read as CSV: {error}") from error
    labels: Document = {
        "seed": seed,
        "fingerprint": sha256(path.read_bytes()).hexdigest(),
        "rows": len(frame),
    }
    if set(placements.COLUMNS) <= set(frame.columns):
        return labels | _placements(frame, seed, plots, console, tell)
    if set(gpu_throughputs.COLUMNS) <= set(frame.columns):
        types = backtest_gpu_types(gpu_throughputs.read_gpu_throughputs(frame), seed=seed)
        scored = {split: _json(models) for split, models in types.splits.items()}
        _show(console, scored, f"GPU types, {types.groups:,} groups of {types.rows:,} runs")
        _draw(scored, plots, "gpu_types.png")
        return labels | {"gpu_types": {"splits": _nested(scored), "groups": types.groups}}
    if set(mlperf_times.COLUMNS) <= set(frame.columns):
        runs = mlperf_times.read_mlperf_times(frame)
        report = backtest_mlperf(runs, seed=seed, tell=tell)
        scored = {split: _json(models) for split, models in report.splits.items()}
        _show(
            console, {"all": scored["all"]}, f"MLPerf time to train, {report.rows:,} results of later rounds"
        )
        _draw({"all": scored["all"]}, plots, "mlperf.png")
        quarantined = dict(runs.quarantined)
        return labels | {
            "mlperf": {"splits": _nested(scored), "results": report.rows, "quarantined": quarantined}
        }
    known = (placements.COLUMNS, gpu_throughputs.COLUMNS, mlperf_times.COLUMNS)
    raise FormatError(
        f"'{path.name}' is no table of placements, throughputs or MLPerf runs; give one with the columns "
        + "; or ".join(", ".join(columns) for columns in known)
    )


def _placements(
    frame: pd.DataFrame,
    seed: int,
    plots: Path | None,
    console: Console,
    tell: Callable[[str, float], None],
) -> Document:
    measured = placements.read_placements(frame)
    report = backtest_topology(measured, seed=seed, tell=tell)
    scored = {split: _json(part.models) for split, part in report.splits.items()}
    _show(console, scored, f"placements, {report.groups:,} groups of {report.rows:,} candidates")
    console.print(
        "[dim]a tie costs the mean regret of the tied; candidates are forecast by models that never saw "
        "their placement, shape, app or cluster[/dim]", highlight=False,
    )  # fmt: skip
    if plots is not None:
        for name, figure in topology_figures(report.splits, OURS).items():
            figure.savefig(plots / name)
    return {
        "splits": {name: _split(part, scored[name]) for name, part in report.splits.items()},
        "groups": report.groups, "candidates": report.rows, "quarantined": dict(measured.quarantined),
    }  # fmt: skip


def _split(part: SplitReport, models: Mapping[str, Mapping[str, float]]) -> Document:
    return {
        "models": {name: dict(scores) for name, scores in models.items()},
        "coverage": {f"{level:g}": share for level, share in part.coverage.items()},
        "regret_by_cluster": dict(part.by_cluster),
        "repeats": part.repeats,
    }


def _json(models: Mapping[str, object]) -> dict[str, Mapping[str, float]]:
    return {name: scores.to_json() for name, scores in models.items()}  # type: ignore[attr-defined]


def _draw(
    scored: Mapping[str, Mapping[str, Mapping[str, float]]], plots: Path | None, file_name: str
) -> None:
    """Draw the score that models are ranked by, where plots are asked for."""
    if plots is None:
        return
    leading = _leading(scored)
    values = {
        split: {model: scores[leading] for model, scores in models.items()}
        for split, models in scored.items()
    }
    score_by_model(values, leading, OURS).savefig(plots / file_name)


def _leading(scored: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the first score, which models are ranked by."""
    return next(iter(next(iter(next(iter(scored.values())).values()))))


def _nested(scored: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Document:
    return {
        split: {"models": {name: dict(scores) for name, scores in models.items()}}
        for split, models in scored.items()
    }


def _show(console: Console, scored: Mapping[str, Mapping[str, Mapping[str, float]]], title: str) -> None:
    leading = _leading(scored)
    for split, models in scored.items():
        first = next(iter(models.values()))
        table = Table(
            title=f"{split}: {title}, by {leading}", box=SIMPLE_HEAD, padding=0, show_edge=False,
            title_justify="left",
        )  # fmt: skip
        table.add_column("model", no_wrap=True)
        for score in first:
            table.add_column(_HEADS.get(score, score), justify="right")
        for name, scores in sorted(models.items(), key=lambda item: item[1][leading]):
            cells = [f"{value:.4f}" for value in scores.values()]
            table.add_row(name, *cells, style="bold" if name == OURS else "")
        console.print(table)

"""This module draws backtests of topology fit: a score by model, and calibration of the interval."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from predictor.evaluation.topology_backtest import SplitReport

_OURS, _OTHERS = "#1f5fa8", "#9aa4b0"


def topology_figures(splits: Mapping[str, SplitReport], ours: str) -> dict[str, Figure]:
    """Return the figures by file name."""
    regrets = {
        name: {model: scores.regret for model, scores in part.models.items()} for name, part in splits.items()
    }
    return {
        "topology_regret.png": score_by_model(regrets, "mean regret", ours),
        "topology_calibration.png": calibration(splits),
    }


def score_by_model(splits: Mapping[str, Mapping[str, float]], score: str, ours: str) -> Figure:
    """Draw one score of every model, one panel per split, the best first."""
    figure = Figure(figsize=(3.4 * len(splits), 3.2), layout="constrained")
    for at, (name, models) in enumerate(splits.items()):
        axes = figure.add_subplot(1, len(splits), at + 1)
        ranked = sorted(models, key=models.__getitem__)
        colors = [_OURS if model == ours else _OTHERS for model in ranked]
        bars = axes.barh(ranked, [models[model] for model in ranked], color=colors)
        axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=8)
        axes.invert_yaxis()
        axes.margins(x=0.3)
        axes.tick_params(labelsize=8)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel(f"{score} (lower is better)", fontsize=8)
    return figure


def calibration(splits: Mapping[str, SplitReport]) -> Figure:
    """Draw the share of candidates at or below each quantile against its level."""
    figure = Figure(figsize=(5.0, 4.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":", label="perfect")
    for name, part in splits.items():
        levels = sorted(part.coverage)
        axes.plot(levels, [part.coverage[level] for level in levels], marker="o", markersize=3, label=name)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="level of the quantile",
             ylabel="share of candidates at or below it")  # fmt: skip
    axes.set_title("Calibration of relative throughput", fontsize=10)
    axes.legend(fontsize=8)
    return figure

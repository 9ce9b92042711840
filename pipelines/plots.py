"""This module draws reports: calibration, errors by slice, PIT histograms, importance of features.

All functions are pure: a report in, a figure out; nothing is shown or written.
"""

from collections.abc import Collection, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.reports import WindowReport

_MOST_SLICES = 24
_MOST_FEATURES = 30
_OURS, _OTHERS = "#1f5fa8", "#9aa4b0"
_COLORS = ("#c0504d", "#6a9f3a", "#8064a2", "#d98f2b", "#4bacc6", "#7f7f7f", "#b36b8e", "#2f6f5f")
_MARKERS = "s^vDPX<>"


def reliability_diagram(report: WindowReport, ours: str) -> Figure:
    """Draw the observed share of jobs at or below each quantile against its level, for every model."""
    figure, axes = _figure(5.5, 5.0)
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle=":", label="perfect")
    for name, (color, marker) in _looks(report.models, ours).items():
        coverage = report.models[name].coverage
        if coverage:
            levels = sorted(coverage)
            axes.plot(
                levels, [coverage[level] for level in levels], marker=marker, label=name, color=color,
                linewidth=2.0 if name == ours else 0.8,
            )  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="level of the quantile", ylabel="share of jobs at or below it")
    axes.set_title(f"Calibration on {report.rows:,} jobs")
    axes.legend(fontsize=8)
    return figure


def pit_histogram(report: WindowReport, ours: str) -> Figure | None:
    """Draw how often each forecast probability came true; flat = calibrated. None without such counts."""
    counts = np.array(report.models[ours].pit)
    if not counts.size or not counts.sum():
        return None
    figure, axes = _figure(6.0, 3.6)
    edges = np.linspace(0.0, 1.0, len(counts) + 1)
    axes.bar(
        edges[:-1], counts / counts.mean(), width=np.diff(edges), align="edge", color=_OURS, edgecolor="w"
    )
    axes.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlim=(0, 1), xlabel="forecast probability of what happened", ylabel="frequency / expected")
    axes.set_title(f"PIT histogram of {ours}")
    return figure


def errors_by_slice(report: WindowReport, ours: str, score: str = "crps_log") -> Figure | None:
    """Draw a score of every model in the largest slices. None without slices."""
    parts = sorted((part for part in report.slices if ours in part.models), key=lambda part: -part.rows)
    parts = parts[:_MOST_SLICES]
    if not parts:
        return None
    figure, axes = _figure(7.5, 1.2 + 0.3 * len(parts))
    places = np.arange(len(parts))
    for name, (color, marker) in _looks({name for part in parts for name in part.models}, ours).items():
        values = [part.models[name][score] if name in part.models else np.nan for part in parts]
        axes.scatter(
            values, places, s=34 if name == ours else 18, color=color, marker=marker, label=name,
            alpha=1.0 if name == ours else 0.8,
        )  # fmt: skip
    axes.set_yticks(places, [f"{part.name} ({part.rows:,})" for part in parts], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel=f"{score} (lower is better)", title=f"{score} by slice")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=7)
    return figure


def scores_of_models(report: WindowReport, ours: str, score: str = "crps_log") -> Figure:
    """Draw one score of all models, the best on top."""
    ranked = report.ranked()
    figure, axes = _figure(6.5, 1.2 + 0.35 * len(ranked))
    colors = [_OURS if name == ours else _OTHERS for name, _ in ranked]
    bars = axes.barh([name for name, _ in ranked], [scores[score] for _, scores in ranked], color=colors)
    axes.bar_label(bars, fmt="%.3f", padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel=f"{score} (lower is better)", title=f"{score} on {report.rows:,} jobs")
    return figure


def feature_importance(importance: Mapping[str, float]) -> Figure | None:
    """Draw the most important features. None where the model tells none."""
    ranked = sorted(importance.items(), key=lambda item: -item[1])[:_MOST_FEATURES]
    if not ranked:
        return None
    figure, axes = _figure(7.0, 1.2 + 0.25 * len(ranked))
    axes.barh([name for name, _ in ranked], [value for _, value in ranked], color=_OURS)
    axes.tick_params(axis="y", labelsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="share of all splits in the boosted trees", title="Importance of features")
    return figure


def report_figures(report: WindowReport, ours: str) -> dict[str, Figure]:
    """Return all figures of a report by file name, without those it has no numbers for."""
    figures = {
        "calibration.png": reliability_diagram(report, ours),
        "pit.png": pit_histogram(report, ours),
        "scores.png": scores_of_models(report, ours),
        "slices_crps_log.png": errors_by_slice(report, ours),
        "slices_mean_abs_log_ratio.png": errors_by_slice(report, ours, "mean_abs_log_ratio"),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _looks(names: Collection[str], ours: str) -> dict[str, tuple[str, str]]:
    """Return color and marker of each model, so that no two look alike; ours comes last, to lie on top."""
    looks = {
        name: (_COLORS[at % len(_COLORS)], _MARKERS[(at + at // len(_COLORS)) % len(_MARKERS)])
        for at, name in enumerate(sorted(set(names) - {ours}))
    }
    return looks | ({ours: (_OURS, "o")} if ours in names else {})


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure that belongs to no window and no global state; it draws with Agg."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=110)
    return figure, figure.add_subplot()

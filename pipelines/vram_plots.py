"""This module draws backtests of peak memory: forecasts beside peaks, and bounds over them."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from predictor.evaluation.memory_backtest import SplitReport

_OURS, _OTHER = "#1f5fa8", "#9aa4b0"


def split_figures(split: SplitReport) -> Mapping[str, Figure]:
    """Return figures by name: ``forecasts`` and ``margins``."""
    return {"forecasts": _forecasts(split), "margins": _margins(split)}


def _forecasts(split: SplitReport) -> Figure:
    figure = Figure(figsize=(5.5, 5.0), layout="constrained")
    axes = figure.subplots()
    axes.scatter(split.observed_mib, split.upper_mib, s=4, color=_OTHER, alpha=0.5, label="upper bound")
    axes.scatter(split.observed_mib, split.ours_mib, s=4, color=_OURS, alpha=0.6, label="forecast")
    ends = [split.observed_mib.min(), split.observed_mib.max()]
    axes.plot(ends, ends, color="black", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="observed peak, MiB", ylabel="MiB")
    axes.set_title(f"{split.rows:,} runs of {split.groups} groups kept out in turn")
    axes.legend(fontsize=8)
    return figure


def _margins(split: SplitReport) -> Figure:
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    ratio = np.clip(split.upper_mib / split.observed_mib, 0.5, 4.0)
    axes.hist(ratio, bins=60, color=_OURS)
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="upper bound / observed peak", ylabel="runs")
    axes.set_title(f"{1 - split.bound.coverage:.1%} of the peaks lie above the bound")
    return figure

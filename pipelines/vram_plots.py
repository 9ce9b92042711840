"""This module draws backtests of peak memory: forecasts beside peaks, and bounds over them."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from predictor.evaluation.memory_backtest import SplitReport

_OURS, _OTHER = "#1f5fa8", "#9aa4b0"
_MARGINS = (0.5, 4.0)


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
    for axis, values in ((axes.xaxis, split.observed_mib), (axes.yaxis, split.upper_mib)):
        _few_ticks(axis, float(values.max() / values.min()))
    axes.set_title(f"{split.rows:,} runs of {split.groups} groups kept out in turn")
    axes.legend(fontsize=8)
    return figure


def _few_ticks(axis: Axis, span_ratio: float) -> None:
    """Label so few plain numbers on a logarithmic axis that they do not overlap."""
    subs = (1.0, 2.0, 5.0) if span_ratio < 30 else (1.0, 3.0) if span_ratio < 1000 else (1.0,)
    axis.set_major_locator(MaxNLocator(4) if span_ratio < 10 else LogLocator(base=10.0, subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())


def _margins(split: SplitReport) -> Figure:
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    ratio = np.clip(split.upper_mib / split.observed_mib, *_MARGINS)
    axes.hist(ratio, bins=60, range=_MARGINS, color=_OURS)
    axes.axvline(1.0, color="black", linewidth=0.8, linestyle=":")
    axes.set(xlabel="upper bound / observed peak", ylabel="runs")
    axes.set_title(f"{1 - split.bound.coverage:.1%} of the peaks lie above the bound")
    return figure

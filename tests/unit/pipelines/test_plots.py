"""This module checks that figures can be read: no two models look alike, no two labels overlap."""

from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from pipelines.plots import errors_by_slice, reliability_diagram
from pipelines.reports import read_report
from pipelines.vram_plots import split_figures
from predictor.evaluation.memory_backtest import SplitReport

SCORES = {
    "crps_log": 0.5, "mean_abs_log_ratio": 0.8, "median_abs_log_ratio": 0.4, "mae_s": 10.0,
    "within_2x": 0.7, "under_rate": 0.45, "coverage": {"q50": 0.5, "q90": 0.9},
}  # fmt: skip


def test_no_two_models_look_alike() -> None:
    models = dict.fromkeys(["ours", *(f"base_{at}" for at in range(12))], SCORES)
    report = read_report(
        {"test_rows": 9, "models": models, "slices": {"gpu": {"rows": 9, **SCORES, "models": models}}}
    )
    figure = errors_by_slice(report, "ours")
    assert figure is not None
    drawn = figure.axes[0].collections
    looks = {str((each.get_facecolor(), each.get_paths()[0].vertices)) for each in drawn}
    assert len(looks) == len(drawn) == 13
    lines = [
        each for each in reliability_diagram(report, "ours").axes[0].lines if each.get_marker() != "None"
    ]
    assert len({(each.get_color(), each.get_marker()) for each in lines}) == 13
    assert lines[-1].get_label() == "ours"


@pytest.mark.parametrize("span_ratio", [1.3, 4.0, 20.0, 300.0, 20_000.0])
def test_labels_of_memory_do_not_overlap(span_ratio: float) -> None:
    peaks_mib = np.geomspace(700.0, 700.0 * span_ratio, 50)
    split = SimpleNamespace(
        observed_mib=peaks_mib, upper_mib=1.2 * peaks_mib, ours_mib=peaks_mib, rows=50, groups=5,
        bound=SimpleNamespace(coverage=0.95),
    )  # fmt: skip
    figure = split_figures(cast("SplitReport", split))["forecasts"]
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]  # lays the labels out
    axes = figure.axes[0]
    for side, axis, limits in (("x", axes.xaxis, axes.get_xlim()), ("y", axes.yaxis, axes.get_ylim())):
        texts = [label for label in axis.get_ticklabels(which="both") if label.get_text()]
        shown = [text for text in texts if limits[0] <= float(text.get_text().replace(",", "")) <= limits[1]]
        boxes = [text.get_window_extent() for text in shown]
        spans = sorted((box.x0, box.x1) if side == "x" else (box.y0, box.y1) for box in boxes)
        assert len(spans) >= 2
        assert all(low[1] < high[0] for low, high in pairwise(spans))

"""This module draws simulations: waits, slowdowns, utilisation, a Gantt chart, promises and fairness."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from predictor.simulation.report import bounded_slowdown, user_slowdowns
from predictor.simulation.result import SimulationResult
from predictor.simulation.trace import FloatArray, IntArray

_HOUR_S, _DAY_S = 3600.0, 86400.0
_COLORS = ("#1f5fa8", "#c0504d", "#6a9f3a", "#8064a2", "#d98f2b", "#4bacc6", "#7f7f7f", "#b36b8e", "#2f6f5f")
_BINS = 400
_GANTT_ROWS = 3000


def simulation_figures(results: Sequence[SimulationResult]) -> dict[str, Figure]:
    """Return the figures by file name."""
    figures = {
        "wait_by_size.png": by_size(results, slowdown=False),
        "slowdown_by_size.png": by_size(results, slowdown=True),
        "wait_by_class.png": wait_by_class(results),
        "utilisation.png": utilisation(results),
        "promise_errors.png": promise_errors(results),
        "fairness.png": fairness(results),
    }
    figures |= {f"gantt_{result.name}.png": gantt(result) for result in results}
    return figures


def by_size(results: Sequence[SimulationResult], *, slowdown: bool) -> Figure:
    """Draw quartiles and 95 % of wait or slowdown by quarters of size (work times width)."""
    figure = Figure(figsize=(1.9 + 1.6 * len(results), 3.6), layout="constrained")
    axes = figure.add_subplot()
    names = ("smallest", "2nd quarter", "3rd quarter", "largest")
    for k, result in enumerate(results):
        done = result.completed
        size = (result.trace.work_s * result.trace.width)[done]
        values = bounded_slowdown(result)[done] if slowdown else result.wait_s[done] / _HOUR_S
        quarter = np.searchsorted(np.quantile(size, (0.25, 0.5, 0.75)), size)
        _boxes(axes, [values[quarter == at] for at in range(len(names))], k, len(results), result.name)
    axes.set_xticks(range(len(names)), names)
    axes.set_yscale("log" if slowdown else "symlog")
    axes.set_ylabel("bounded slowdown" if slowdown else "wait, hours")
    axes.set_title(
        f"{'Slowdown' if slowdown else 'Wait'} by size of the job (box: 25-75 %, bar: 5-95 %)", fontsize=10
    )
    axes.legend(fontsize=8)
    return figure


def wait_by_class(results: Sequence[SimulationResult]) -> Figure:
    """Draw the distribution of waits of every workload class."""
    names = sorted({name or "(none)" for result in results for name in result.trace.workload_class})
    figure = Figure(figsize=(2.4 + 1.2 * len(names) * len(results) ** 0.5, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for k, result in enumerate(results):
        classes = np.array([name or "(none)" for name in result.trace.workload_class])
        done = result.completed
        values = [result.wait_s[done & (classes == name)] / _HOUR_S for name in names]
        _boxes(axes, values, k, len(results), result.name)
    axes.set_xticks(range(len(names)), names)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylabel("wait, hours")
    axes.set_title("Wait by class (box: 25-75 %, bar: 5-95 %)", fontsize=10)
    axes.legend(fontsize=8)
    return figure


def utilisation(results: Sequence[SimulationResult]) -> Figure:
    """Draw the share of busy units over time."""
    figure = Figure(figsize=(8.0, 1.2 + 1.3 * len(results)), layout="constrained")
    for k, result in enumerate(results):
        axes = figure.add_subplot(len(results), 1, k + 1)
        first_s, last_s = float(result.trace.submitted_s.min()), float(np.nanmax(result.end_s))
        edges = np.linspace(first_s, max(last_s, first_s + 1.0), _BINS + 1)
        busy = _busy(result, edges)
        axes.fill_between((edges[:-1] - first_s) / _DAY_S, busy, step="post", color=_COLORS[k % len(_COLORS)])
        axes.set_ylim(0, 1)
        axes.set_ylabel(result.name, fontsize=8)
        axes.tick_params(labelsize=8)
        if k == 0:
            axes.set_title("Part of the units that are busy", fontsize=10)
    axes.set_xlabel("days", fontsize=8)
    return figure


def gantt(result: SimulationResult) -> Figure:
    """Draw when which units ran which job, for the stretch with the most waiting."""
    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    axes = figure.add_subplot()
    attempts, trace = result.attempts, result.trace
    order = np.argsort(attempts.start_s, kind="stable")
    if len(order) > _GANTT_ROWS:
        worst = int(np.nanargmax(np.where(result.completed, result.wait_s, np.nan)))
        middle = int(np.searchsorted(attempts.start_s[order], result.start_s[worst]))
        low = min(max(middle - _GANTT_ROWS // 2, 0), len(order) - _GANTT_ROWS)
        order = order[low : low + _GANTT_ROWS]
    first_s = float(attempts.start_s[order[0]]) if len(order) else 0.0
    rows = _rows(
        attempts.start_s[order], attempts.end_s[order], trace.width[attempts.job[order]], result.units
    )
    boxes, shades = [], []
    wait_h = np.log1p(np.maximum(np.nan_to_num(result.wait_s), 0) / _HOUR_S)
    for at, stripes in zip(order.tolist(), rows, strict=True):
        left, right = ((float(t[at]) - first_s) / _HOUR_S for t in (attempts.start_s, attempts.end_s))
        for low, high in stripes:
            boxes.append([(left, low), (right, low), (right, high), (left, high)])
            shades.append(float(wait_h[attempts.job[at]]))
    drawn = PolyCollection(boxes, array=np.array(shades), cmap="viridis", edgecolors="white", linewidths=0.15)
    axes.add_collection(drawn)
    axes.autoscale_view()
    figure.colorbar(drawn, label="wait of the job, log(1 + hours)")
    axes.set(xlabel="hours", ylabel="units")
    axes.set_title(f"{result.name}: {len(order):,} attempts around the longest wait", fontsize=10)
    return figure


def promise_errors(results: Sequence[SimulationResult]) -> Figure:
    """Draw the distribution of real minus promised start."""
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for k, result in enumerate(results):
        promises = result.promises
        error_h = (result.start_s[promises.job] - promises.expected_s) / _HOUR_S
        error_h = np.sort(error_h[~np.isnan(error_h)])
        if len(error_h):
            share = (np.arange(len(error_h)) + 1) / len(error_h)
            axes.plot(
                error_h, share, label=f"{result.name} ({len(error_h):,})", color=_COLORS[k % len(_COLORS)]
            )
    axes.axvline(0, color="black", linewidth=0.8, linestyle=":")
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set(xlabel="real minus expected start, hours", ylabel="share of promises", ylim=(0, 1))
    axes.set_title("Errors of promised starts", fontsize=10)
    if axes.lines[1:]:
        axes.legend(fontsize=8)
    return figure


def fairness(results: Sequence[SimulationResult]) -> Figure:
    """Draw the mean slowdown of every user, sorted."""
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for k, result in enumerate(results):
        means = np.sort(user_slowdowns(result))
        share = (np.arange(len(means)) + 1) / max(len(means), 1)
        axes.plot(share, means, label=result.name, color=_COLORS[k % len(_COLORS)])
    axes.set_yscale("log")
    axes.set(xlabel="share of users, the best served first", ylabel="mean bounded slowdown")
    axes.set_title("How users fare", fontsize=10)
    axes.legend(fontsize=8)
    return figure


def _boxes(axes: Axes, groups: list[FloatArray], k: int, count: int, label: str) -> None:
    """Draw one policy's box for each group beside those of the others."""
    color, width = _COLORS[k % len(_COLORS)], 0.8 / count
    for at, values in enumerate(groups):
        if not len(values):
            continue
        x = at + (k - (count - 1) / 2) * width
        low, first, middle, third, high = np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95))
        axes.bar(x, third - first, 0.8 * width, bottom=first, color=color, alpha=0.6)
        axes.vlines(x, low, high, color=color, linewidth=1)
        axes.hlines(middle, x - 0.4 * width, x + 0.4 * width, color="black", linewidth=1)
    axes.bar(0, 0, color=color, alpha=0.6, label=label)


def _busy(result: SimulationResult, edges: FloatArray) -> FloatArray:
    """Return the mean share of busy units between neighbouring edges."""
    attempts = result.attempts
    width = result.trace.width[attempts.job].astype(np.float64)
    times = np.concatenate([attempts.start_s, attempts.end_s])
    steps = np.concatenate([width, -width])
    order = np.argsort(times, kind="stable")
    times, level = times[order], np.cumsum(steps[order])
    done = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    return np.asarray(np.diff(np.interp(edges, times, done)) / (np.diff(edges) * result.units))


def _rows(start_s: FloatArray, end_s: FloatArray, width: IntArray, units: int) -> list[list[tuple[int, int]]]:
    """Return the stripes (from, to) that each box takes of the lowest free rows; not real places."""
    until_s = np.full(units, -np.inf)
    rows = []
    for begin_s, over_s, wide in zip(start_s.tolist(), end_s.tolist(), width.tolist(), strict=True):
        taken = np.flatnonzero(until_s <= begin_s)[:wide]
        until_s[taken] = over_s
        cuts = np.flatnonzero(np.diff(taken) > 1) + 1
        rows.append([(int(part[0]), int(part[-1]) + 1) for part in np.split(taken, cuts) if len(part)])
    return rows

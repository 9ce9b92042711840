"""This module prints an estimate of GPU memory, as tables for people and as JSON for programs."""

from collections.abc import Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from predictor.contracts.workload import InferenceSpec, ModelSpec, RunSpec, TransformerSpec
from predictor.forecasting.memory.breakdown import COMPONENT_NAMES, GIB, MemoryBreakdown
from predictor.forecasting.memory.fit import Fit, Verdict, fits
from predictor.forecasting.memory.inference import cache_capacity_tokens
from predictor.forecasting.memory.parameters import count_parameters

_COLOURS = {Verdict.FITS: "green", Verdict.LIKELY: "yellow", Verdict.NO: "red"}


def plain_estimate(
    model: ModelSpec, run: RunSpec, breakdown: MemoryBreakdown, fit: Fit | None, *, card: str,
    assumed: Sequence[str], unread: Sequence[str],
) -> dict[str, object]:  # fmt: skip
    """Return an estimate as plain values for JSON; all sizes are bytes."""
    return {
        "card": card or None,
        "parameters": _parameters(model),
        "model": asdict(model),
        "run": asdict(run),
        "gpus": breakdown.gpu_count,
        "stage": breakdown.stage,
        "peak_bytes": round(breakdown.peak_bytes),
        "peak_phase": breakdown.peak_phase.name,
        "tensor_peak_bytes": round(breakdown.tensor_peak_bytes),
        "range_bytes": [round(breakdown.low_bytes), round(breakdown.high_bytes)],
        "conservative_bytes": round(breakdown.conservative_bytes),
        "components": {name: round(getattr(breakdown.components, name)) for name in COMPONENT_NAMES},
        "phases": {
            phase.name: {name: round(getattr(phase.parts, name)) for name in COMPONENT_NAMES}
            for phase in breakdown.phases
        },
        "uncertain": [
            {
                "what": part.what,
                "components": list(part.components),
                "range": [part.low_ratio, part.high_ratio],
            }
            for part in breakdown.uncertain_parts
        ],
        "assumed": list(assumed),
        "unread": list(unread),
        "gpu": None if fit is None else _plain_fit(fit),
        "fits_on": [_plain_fit(one) for one in fits(breakdown, run) if one.verdict is not Verdict.NO],
    }


def show_estimate(
    console: Console, model: ModelSpec, run: RunSpec, breakdown: MemoryBreakdown, fit: Fit | None, *,
    card: str, assumed: Sequence[str], unread: Sequence[str],
) -> None:  # fmt: skip
    """Print an estimate: components by phase, the peak with its range, and what it fits on."""
    name = card or "shape without a card"
    gpus = f"{breakdown.gpu_count} GPU{'s' * (breakdown.gpu_count > 1)}"
    stage = "" if breakdown.stage == "only" else f", {breakdown.stage} pipeline stage"
    console.print(
        f"[bold]{escape(name)}[/bold]: {_parameters(model) / 1e9:,.3g} billion parameters on {gpus}; "
        f"GiB on one GPU{stage}:", highlight=False,
    )  # fmt: skip
    console.print(_phase_table(breakdown))
    console.print(
        f"peak [bold]{breakdown.peak_bytes / GIB:,.1f} GiB[/bold] at {breakdown.peak_phase.name}, range "
        f"{breakdown.low_bytes / GIB:,.1f} to {breakdown.high_bytes / GIB:,.1f}; as torch counts it "
        f"{breakdown.tensor_peak_bytes / GIB:,.1f}; all phases at once "
        f"{breakdown.conservative_bytes / GIB:,.1f}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    for title, lines in (("assumed", assumed), ("not understood", unread)):
        for line in lines:
            console.print(f"  {title}: {escape(line)}", highlight=False, soft_wrap=True)
    for part in breakdown.uncertain_parts:
        console.print(
            f"  [dim]uncertain: {escape(part.what)} (x{part.low_ratio:.2g} to x{part.high_ratio:.2g})[/dim]",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    _show_fits(console, breakdown, run, fit)
    if fit is not None and isinstance(model, TransformerSpec) and isinstance(run, InferenceSpec):
        _show_cache(console, model, run, fit)


def _phase_table(breakdown: MemoryBreakdown) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("component")
    for phase in breakdown.phases:
        table.add_column(phase.name, justify="right", no_wrap=True)
    for name in COMPONENT_NAMES:
        held = [float(getattr(phase.parts, name)) for phase in breakdown.phases]
        if max(held) > 0:
            table.add_row(name.replace("_", " "), *(_gib(size) for size in held))
    peak = breakdown.peak_phase
    totals = [
        f"[bold]{_gib(phase.parts.total_bytes)}[/bold]" if phase is peak else _gib(phase.parts.total_bytes)
        for phase in breakdown.phases
    ]
    table.add_section()
    table.add_row("sum", *totals)
    return table


def _show_fits(console: Console, breakdown: MemoryBreakdown, run: RunSpec, fit: Fit | None) -> None:
    if fit is not None:
        colour = _COLOURS[fit.verdict]
        console.print(
            f"on {fit.gpu.name} ({fit.gpu.usable_mib / 1024:,.1f} GiB usable): "
            f"[bold {colour}]{fit.verdict}[/bold {colour}], {fit.peak_ratio:.0%} of it, "
            f"{fit.high_ratio:.0%} at the upper end",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    by_verdict: dict[Verdict, list[str]] = {}
    for one in fits(breakdown, run):
        by_verdict.setdefault(one.verdict, []).append(one.gpu.name)
    for verdict in (Verdict.FITS, Verdict.LIKELY):
        if names := by_verdict.get(verdict):
            console.print(f"{verdict} on: {', '.join(names)}", highlight=False)
    if set(by_verdict) == {Verdict.NO}:
        console.print("[red]fits on no known GPU[/red]; split it over more of them", highlight=False)


def _show_cache(console: Console, model: TransformerSpec, run: InferenceSpec, fit: Fit) -> None:
    if fit.reserved_bytes <= 0 or run.utilisation_ratio is None:
        return
    tokens = cache_capacity_tokens(model, run, fit.gpu.usable_bytes, run.utilisation_ratio)
    console.print(
        f"the server takes {fit.reserved_bytes / GIB:,.1f} GiB whatever it needs; beside the weights there "
        f"is room for {tokens:,} tokens of cache at most", highlight=False, soft_wrap=True,
    )  # fmt: skip


def _parameters(model: ModelSpec) -> float:
    return count_parameters(model) if isinstance(model, TransformerSpec) else float(model.parameter_count)


def _plain_fit(fit: Fit) -> dict[str, object]:
    return {
        "gpu": fit.gpu.name, "usable_mib": fit.gpu.usable_mib, "verdict": str(fit.verdict),
        "peak_ratio": round(fit.peak_ratio, 4), "high_ratio": round(fit.high_ratio, 4),
    }  # fmt: skip


def _gib(size: float) -> str:
    return f"{size / GIB:,.2f}" if size else ""

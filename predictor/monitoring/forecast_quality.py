"""This module watches whether forecasts keep what they say: coverage, error, and out-of-memory rate.

Coverage is judged by the exact binomial test at a small level, so that a few unlucky jobs raise no alarm
and a thousand jobs do not hide a real loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scipy.stats import binomtest

from predictor.monitoring.alert import Alert, AlertCode, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySettings:
    """When forecast quality is told.

    Attributes:
        significance: probability of a false alarm per look.
        min_gap: coverage may differ by so much whatever the test says.
        max_error_growth: relative growth of the mean absolute log error against that of the gate.
        min_rows: fewer outcomes say nothing.
    """

    significance: float = 1e-4
    min_gap: float = 0.05
    max_error_growth: float = 0.25
    min_rows: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityWindow:
    """What the last outcomes said of their forecasts.

    Attributes:
        rows: outcomes in the window.
        covered: outcomes at or below a quantile, by its probability.
        mean_abs_log_ratio: of forecast median and duration, None where it was not counted.
        reference_abs_log_ratio: the same when the model was judged.
        oom_rows, oom_count: jobs admitted by their memory bound, and how many of them ran out of memory.
        oom_risk: the risk that the operator chose.
    """

    rows: int
    covered: Mapping[float, int]
    mean_abs_log_ratio: float | None = None
    reference_abs_log_ratio: float | None = None
    oom_rows: int = 0
    oom_count: int = 0
    oom_risk: float = 0.05


def quality_alerts(window: QualityWindow, settings: QualitySettings) -> list[Alert]:
    """Return the alerts of a window of outcomes."""
    alerts = []
    if window.rows >= settings.min_rows:
        for level, count in sorted(window.covered.items()):
            share = count / window.rows
            unlikely = binomtest(count, window.rows, level).pvalue < settings.significance
            if unlikely and abs(share - level) > settings.min_gap:
                alerts.append(_coverage(level, share, window.rows))
        ours, reference = window.mean_abs_log_ratio, window.reference_abs_log_ratio
        if ours is not None and reference is not None and ours > reference * (1 + settings.max_error_growth):
            alerts.append(_error(ours, reference, window.rows))
    if window.oom_rows >= settings.min_rows:
        test = binomtest(window.oom_count, window.oom_rows, window.oom_risk, alternative="greater")
        if test.pvalue < settings.significance:
            alerts.append(_oom(window))
    return alerts


def _coverage(level: float, share: float, rows: int) -> Alert:
    side = "too short" if share < level else "too long"
    return Alert(
        code=AlertCode.COVERAGE_LOST, severity=Severity.CRITICAL if share < level else Severity.WARNING,
        subject=f"q{level * 100:g}",
        sentence=f"{share:.1%} of the last {rows} jobs ended by their q{level * 100:g}: forecasts are {side}",
        fix="retrain; if it persists, look at the drift alerts and at one user's or account's jobs",
        numbers={"coverage": share, "level": level, "rows": float(rows)}, retrain=True,
    )  # fmt: skip


def _error(ours: float, reference: float, rows: int) -> Alert:
    return Alert(
        code=AlertCode.ERROR_GREW, severity=Severity.WARNING, subject="duration",
        sentence=f"the mean |ln(forecast / actual)| of the last {rows} jobs is {ours:.2f}; "
        f"it was {reference:.2f} when the model was judged",
        fix="retrain on the newest jobs, or roll back if it began with the last promotion",
        numbers={"error": ours, "reference": reference, "rows": float(rows)}, retrain=True,
    )  # fmt: skip


def _oom(window: QualityWindow) -> Alert:
    share = window.oom_count / window.oom_rows
    return Alert(
        code=AlertCode.OOM_RATE, severity=Severity.CRITICAL, subject="vram",
        sentence=f"{share:.1%} of the last {window.oom_rows} jobs ran out of GPU memory; "
        f"{window.oom_risk:.1%} was chosen",
        fix="lower the risk of the memory bound, or retrain the memory model on these outcomes",
        numbers={"oom_rate": share, "risk": window.oom_risk, "rows": float(window.oom_rows)}, retrain=True,
    )  # fmt: skip

"""Lost coverage, a grown error and a high out-of-memory rate are told; chance is not."""

from predictor.monitoring.alert import AlertCode, Severity
from predictor.monitoring.forecast_quality import QualitySettings, QualityWindow, quality_alerts


def codes(window: QualityWindow) -> list[tuple[AlertCode, str]]:
    return [(alert.code, alert.subject) for alert in quality_alerts(window, QualitySettings())]


def test_coverage_near_its_level_is_quiet() -> None:
    assert codes(QualityWindow(rows=1000, covered={0.5: 510, 0.9: 885, 0.95: 960})) == []


def test_jobs_that_outlast_their_q90_are_critical() -> None:
    (alert,) = quality_alerts(QualityWindow(rows=1000, covered={0.9: 780}), QualitySettings())
    assert (alert.code, alert.subject, alert.severity) == (
        AlertCode.COVERAGE_LOST, "q90", Severity.CRITICAL,
    )  # fmt: skip
    assert alert.numbers == {"coverage": 0.78, "level": 0.9, "rows": 1000.0}
    assert alert.retrain


def test_forecasts_that_are_too_long_are_a_warning() -> None:
    (alert,) = quality_alerts(QualityWindow(rows=1000, covered={0.9: 999}), QualitySettings())
    assert alert.severity is Severity.WARNING


def test_few_outcomes_say_nothing() -> None:
    assert codes(QualityWindow(rows=50, covered={0.9: 10})) == []


def test_a_grown_error_is_told_against_that_of_the_gate() -> None:
    grown = QualityWindow(rows=200, covered={}, mean_abs_log_ratio=1.4, reference_abs_log_ratio=1.0)
    held = QualityWindow(rows=200, covered={}, mean_abs_log_ratio=1.2, reference_abs_log_ratio=1.0)
    assert codes(grown) == [(AlertCode.ERROR_GREW, "duration")]
    assert codes(held) == []


def test_more_out_of_memory_than_chosen_is_told() -> None:
    assert codes(QualityWindow(rows=0, covered={}, oom_rows=400, oom_count=60)) == [
        (AlertCode.OOM_RATE, "vram")
    ]
    assert codes(QualityWindow(rows=0, covered={}, oom_rows=400, oom_count=25)) == []

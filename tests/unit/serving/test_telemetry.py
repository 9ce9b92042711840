"""Metrics: labels stay few whatever comes in."""

from serving.telemetry import MOST_REASONS, Telemetry


def test_fallback_reasons_beyond_a_fixed_number_share_a_label() -> None:
    telemetry = Telemetry()
    for number in range(MOST_REASONS + 20):
        telemetry.count_forecasts(f"reason-{number}")
    text = telemetry.exposition().decode()
    assert text.count("predictor_forecasts_total{") == MOST_REASONS + 1
    assert 'predictor_forecasts_total{fallback="other"} 20.0' in text


def test_unknown_methods_share_a_label() -> None:
    telemetry = Telemetry()
    for number in range(50):
        telemetry.observe_request("/livez", f"M{number}", 405, 0.001)
    assert 'method="other"' in telemetry.exposition().decode()
    assert 'method="M1"' not in telemetry.exposition().decode()


def test_two_services_in_one_process_do_not_share_metrics() -> None:
    first, second = Telemetry(), Telemetry()
    first.count_forecasts(None, 3)
    assert 'fallback="none"' in first.exposition().decode()
    assert 'fallback="none"' not in second.exposition().decode()

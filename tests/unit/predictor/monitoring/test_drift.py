"""Drift is told where the mix of jobs has changed, and only there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.errors import ArgumentError
from predictor.monitoring.alert import AlertCode, Severity
from predictor.monitoring.drift import DriftSettings, FeatureReference, drift_alerts


def test_a_sample_of_the_same_kind_raises_no_alert() -> None:
    random = np.random.default_rng(0)
    reference = FeatureReference.learn(random.lognormal(size=20_000))
    recent = {"walltime_s": random.lognormal(size=1000)}
    assert drift_alerts({"walltime_s": reference}, recent, DriftSettings()) == []


def test_a_shift_is_told_with_its_index_and_asks_for_a_retraining() -> None:
    random = np.random.default_rng(0)
    reference = FeatureReference.learn(random.normal(size=20_000))
    alerts = drift_alerts({"x": reference}, {"x": random.normal(1.5, size=1000)}, DriftSettings())
    assert [(alert.code, alert.subject, alert.retrain) for alert in alerts] == [
        (AlertCode.FEATURE_DRIFT, "x", True)
    ]
    assert alerts[0].severity is Severity.CRITICAL
    assert alerts[0].numbers["stability_index"] > 1.0


def test_values_that_went_missing_are_drift() -> None:
    random = np.random.default_rng(0)
    reference = FeatureReference.learn(random.normal(size=5000))
    recent = np.where(random.random(1000) < 0.5, np.nan, random.normal(size=1000))
    assert drift_alerts({"x": reference}, {"x": recent}, DriftSettings())


def test_few_jobs_say_nothing() -> None:
    reference = FeatureReference.learn(np.arange(100.0))
    assert drift_alerts({"x": reference}, {"x": np.full(10, 1e9)}, DriftSettings()) == []


def test_a_constant_and_an_empty_feature_have_references() -> None:
    assert FeatureReference.learn(np.full(10, 3.0)).stability_index(np.full(500, 3.0)) == pytest.approx(0)
    assert FeatureReference.learn(np.empty(0)).stability_index(np.full(500, np.nan)) >= 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.lists(st.floats(-1e6, 1e6), max_size=50))
def test_the_index_is_never_negative_and_survives_json(first: list[float], second: list[float]) -> None:
    reference = FeatureReference.learn(np.array(first))
    again = FeatureReference.from_json(reference.to_json())
    index = reference.stability_index(np.array(second))
    assert index >= -1e-12
    assert again.stability_index(np.array(second)) == index


def test_a_reference_that_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ArgumentError, match="needs 3 shares, got 1"):
        FeatureReference.from_json({"edges": [1.0], "shares": [1.0]})

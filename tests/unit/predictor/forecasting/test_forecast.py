"""The forecast value object: monotone, capped, and consistent between its verbs."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.forecast import LEVELS, DurationForecasts, level_weights
from predictor.errors import ArgumentError

FloatArray = npt.NDArray[np.float64]


@st.composite
def forecasts(draw: st.DrawFn) -> DurationForecasts:
    """Draw arbitrary, even crossing, quantiles with or without a limit."""
    rows = draw(st.integers(1, 4))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    raw = np.exp(rng.normal(6, draw(st.floats(0.0, 4.0)), size=(rows, len(LEVELS))))
    limit = np.where(rng.random(rows) < 0.5, np.inf, np.exp(rng.normal(6, 2, size=rows)))
    return DurationForecasts.build(raw, limit)


@given(made=forecasts())
@settings(max_examples=80, deadline=None)
def test_quantiles_are_monotone_and_never_above_the_limit(made: DurationForecasts) -> None:
    assert np.all(np.diff(made.quantiles_s, axis=1) >= 0)
    for level in (0.001, 0.05, 0.37, 0.5, 0.9, 0.95, 0.999):
        assert np.all(made.quantile_s(level) <= np.maximum(made.limit_s, 1.0) * (1 + 1e-12))
    assert np.all(made.mean_s() <= made.quantiles_s[:, -1] + 1e-9)


@given(made=forecasts(), share=st.floats(0.0, 1.5))
@settings(max_examples=80, deadline=None)
def test_survival_falls_from_one_and_is_nothing_at_the_limit(made: DurationForecasts, share: float) -> None:
    age = made.quantile_s(0.5) * share
    assert np.all(made.survival(age) >= made.survival(age * 1.5 + 1.0) - 1e-12)
    assert np.all(made.survival(np.zeros(len(made))) == 1.0)
    bounded = np.isfinite(made.limit_s)
    assert np.all(made.survival(np.where(bounded, made.limit_s, 1.0))[bounded] == 0.0)


@given(made=forecasts(), share=st.floats(0.0, 3.0))
@settings(max_examples=80, deadline=None)
def test_remaining_time_is_monotone_and_fits_under_the_limit(made: DurationForecasts, share: float) -> None:
    elapsed = np.minimum(made.quantile_s(0.5) * share, made.limit_s)
    left = made.remaining(elapsed)
    assert np.all(np.diff(left.quantiles_s, axis=1) >= 0)
    assert np.all(left.quantiles_s[:, -1] <= np.maximum(made.limit_s - elapsed, 1.0) + 1e-6)


def test_remaining_time_at_age_zero_is_the_forecast_itself() -> None:
    made = DurationForecasts.build(
        np.sort(np.exp(np.random.default_rng(0).normal(7, 1, (5, len(LEVELS)))), axis=1), np.full(5, np.inf)
    )
    np.testing.assert_allclose(made.remaining(np.zeros(5)).quantiles_s, made.quantiles_s)


def test_remaining_time_of_an_exponential_forgets_its_age() -> None:
    """The exponential distribution is memoryless: known truth for survival given elapsed."""
    levels = np.array(LEVELS)
    made = DurationForecasts.build(-1e5 * np.log1p(-levels)[None, :], np.array([np.inf]))
    left = made.remaining(np.array([5e4]))
    for level in (0.25, 0.5, 0.75, 0.9):
        assert left.quantile_s(level)[0] == pytest.approx(-1e5 * np.log1p(-level), rel=0.06)


def test_probabilities_outside_of_zero_and_one_are_refused() -> None:
    made = DurationForecasts.build(np.full((1, len(LEVELS)), 60.0), np.array([np.inf]))
    with pytest.raises(ArgumentError, match=r"quantile=1\.2 is not a probability"):
        made.quantile_s(1.2)
    with pytest.raises(ArgumentError, match="elapsed_s"):
        made.remaining(np.array([-1.0]))


def test_level_weights_sum_to_one() -> None:
    assert level_weights(np.array(LEVELS)).sum() == pytest.approx(1.0)

"""This module checks what the same job at other batches tells."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.forecasting.memory.signature_history import SignatureHistory


def history_of(*runs: tuple[float, float]) -> SignatureHistory:
    """Return a history of one signature."""
    history = SignatureHistory()
    for batch, peak in runs:
        history.add("job", batch, peak, is_oom=False)
    return history


def test_memory_that_is_affine_in_the_batch_is_forecast_exactly() -> None:
    history = history_of((8, 1000 + 8 * 50), (32, 1000 + 32 * 50))
    for batch in (1, 16, 32, 200):
        assert history.forecast_mib("job", batch) == pytest.approx(1000 + batch * 50)


def test_an_out_of_memory_is_a_lower_bound_for_this_batch_and_larger_ones_only() -> None:
    history = history_of((8, 1400))
    history.add("job", 64, 40_000, is_oom=True)
    assert history.support("job") == 1
    assert history.at_least_mib("job", 32) == 0.0
    assert history.at_least_mib("job", 64) == history.at_least_mib("job", 128) == 48_000.0


def test_nothing_is_forecast_without_an_observed_peak() -> None:
    history = SignatureHistory()
    history.add("job", 8, 40_000, is_oom=True)
    assert history.forecast_mib("job", 8) is None
    assert history.forecast_mib("other", 8) is None
    assert history.forecast_mib(None, None) is None


def test_errors_of_kept_out_runs_are_zero_where_memory_is_affine() -> None:
    errors, names = history_of((8, 1400), (16, 1800), (32, 2600)).kept_out_errors()
    assert names == ["job"] * 3
    assert max(abs(errors)) < 1e-12


@given(
    st.lists(st.tuples(st.floats(1, 4096), st.floats(1, 1e6)), min_size=1, max_size=8),
    st.lists(st.floats(0.5, 1e5), min_size=2, max_size=6),
)
def test_a_history_never_falls_with_the_batch(runs: list[tuple[float, float]], batches: list[float]) -> None:
    history = history_of(*runs)
    values = [history.forecast_mib("job", batch) for batch in sorted(batches)]
    found = [value for value in values if value is not None]
    assert len(found) == len(values)
    assert all(math.isfinite(value) and value > 0 for value in found)
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(found))

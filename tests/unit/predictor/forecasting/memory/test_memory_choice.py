"""This module checks choices of allocations against costs that are worked out by hand."""

import numpy as np
import pytest

from predictor.errors import ArgumentError
from predictor.forecasting.memory.choice import (
    RetryCost,
    first_allocations,
    newsvendor_quantile,
    penalty_for_risk,
    retry_ladder,
)


def test_the_newsvendor_quantile_is_the_share_of_the_cost_of_a_retry() -> None:
    assert newsvendor_quantile(3.0, 1.0) == 0.75
    with pytest.raises(ArgumentError, match="above 0"):
        newsvendor_quantile(0.0, 0.0)


def test_a_certain_job_gets_what_it_needs_and_a_hopeless_one_the_card() -> None:
    cost = RetryCost(capacity_mib=40_000.0)
    certain, hopeless = first_allocations(np.array([1000.0, 200_000.0]), np.ones(2), np.zeros(10), cost)
    assert certain == pytest.approx(1000.0, rel=0.04)
    assert hopeless == 40_000.0


def test_a_penalty_lowers_the_share_of_runs_that_die_to_what_was_chosen() -> None:
    random = np.random.default_rng(1)
    scores = np.sort(random.normal(0.0, 0.3, 800))
    p50 = np.exp(random.uniform(7, 9.5, 800))
    peak = np.minimum(p50 * np.exp(random.permutation(scores)), 40_000.0)
    cost, unit = RetryCost(capacity_mib=40_000.0), np.ones(800)
    penalty = penalty_for_risk(p50, unit, peak, scores, cost, 0.03)
    given = first_allocations(p50, unit, scores, RetryCost(capacity_mib=40_000.0, penalty_mib=penalty))
    free = first_allocations(p50, unit, scores, cost)
    assert np.mean(given < peak) < 0.045
    assert np.mean(given < peak) < np.mean(free < peak)


def test_the_ladder_starts_where_the_job_fits_and_leaves_out_what_was_too_small() -> None:
    slices = [5120.0, 10_240.0, 20_480.0, 40_960.0]
    assert retry_ladder(slices, 6000.0) == (10_240.0, 20_480.0, 40_960.0)
    assert retry_ladder(slices, 6000.0, died_at_mib=10_240.0) == (20_480.0, 40_960.0)
    assert retry_ladder(slices, 99_999.0) == (40_960.0,)
    with pytest.raises(ArgumentError, match="no sizes"):
        retry_ladder([], 1.0)

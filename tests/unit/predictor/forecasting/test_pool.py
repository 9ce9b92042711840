"""The pool of experts: a mixture of distribution functions."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from predictor.contracts.forecast import LEVELS
from predictor.forecasting.expert_weights import ExpertWeights, WeightSettings, expert_losses
from predictor.forecasting.pool import pool_cdf, pooled_quantiles
from predictor.forecasting.recent_runs import recent_quantiles

FloatArray = npt.NDArray[np.float64]
NORMAL = norm.ppf(np.array(LEVELS))


def test_a_pool_of_one_expert_is_that_expert() -> None:
    experts = (6.0 + NORMAL)[None, None, :]
    levels = np.array([[0.1, 0.5, 0.9]])
    np.testing.assert_allclose(
        pooled_quantiles(experts, np.ones((1, 1)), levels)[0], 6.0 + norm.ppf([0.1, 0.5, 0.9]), atol=0.05
    )


def test_a_pool_of_two_normals_matches_the_mixture() -> None:
    experts = np.stack([4.0 + 0.5 * NORMAL, 8.0 + NORMAL])[None]
    weights = np.array([[0.3, 0.7]])
    at = np.array([4.0])
    below, upto = pool_cdf(experts, weights, at)
    truth = 0.3 * norm.cdf(4.0, 4.0, 0.5) + 0.7 * norm.cdf(4.0, 8.0, 1.0)
    assert below[0] == pytest.approx(truth, abs=0.01)
    assert upto[0] == pytest.approx(truth, abs=0.01)
    low = pooled_quantiles(experts, weights, np.array([[0.2, 0.5]]))[0]
    assert 0.3 * norm.cdf(low[0], 4, 0.5) + 0.7 * norm.cdf(low[0], 8, 1) == pytest.approx(0.2, abs=0.04)
    assert 0.3 * norm.cdf(low[1], 4, 0.5) + 0.7 * norm.cdf(low[1], 8, 1) == pytest.approx(0.5, abs=0.04)


def test_an_atom_has_probability_below_and_upto() -> None:
    experts = np.full((1, 1, len(LEVELS)), 5.0)
    below, upto = pool_cdf(experts, np.ones((1, 1)), np.array([5.0]))
    assert below[0] == pytest.approx(LEVELS[0])  # all but the tails outside of the levels
    assert upto[0] == pytest.approx(LEVELS[-1])


def test_quantiles_invert_the_distribution_function_of_the_pool() -> None:
    rng = np.random.default_rng(3)
    experts = np.sort(rng.normal(6, 2, (100, 3, len(LEVELS))), axis=2)
    experts[::3, 2] = 7.0  # an expert that names one duration
    weights = rng.dirichlet([1.0, 1.0, 1.0], 100)
    levels = np.broadcast_to(np.array([0.001, 0.03, 0.2, 0.5, 0.8, 0.97, 0.999]), (100, 7)).copy()
    quantiles = pooled_quantiles(experts, weights, levels)
    for column in range(7):
        below, upto = pool_cdf(experts, weights, quantiles[:, column])
        assert np.all(below <= levels[:, column] + 1e-2)
        assert np.all(upto >= levels[:, column] - 1e-2)


def test_pooled_quantiles_are_monotone_for_any_weights() -> None:
    rng = np.random.default_rng(0)
    experts = np.sort(rng.normal(5, 2, (200, 3, len(LEVELS))), axis=2)
    weights = rng.dirichlet([0.3, 0.3, 0.3], 200)
    levels = np.broadcast_to(np.array(LEVELS), (200, len(LEVELS))).copy()
    quantiles = pooled_quantiles(experts, weights, levels)
    assert np.all(np.diff(quantiles, axis=1) >= -1e-12)
    inner = quantiles[:, 1:-1]
    assert np.all(inner >= experts.min(axis=(1, 2))[:, None] - 1e-6)
    assert np.all(inner <= experts.max(axis=(1, 2))[:, None] + 1e-6)


def test_crps_of_a_normal_matches_the_closed_form() -> None:
    experts = np.repeat(NORMAL[None, None, :], 3, axis=0)
    value = np.array([0.0, 1.0, -2.0])
    truth = value * (2 * norm.cdf(value) - 1) + 2 * norm.pdf(value) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(expert_losses(experts, value)[:, 0], truth, atol=0.03)


def test_weights_move_to_the_expert_that_is_right_for_this_submitter() -> None:
    weights = ExpertWeights(prior=np.full((4, 2), 0.5), settings=WeightSettings())
    ann = np.array(["ann"], dtype=object)
    for hour in range(40):
        weights.learn(np.array([[0.1, 1.0]]), np.array([20]), ann, np.array([hour * 7200.0]))
    own = weights.weights(np.array([20]), ann)[0]
    other = weights.weights(np.array([20]), np.array(["bob"], dtype=object))[0]
    assert own[0] > 0.9
    assert own[0] > other[0] > 0.5
    assert own.sum() == pytest.approx(1.0)


def test_the_last_runs_are_read_as_an_empirical_distribution() -> None:
    recent = np.full((2, 10), np.nan, dtype=np.float32)
    recent[0, :3] = [3.0, 1.0, 2.0]
    site = np.arange(len(LEVELS), dtype=np.float64)
    out = recent_quantiles(recent, site)
    assert out[0, LEVELS.index(0.5)] == 2.0
    assert out[0, 0] == pytest.approx(1.02)
    np.testing.assert_array_equal(out[1], site)

"""What is compiled for single jobs says the same as the definitions it stands for."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.contracts.request import JobRequest
from predictor.features.keys import KeyNumbers
from predictor.features.request import RequestColumns, columns_of_requests
from predictor.forecasting.duration import EXPERTS, PRIOR_WEIGHTS, DurationSettings, OnlineState, RawForecasts
from predictor.forecasting.expert_weights import ExpertWeights, expert_losses, support_class
from predictor.forecasting.pool import pooled_quantiles, weighted_mean

FloatArray = npt.NDArray[np.float64]
LEVELS_OF_ALL = np.array(LEVELS)


def names(*values: str | None) -> npt.NDArray[np.object_]:
    """Return submitters."""
    return np.array(values, dtype=object)


def experts_of(rng: np.random.Generator, rows: int) -> FloatArray:
    """Return log quantiles of all experts, ascending."""
    return np.sort(rng.normal(7.0, 2.0, (rows, len(EXPERTS), len(LEVELS))), axis=2)


def test_weights_are_the_softmax_of_prior_and_losses_above_a_floor() -> None:
    rng = np.random.default_rng(0)
    weights = ExpertWeights(prior=PRIOR_WEIGHTS.copy())
    rows = 40
    support = rng.integers(0, 20, rows)
    who = names(*(f"user {row % 3}" for row in range(rows)))
    losses = expert_losses(experts_of(rng, rows), rng.normal(7.0, 2.0, rows))
    weights.learn(losses, support, who, np.arange(rows, dtype=np.float64) * 60.0)
    asked = names("user 0", "stranger", None, "user 2")
    of_whom = np.array([0, 1, 3, 10])
    settings = weights.settings
    score = np.log(PRIOR_WEIGHTS)[support_class(of_whom)]
    score -= settings.rate * np.stack([each.loss for each in weights.overall])[support_class(of_whom)]
    for row in (0, 3):
        score[row] -= settings.submitter_rate * weights.submitters[asked[row]].loss
    shares = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    expected = settings.floor + (1.0 - settings.floor * len(EXPERTS)) * shares
    np.testing.assert_allclose(weights.weights(of_whom, asked), expected, rtol=1e-12)
    np.testing.assert_allclose(weights.weights(of_whom, asked).sum(axis=1), 1.0, rtol=1e-12)


@settings(deadline=None)  # the first example compiles
@given(seed=st.integers(0, 1000), limit_s=st.sampled_from([0.5, 60.0, 1e4, np.inf]))
def test_a_forecast_is_the_pool_in_seconds_ascending_and_capped(seed: int, limit_s: float) -> None:
    rng = np.random.default_rng(seed)
    experts = experts_of(rng, 3)
    weights = rng.dirichlet(np.ones(len(EXPERTS)), 3)
    limits = np.array([limit_s, np.inf, 3600.0])
    raw = RawForecasts(
        experts=experts, weights=weights, support=np.zeros(3, dtype=np.int64),
        median_log_s=weighted_mean(experts, weights, LEVELS.index(0.5)), identity=names("a", "b", None),
        limit_s=limits, submitted_s=np.zeros(3),
    )  # fmt: skip
    found = OnlineState.new(DurationSettings()).forecast(raw)
    logs = pooled_quantiles(experts, weights, np.tile(LEVELS_OF_ALL, (3, 1)))
    expected = DurationForecasts.build(np.exp(logs), limits)
    np.testing.assert_allclose(found.quantiles_s, expected.quantiles_s, rtol=1e-12)
    np.testing.assert_allclose(found.mean_s(), expected.mean_s(), rtol=1e-12)
    np.testing.assert_allclose(
        raw.median_log_s, (experts[:, :, LEVELS.index(0.5)] * weights).sum(axis=1), rtol=1e-12
    )


@pytest.mark.parametrize("gpus", [None, 0.0, 4.0, float("nan")])
def test_keys_of_single_jobs_are_those_of_columns(gpus: float | None) -> None:
    jobs = [
        JobRequest(submitted_s=1e9, user="ada", queue="gpu", requested_gpus=gpus, job_name="train_1"),
        JobRequest(submitted_s=1e9, account="lab", walltime_s=3600.0, requested_cpus=2.0),
    ]
    single = columns_of_requests(jobs)
    columns = RequestColumns(texts=single.texts, numbers=single.numbers)
    assert single.rows is not None
    numbers = KeyNumbers()
    known = numbers.number(columns)
    np.testing.assert_array_equal(numbers.find(single), numbers.find(columns))
    np.testing.assert_array_equal(numbers.find(single), known)

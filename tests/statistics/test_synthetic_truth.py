"""This module tests that latent durations follow the distributions that the generator states."""

import numpy as np
import pytest
from scipy import stats

from predictor.contracts.job import JobState
from predictor.data.synthetic import SyntheticLog, WorkloadSpec, generate

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
ALPHA = 1e-3  # at a fixed seed; a wrong distribution misses by far more


@pytest.fixture(scope="module", params=[0, 1, 2])
def log(request: pytest.FixtureRequest) -> SyntheticLog:
    return generate(WorkloadSpec(jobs=20_000, days=60.0, random_state=request.param))


def test_the_share_below_each_true_quantile_lies_in_its_binomial_band(log: SyntheticLog) -> None:
    below = (log.truth.duration_s[:, None] <= log.truth.true_quantile_s(LEVELS)).sum(axis=0)
    for count, level in zip(below, LEVELS, strict=True):
        assert stats.binomtest(int(count), len(log.truth), level).pvalue > ALPHA, level


def test_the_share_below_the_true_q90_lies_in_its_band_for_every_common_template(log: SyntheticLog) -> None:
    below = log.truth.duration_s <= log.truth.true_quantile_s([0.9])[:, 0]
    templates, counts = np.unique(log.truth.template, return_counts=True)
    common = templates[counts >= 100]
    assert len(common) > 20
    for template in common:
        rows = log.truth.template == template
        assert stats.binomtest(int(below[rows].sum()), int(rows.sum()), 0.9).pvalue > ALPHA / len(common)


def test_the_probability_integral_transform_is_uniform(log: SyntheticLog) -> None:
    assert stats.kstest(log.truth.cdf(log.truth.duration_s), "uniform").pvalue > ALPHA


def test_the_uncensored_log_shows_the_true_quantiles(log: SyntheticLog) -> None:
    seen = generate(WorkloadSpec(jobs=20_000, censoring=False, random_state=log.spec.random_state))
    elapsed_s = seen.frame["elapsed_s"].to_numpy(dtype=np.float64)
    quantiles_s = np.ceil(seen.truth.true_quantile_s([0.5, 0.9]))
    for place, level in enumerate((0.5, 0.9)):
        count = int((elapsed_s <= quantiles_s[:, place]).sum())
        assert abs(count / len(elapsed_s) - level) < 0.012  # recorded seconds are rounded up


def test_taking_a_censored_age_for_a_duration_is_biased(log: SyntheticLog) -> None:
    """The log poses the problem it is made for: censored ages lie far below the durations."""
    ran = log.frame["started_at"].notna().to_numpy()
    elapsed_s = log.frame["elapsed_s"].to_numpy(dtype=np.float64)[ran]
    below = elapsed_s <= log.truth.true_quantile_s([0.9])[ran, 0]
    assert stats.binomtest(int(below.sum()), len(below), 0.9).pvalue < 1e-6


def test_node_failures_are_as_many_as_the_hazard_says(log: SyntheticLog) -> None:
    """Events of a constant hazard are Poisson with the exposure, whatever else ends the attempts."""
    frame = log.frame[log.frame["started_at"].notna()]
    node_hours = float((frame["elapsed_s"] * frame["allocated_nodes"]).sum()) / 3600.0
    failures = int((frame["state"] == JobState.NODE_FAIL).sum())
    mean = node_hours * log.spec.node_failure_hazard_per_node_h
    assert stats.poisson.cdf(failures, mean) > ALPHA / 2
    assert stats.poisson.sf(failures - 1, mean) > ALPHA / 2


def test_all_independent_censoring_is_as_frequent_as_its_hazard_says(log: SyntheticLog) -> None:
    ran = log.frame["started_at"].notna().to_numpy()
    clocks = [JobState.CANCELLED, JobState.PREEMPTED, JobState.NODE_FAIL]
    events = int((log.frame["state"].isin(clocks).to_numpy() & ran).sum())
    mean = float((log.truth.censoring_hazard_per_s[ran] * log.frame["elapsed_s"].to_numpy()[ran]).sum())
    assert stats.poisson.cdf(events, mean) > ALPHA / 2
    assert stats.poisson.sf(events - 1, mean) > ALPHA / 2


def test_durations_have_a_heavy_tail(log: SyntheticLog) -> None:
    """Beyond the body the survival function falls as a power, not as a lognormal."""
    truth = log.truth
    far = truth.duration_s / np.exp(truth.log_location + truth.log_scale) > 3.0
    steady = far & (truth.log_scale < 0.4)
    assert steady.sum() > 50
    excess = (
        np.log(truth.duration_s[steady]) - truth.log_location[steady] - truth.log_scale[steady] - np.log(3.0)
    )
    assert stats.kstest(excess * truth.tail_index[steady], "expon").pvalue > ALPHA


def test_drift_moves_the_locations_of_templates(log: SyntheticLog) -> None:
    early = log.frame["submitted_at"] < log.frame["submitted_at"].iloc[0] + np.timedelta64(14, "D")
    still = generate(WorkloadSpec(jobs=20_000, drift_strength=0.0, random_state=log.spec.random_state))
    base = generate(WorkloadSpec(jobs=20_000, random_state=log.spec.random_state, requeue=False))
    assert early.any()
    first = still.truth.take(np.flatnonzero(still.frame["attempt"].to_numpy() == 0))
    moved = base.truth.log_location - first.log_location
    third = len(moved) // 3
    assert np.std(moved[-third:]) > np.std(moved[:third])

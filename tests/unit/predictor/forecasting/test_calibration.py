"""Online one-sided calibration: coverage returns to what was promised, per group, also under censoring."""

import json

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from predictor.contracts.forecast import LEVELS
from predictor.forecasting.calibration import GROUPS, Calibration, CalibrationSettings, group_of
from predictor.forecasting.duration import DurationSettings, OnlineState
from predictor.forecasting.online_state import export_online, restore_online

FloatArray = npt.NDArray[np.float64]


def learn(
    calibration: Calibration, pit: FloatArray, group: int = 0, observed: npt.NDArray[np.bool_] | None = None
) -> None:
    """Feed probability integral transforms of distinct submitters, one every minute."""
    rows = len(pit)
    calibration.learn(
        pit, pit, np.ones(rows, dtype=bool) if observed is None else observed,
        np.full(rows, group), np.array([None] * rows, dtype=object), np.arange(rows) * 60.0,
    )  # fmt: skip


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.5])
def test_coverage_returns_to_what_is_promised(scale: float) -> None:
    """Durations are ``scale`` times as spread as the raw forecast says; 4 standard errors of slack."""
    rng = np.random.default_rng(1)
    calibration = Calibration()
    learn(calibration, norm.cdf(rng.normal(0, scale, 6000)))
    wanted = np.array([0.5, 0.9, 0.95])
    raw_level = calibration.levels(wanted)[0]
    fresh = rng.normal(0, scale, 20_000)
    covered = (fresh[:, None] <= norm.ppf(raw_level)[None, :]).mean(axis=0)
    np.testing.assert_allclose(covered, wanted, atol=4 * 0.5 / np.sqrt(6000) + 0.005)


def test_a_group_with_its_own_bias_gets_its_own_correction() -> None:
    rng = np.random.default_rng(2)
    calibration = Calibration()
    learn(calibration, norm.cdf(rng.normal(0, 1, 3000)), group=0)
    learn(calibration, norm.cdf(rng.normal(1.5, 1, 3000)), group=3)
    levels = calibration.levels(np.array([0.5, 0.9]))
    fresh = rng.normal(1.5, 1, 20_000)
    covered = (fresh[:, None] <= norm.ppf(levels[3])[None, :]).mean(axis=0)
    np.testing.assert_allclose(covered, [0.5, 0.9], atol=0.04)
    assert levels[3, 0] > levels[0, 0] + 0.2


def test_without_outcomes_nothing_is_changed() -> None:
    levels = Calibration().levels(np.array(LEVELS))
    np.testing.assert_allclose(levels, np.broadcast_to(np.array(LEVELS), (GROUPS, len(LEVELS))), atol=1e-9)


def test_censored_outcomes_do_not_pull_bounds_down() -> None:
    """Half of the jobs are censored at a random earlier point; ignoring that would understate the median."""
    rng = np.random.default_rng(3)
    latent, stop = rng.random(8000), rng.random(8000) * 1.6
    observed = latent <= stop
    honest, naive = Calibration(), Calibration()
    learn(honest, np.minimum(latent, stop), observed=observed)
    learn(naive, np.minimum(latent, stop))
    assert honest.levels(np.array([0.5]))[0, 0] == pytest.approx(0.5, abs=0.03)
    assert naive.levels(np.array([0.5]))[0, 0] < 0.42


def test_old_outcomes_fade() -> None:
    calibration = Calibration(settings=CalibrationSettings(half_life_s=3600.0))
    learn(calibration, np.full(500, 0.95))
    learn(calibration, np.random.default_rng(0).random(2000) * 1.0)
    calibration.learn(
        np.linspace(0, 1, 400), np.linspace(0, 1, 400), np.ones(400, dtype=bool), np.zeros(400, dtype=np.intp),
        np.array([None] * 400, dtype=object), np.full(400, 5e6),
    )  # fmt: skip
    assert calibration.levels(np.array([0.5]))[0, 0] == pytest.approx(0.5, abs=0.05)


def test_a_burst_of_one_submitter_counts_less_than_as_many_submitters() -> None:
    burst, crowd = Calibration(), Calibration()
    pit = np.full(400, 0.97)
    at = np.zeros(400)
    group = np.zeros(400, dtype=np.intp)
    burst.learn(pit, pit, np.ones(400, dtype=bool), group, np.array(["ann"] * 400, dtype=object), at)
    crowd.learn(pit, pit, np.ones(400, dtype=bool), group, np.array([str(n) for n in range(400)], dtype=object), at)
    assert burst.levels(np.array([0.5]))[0, 0] < crowd.levels(np.array([0.5]))[0, 0]


def test_groups_tell_gpu_jobs_and_known_templates_apart() -> None:
    groups = group_of(np.array([0.0, 2.0, np.nan, 8.0]), np.array([0, 0, 20, 5]))
    assert len(set(groups.tolist())) == 4
    assert groups.max() < GROUPS


def test_the_online_state_survives_json() -> None:
    state = OnlineState.new(DurationSettings())
    learn(state.calibration, np.linspace(0.1, 0.9, 50))
    state.weights.learn(np.ones((3, 3)), np.array([0, 5, 50]), np.array(["a", None, "b"], dtype=object), np.arange(3.0))
    again = restore_online(json.loads(json.dumps(export_online(state))), DurationSettings())
    assert export_online(again) == export_online(state)
    np.testing.assert_array_equal(
        again.calibration.levels(np.array(LEVELS)), state.calibration.levels(np.array(LEVELS))
    )

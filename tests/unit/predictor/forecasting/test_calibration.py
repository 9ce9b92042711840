"""Online one-sided calibration: coverage returns to what was promised, per group, also under censoring."""

import json

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from predictor.contracts.forecast import LEVELS
from predictor.forecasting.calibration import (
    KINDS,
    LENGTHS,
    Calibration,
    CalibrationSettings,
    Groups,
    groups_of,
)
from predictor.forecasting.duration import EXPERTS, DurationSettings, OnlineState
from predictor.forecasting.online_state import export_online, restore_online

FloatArray = npt.NDArray[np.float64]


def full() -> Calibration:
    """Return a calibration that corrects the middle in full, so that all levels can be judged."""
    return Calibration(settings=CalibrationSettings(middle_share=1.0))


def learn(
    calibration: Calibration,
    pit: FloatArray,
    kind: int = 0,
    observed: npt.NDArray[np.bool_] | None = None,
    who: list[str | None] | None = None,
    at_s: FloatArray | None = None,
) -> None:
    """Feed probability integral transforms, by default of distinct submitters, one every minute."""
    rows = len(pit)
    identity = np.empty(rows, dtype=object)
    identity[:] = who if who is not None else [None] * rows
    calibration.learn(
        pit,
        pit,
        np.ones(rows, dtype=bool) if observed is None else observed,
        groups(kind, rows),
        identity,
        np.arange(rows, dtype=np.float64) * 60.0 if at_s is None else at_s,
    )


def groups(kind: int, rows: int = 1) -> Groups:
    """Return the groups of jobs of one kind and of middling length."""
    return Groups(kind=np.full(rows, kind), length=np.full(rows, 3))


def raw_levels(calibration: Calibration, wanted: list[float], kind: int = 0) -> FloatArray:
    """Return the raw levels to read for the wanted probabilities."""
    levels: FloatArray = calibration.level_map(np.array(wanted)).read(groups(kind))[0]
    return levels


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.5])
def test_coverage_returns_to_what_is_promised(scale: float) -> None:
    """Durations are ``scale`` times as spread as the raw forecast says; 4 standard errors of slack."""
    rng = np.random.default_rng(1)
    calibration = full()
    learn(calibration, norm.cdf(rng.normal(0, scale, 6000)))
    wanted = [0.5, 0.9, 0.95]
    raw_level = raw_levels(calibration, wanted)
    fresh = rng.normal(0, scale, 20_000)
    covered = (fresh[:, None] <= norm.ppf(raw_level)[None, :]).mean(axis=0)
    np.testing.assert_allclose(covered, wanted, atol=4 * 0.5 / np.sqrt(6000) + 0.005)


def test_a_group_with_its_own_bias_gets_its_own_correction() -> None:
    rng = np.random.default_rng(2)
    calibration = full()
    learn(calibration, norm.cdf(rng.normal(0, 1, 3000)), kind=0)
    learn(calibration, norm.cdf(rng.normal(1.5, 1, 3000)), kind=3)
    own, other = raw_levels(calibration, [0.5, 0.9], 3), raw_levels(calibration, [0.5, 0.9], 0)
    fresh = rng.normal(1.5, 1, 20_000)
    covered = (fresh[:, None] <= norm.ppf(own)[None, :]).mean(axis=0)
    np.testing.assert_allclose(covered, [0.5, 0.9], atol=0.04)
    assert own[0] > other[0] + 0.1


def test_without_outcomes_nothing_is_changed() -> None:
    for kind in range(KINDS):
        np.testing.assert_allclose(raw_levels(full(), list(LEVELS), kind), np.array(LEVELS), atol=1e-9)


def test_censored_outcomes_do_not_pull_bounds_down() -> None:
    """Half of the jobs are censored at a random earlier point; ignoring that would understate the median."""
    rng = np.random.default_rng(3)
    latent, stop = rng.random(8000), rng.random(8000) * 1.6
    observed = latent <= stop
    honest, naive = full(), full()
    learn(honest, np.minimum(latent, stop), observed=observed)
    learn(naive, np.minimum(latent, stop))
    assert raw_levels(honest, [0.5])[0] == pytest.approx(0.5, abs=0.03)
    assert raw_levels(naive, [0.5])[0] < 0.42


def test_the_middle_is_corrected_by_the_share_that_is_set() -> None:
    half, whole = Calibration(settings=CalibrationSettings(middle_share=0.5)), full()
    pit = np.random.default_rng(5).random(4000) * 0.5
    learn(half, pit)
    learn(whole, pit)
    assert raw_levels(whole, [0.5])[0] < raw_levels(half, [0.5])[0] < 0.5
    assert raw_levels(half, [0.9])[0] == raw_levels(whole, [0.9])[0]


def test_old_outcomes_fade() -> None:
    calibration = Calibration(settings=CalibrationSettings(half_life_s=3600.0, middle_share=1.0))
    learn(calibration, np.full(500, 0.95))
    learn(calibration, np.linspace(0, 1, 400), at_s=np.full(400, 5e6))
    assert raw_levels(calibration, [0.5])[0] == pytest.approx(0.5, abs=0.05)


def test_a_burst_of_one_submitter_moves_the_middle_less_than_as_many_submitters() -> None:
    burst, crowd = full(), full()
    pit, at_s = np.full(400, 0.97), np.zeros(400)
    learn(burst, pit, who=["ann"] * 400, at_s=at_s)
    learn(crowd, pit, who=[str(number) for number in range(400)], at_s=at_s)
    assert raw_levels(burst, [0.2])[0] < raw_levels(crowd, [0.2])[0]
    assert raw_levels(crowd, [0.9])[0] - raw_levels(burst, [0.9])[0] < 0.05  # bounds discount less


def test_bounds_cover_their_share_although_the_forecast_has_an_atom() -> None:
    """A third of the jobs end exactly where the forecast puts an atom of 60 %: reading the raw level 0.9
    would still name the atom, and cover too many."""
    calibration = full()
    rng = np.random.default_rng(4)
    above = rng.random(6000) < 0.2
    below = np.where(above, 0.9 + 0.1 * rng.random(6000), 0.3)
    identity = np.empty(6000, dtype=object)
    calibration.learn(
        below,
        np.where(above, below, 0.9),
        np.ones(6000, dtype=bool),
        groups(0, 6000),
        identity,
        np.arange(6000.0),
    )
    level = raw_levels(calibration, [0.9])[0]
    assert (below <= level).mean() == pytest.approx(0.9, abs=0.01)


def test_groups_tell_gpu_jobs_known_templates_and_lengths_apart() -> None:
    made = groups_of(
        np.array([0.0, 2.0, np.nan, 8.0]), np.array([0, 0, 20, 5]), np.log([10.0, 100.0, 1e4, 1e6])
    )
    assert len(set(made.kind.tolist())) == 4
    assert made.kind.max() < KINDS
    assert len(set(made.length.tolist())) == 4
    assert made.length.max() < LENGTHS


def test_the_online_state_survives_json() -> None:
    state = OnlineState.new(DurationSettings())
    learn(state.calibration, np.linspace(0.1, 0.9, 50))
    state.weights.learn(
        np.ones((3, len(EXPERTS))),
        np.array([0, 5, 50]),
        np.array(["a", None, "b"], dtype=object),
        np.arange(3.0),
    )
    again = restore_online(json.loads(json.dumps(export_online(state))), DurationSettings())
    assert export_online(again) == export_online(state)
    np.testing.assert_array_equal(
        raw_levels(again.calibration, list(LEVELS)), raw_levels(state.calibration, list(LEVELS))
    )

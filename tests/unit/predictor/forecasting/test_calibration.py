"""Online one-sided calibration: coverage returns to what was promised, by length and submitter, also while
jobs still run."""

import json

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from predictor.contracts.forecast import LEVELS
from predictor.forecasting.calibration import REFRESH_S, Calibration, CalibrationSettings
from predictor.forecasting.duration import EXPERTS, DurationSettings, OnlineState
from predictor.forecasting.online_state import export_online, restore_online
from predictor.forecasting.pit_evidence import PitReadings
from predictor.forecasting.pit_levels import PIT_BINS, UNIFORM, effective_count, shrunk_cdf

FloatArray = npt.NDArray[np.float64]
LENGTH_LOG_S = 8.0
LATER_S = 1e6


def full(**changes: float) -> Calibration:
    """Return a calibration that corrects the middle in full, so that all levels can be judged."""
    return Calibration(settings=CalibrationSettings(**{"middle_share": 1.0, "half_life_s": 1e9, **changes}))


def readings(
    pit: FloatArray,
    *,
    upto: FloatArray | None = None,
    length_log_s: float = LENGTH_LOG_S,
    observed: npt.NDArray[np.bool_] | None = None,
    who: list[str | None] | None = None,
    start_s: FloatArray | None = None,
) -> PitReadings:
    """Return probability integral transforms, by default of distinct submitters, one every minute."""
    rows = len(pit)
    identity = np.empty(rows, dtype=object)
    identity[:] = [f"user {row}" for row in range(rows)] if who is None else who
    start = np.arange(rows, dtype=np.float64) * 60.0 if start_s is None else start_s
    return PitReadings(
        below=pit,
        upto=pit if upto is None else upto,
        observed=np.ones(rows, dtype=bool) if observed is None else observed,
        length_log_s=np.full(rows, length_log_s),
        identity=identity,
        submitted_s=start,
        start_s=start,
    )


def raw_levels(
    calibration: Calibration,
    wanted: list[float],
    *,
    length_log_s: float = LENGTH_LOG_S,
    who: str | None = None,
) -> FloatArray:
    """Return the raw levels to read for some of LEVELS."""
    identity = np.array([who], dtype=object)
    levels = calibration.raw_levels(np.array([length_log_s]), identity)[0]
    return np.array([levels[LEVELS.index(level)] for level in wanted])


def learned(calibration: Calibration, *parts: PitReadings) -> Calibration:
    """Learn all parts and refresh."""
    for part in parts:
        calibration.learn(part)
        calibration.refresh(LATER_S)
    return calibration


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.5])
def test_coverage_returns_to_what_is_promised(scale: float) -> None:
    """Durations are ``scale`` times as spread as the raw forecast says; 4 standard errors of slack."""
    rng = np.random.default_rng(1)
    calibration = learned(full(), readings(norm.cdf(rng.normal(0, scale, 6000))))
    wanted = [0.5, 0.9, 0.95]
    fresh = rng.normal(0, scale, 20_000)
    covered = (fresh[:, None] <= norm.ppf(raw_levels(calibration, wanted))[None, :]).mean(axis=0)
    np.testing.assert_allclose(covered, wanted, atol=4 * 0.5 / np.sqrt(6000) + 0.005)


def test_forecasts_of_another_length_get_their_own_correction() -> None:
    rng = np.random.default_rng(2)
    calibration = learned(
        full(),
        readings(norm.cdf(rng.normal(0, 1, 3000)), length_log_s=3.0),
        readings(norm.cdf(rng.normal(1.5, 1, 3000)), length_log_s=11.0),
    )
    longer = raw_levels(calibration, [0.5, 0.9], length_log_s=11.0)
    covered = (rng.normal(1.5, 1, 20_000)[:, None] <= norm.ppf(longer)[None, :]).mean(axis=0)
    np.testing.assert_allclose(covered, [0.5, 0.9], atol=0.03)
    assert longer[0] > raw_levels(calibration, [0.5], length_log_s=3.0)[0] + 0.1


def test_a_submitter_whose_jobs_run_past_their_bounds_gets_wider_ones() -> None:
    rng = np.random.default_rng(3)
    start_s = np.arange(400, dtype=np.float64) * 3600.0
    calibration = learned(
        full(),
        readings(rng.random(4000)),
        readings(0.6 + 0.4 * rng.random(400), who=["late"] * 400, start_s=start_s),
    )
    late, others = raw_levels(calibration, [0.9], who="late"), raw_levels(calibration, [0.9], who="stranger")
    assert late[0] == pytest.approx(0.96, abs=0.015)  # 0.6 + 0.4 * 0.9
    assert others[0] == pytest.approx(0.9, abs=0.02)


def test_without_outcomes_nothing_is_changed() -> None:
    calibration = full()
    calibration.refresh(LATER_S)
    np.testing.assert_allclose(raw_levels(calibration, list(LEVELS)), np.array(LEVELS), atol=1e-9)


def test_censored_outcomes_do_not_pull_bounds_down() -> None:
    """Half of the jobs are censored at a random earlier point; ignoring that would understate the median."""
    rng = np.random.default_rng(3)
    latent, stop = rng.random(8000), rng.random(8000) * 1.6
    seen = np.minimum(latent, stop)
    honest = learned(full(), readings(seen, observed=latent <= stop))
    naive = learned(full(), readings(seen))
    assert raw_levels(honest, [0.5])[0] == pytest.approx(0.5, abs=0.03)
    assert raw_levels(naive, [0.5])[0] < 0.42


def test_jobs_that_still_run_keep_bounds_up_although_short_ones_reported_first() -> None:
    """Forecasts are right; ten hours after a start together only jobs below the PIT 0.7 have ended."""
    rng = np.random.default_rng(6)
    pit = rng.random(3000)
    ended = pit < 0.7
    start_s: FloatArray = np.full(3000, LATER_S - 36_000.0, dtype=np.float64)
    names = [f"user {row}" for row in range(3000)]
    done = readings(pit[ended], who=[names[row] for row in np.flatnonzero(ended)], start_s=start_s[ended])
    left = int((~ended).sum())
    still = readings(
        np.full(left, 0.7), observed=np.zeros(left, dtype=bool),
        who=[names[row] for row in np.flatnonzero(~ended)], start_s=start_s[~ended],
    )  # fmt: skip
    alone, with_running = full(), full()
    alone.learn(done)
    alone.refresh(LATER_S)
    with_running.learn(done)
    with_running.refresh(LATER_S, still)
    assert raw_levels(alone, [0.6])[0] < 0.45
    assert raw_levels(with_running, [0.6])[0] == pytest.approx(0.6, abs=0.03)
    with_running.refresh(LATER_S)  # running jobs are looked at anew each time, and not kept
    assert raw_levels(with_running, [0.6])[0] == raw_levels(alone, [0.6])[0]


def test_a_sample_of_the_running_jobs_stands_for_all_of_them() -> None:
    rng = np.random.default_rng(7)
    pit = rng.random(500)
    running = readings(np.full(400, 0.8), observed=np.zeros(400, dtype=bool), who=["ann"] * 400)
    half = readings(np.full(200, 0.8), observed=np.zeros(200, dtype=bool), who=["ann"] * 200)
    one, two = learned(full(), readings(pit)), learned(full(), readings(pit))
    one.refresh(LATER_S, running)
    two.refresh(LATER_S, half, 0.5)
    np.testing.assert_allclose(raw_levels(two, [0.9]), raw_levels(one, [0.9]), atol=0.01)


def test_the_middle_is_corrected_by_the_share_that_is_set() -> None:
    pit = np.random.default_rng(5).random(4000) * 0.5
    half, whole = learned(full(middle_share=0.5), readings(pit)), learned(full(), readings(pit))
    assert raw_levels(whole, [0.5])[0] < raw_levels(half, [0.5])[0] < 0.5
    assert raw_levels(half, [0.9])[0] == raw_levels(whole, [0.9])[0]


def test_old_outcomes_fade() -> None:
    calibration = full(half_life_s=3600.0)
    learned(
        calibration,
        readings(np.full(500, 0.95)),
        readings(np.linspace(0, 1, 400), start_s=np.full(400, LATER_S)),
    )
    assert raw_levels(calibration, [0.5])[0] == pytest.approx(0.5, abs=0.05)
    assert len(calibration.names) <= 501


def test_one_outcome_from_the_far_future_does_not_stop_the_learning() -> None:
    calibration = learned(
        full(half_life_s=3 * 86400.0),
        readings(np.full(200, 0.2)),
        readings(np.array([0.5]), start_s=np.array([3e9])),
        readings(np.random.default_rng(11).random(3000) * 0.5),
    )
    assert raw_levels(calibration, [0.5])[0] == pytest.approx(0.25, abs=0.03)


def test_a_thousand_jobs_of_one_submitter_move_others_less_than_those_of_a_crowd() -> None:
    pit, start_s = np.full(1000, 0.97), np.zeros(1000)
    burst = learned(full(), readings(pit, who=["ann"] * 1000, start_s=start_s))
    crowd = learned(full(), readings(pit, start_s=start_s))
    median_after_burst, median_after_crowd = raw_levels(burst, [0.5])[0], raw_levels(crowd, [0.5])[0]
    assert 0.55 < median_after_burst < 0.7  # ten submitters' worth of belief against one submitter
    assert median_after_crowd == pytest.approx(0.97, abs=0.02)


def test_bounds_cover_their_share_although_the_forecast_has_an_atom() -> None:
    """A third of the jobs end exactly where the forecast puts an atom of 60 %: reading the raw level 0.9
    would still name the atom, and cover too many."""
    rng = np.random.default_rng(4)
    above = rng.random(6000) < 0.2
    below = np.where(above, 0.9 + 0.1 * rng.random(6000), 0.3)
    calibration = learned(full(), readings(below, upto=np.where(above, below, 0.9)))
    assert (below <= raw_levels(calibration, [0.9])[0]).mean() == pytest.approx(0.9, abs=0.01)


def test_an_anonymous_state_keeps_what_holds_for_all_and_nothing_of_one_submitter() -> None:
    rng = np.random.default_rng(10)
    calibration = learned(
        full(),
        readings(0.3 + 0.7 * rng.random(3000)),
        readings(np.full(300, 0.99), who=["ann"] * 300, start_s=np.arange(300, dtype=np.float64) * 3600.0),
    )
    anns, others = raw_levels(calibration, [0.9], who="ann"), raw_levels(calibration, [0.9], who="stranger")
    calibration.make_anonymous()
    assert anns[0] > others[0]
    assert "ann" not in calibration.names
    for who in ("ann", "stranger"):
        np.testing.assert_allclose(raw_levels(calibration, [0.9], who=who), others)


def test_levels_ascend_whatever_was_learned() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        pit = rng.random(60) ** rng.uniform(0.2, 5.0)
        who: list[str | None] = [f"user {number}" for number in rng.integers(0, 5, 60)]
        calibration = learned(Calibration(), readings(pit, who=who))
        for name in ("user 0", "user 4", "stranger"):
            assert np.all(np.diff(raw_levels(calibration, list(LEVELS), who=name)) >= 0)


def test_a_refresh_is_due_after_hours_and_whenever_outcomes_double() -> None:
    calibration = full()
    assert not calibration.is_due(LATER_S)
    calibration.learn(readings(np.array([0.5])))
    assert calibration.is_due(0.0)
    calibration.refresh(0.0)
    assert not calibration.is_due(REFRESH_S - 1.0)
    assert calibration.is_due(REFRESH_S)
    assert calibration.is_due(-REFRESH_S)  # a clock that went back must not stop it for good
    calibration.learn(readings(np.array([0.5])))
    assert calibration.is_due(1.0)


def test_lengths_are_cut_so_that_each_group_holds_as_many_forecasts() -> None:
    calibration = full()
    lengths = np.random.default_rng(9).normal(8.0, 2.0, 4000)
    calibration.group_lengths(lengths)
    counts = np.bincount(calibration.length_edges_log_s.searchsorted(lengths, side="right"))
    assert len(counts) == 20
    assert counts.max() - counts.min() <= 2


def test_equal_clusters_count_in_full_and_a_heavy_one_hardly() -> None:
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [1000.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    counted = effective_count(weights.sum(axis=1), (weights**2).sum(axis=1))
    np.testing.assert_allclose(counted, [4.0, 1.006, 0.0], atol=1e-3)


def test_no_evidence_leaves_the_prior_and_much_of_it_leaves_the_data() -> None:
    ended = np.zeros(PIT_BINS)
    out = np.empty(PIT_BINS)
    shrunk_cdf(ended, ended, 0.0, 10.0, UNIFORM, out)
    np.testing.assert_array_equal(out, UNIFORM)
    ended[10] = 1e7
    shrunk_cdf(ended, np.zeros(PIT_BINS), 1e6, 10.0, UNIFORM, out)
    assert out[9] < 1e-4
    assert out[10] > 1 - 1e-4


def test_the_online_state_survives_json() -> None:
    state = OnlineState.new(DurationSettings())
    who: list[str | None] = ["ann"] * 20 + [None] * 30
    state.calibration.learn(readings(np.linspace(0.1, 0.9, 50), who=who))
    state.calibration.refresh(3000.0)
    state.weights.learn(
        np.ones((3, len(EXPERTS))),
        np.array([0, 5, 50]),
        np.array(["a", None, "b"], dtype=object),
        np.arange(3.0),
    )
    again = restore_online(json.loads(json.dumps(export_online(state))), DurationSettings())
    assert export_online(again) == export_online(state)
    for name in ("ann", "stranger"):
        np.testing.assert_allclose(
            raw_levels(again.calibration, list(LEVELS), who=name),
            raw_levels(state.calibration, list(LEVELS), who=name),
            rtol=1e-12,
        )

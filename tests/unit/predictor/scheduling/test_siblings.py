"""This module tests that forecasts learn from siblings what they can tell, and nothing else."""

import math
from statistics import NormalDist

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from predictor.contracts.events import ForecastUpdated, JobFinished, JobSubmitted, PolicyChanged, Tick
from predictor.contracts.forecast import LEVELS
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.order import Order
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.siblings import Siblings, score_of
from predictor.scheduling.store import FloatArray
from predictor.scheduling.views import explain

SCORES = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
MIDDLE = LEVELS.index(0.5)


def lognormal(median_s: float, sigma: float) -> tuple[float, ...]:
    return tuple((median_s * np.exp(sigma * SCORES)).tolist())


def submission(job_id: str, at_s: float = 0.0, *, median_s: float = 1000.0, **more: object) -> JobSubmitted:
    values: dict[str, object] = {"width": 1, "user": "u", "quantiles_s": lognormal(median_s, 1.0), **more}
    return JobSubmitted(now_s=at_s, job_id=job_id, **values)  # type: ignore[arg-type]


def one_at_a_time(siblings: Siblings | None = None) -> Coordinator:
    return Coordinator(Policy(siblings=siblings or Siblings()), [Pool(name="gpu", total=1)])


def median_s(coordinator: Coordinator, job_id: str) -> float:
    store = coordinator.state.store
    return float(np.exp(store.log_quantiles[store.slot_of[job_id], MIDDLE]))


def forecast_logs(coordinator: Coordinator, job_id: str) -> FloatArray:
    store = coordinator.state.store
    return np.asarray(store.log_quantiles[store.slot_of[job_id]])


@pytest.mark.parametrize(("took_s", "longer"), [(10_000.0, True), (100.0, False)])
def test_a_sibling_that_ended_moves_the_forecasts_of_those_that_wait(took_s: float, longer: bool) -> None:
    coordinator = one_at_a_time()
    coordinator.apply_all([submission("first"), submission("second")])
    coordinator.apply(submission("another user", user="v"))
    coordinator.apply(submission("another limit", limit_s=5e6))
    coordinator.apply(submission("third"))
    coordinator.apply(JobFinished(now_s=took_s, job_id="first"))
    assert (median_s(coordinator, "second") > 1000.0) is longer
    assert (median_s(coordinator, "third") > 1000.0) is longer
    distance = abs(math.log(median_s(coordinator, "second") / 1000.0))
    assert distance > abs(math.log(median_s(coordinator, "third") / 1000.0))  # the nearer learns more
    assert median_s(coordinator, "another user") == pytest.approx(1000.0)
    assert median_s(coordinator, "another limit") == pytest.approx(1000.0)


def test_a_sibling_that_runs_on_and_on_moves_them_before_it_ends() -> None:
    coordinator = one_at_a_time()
    coordinator.apply_all([submission("runs"), submission("waits")])
    medians = []
    for at_s in (100.0, 3000.0, 9000.0, 27_000.0):
        coordinator.apply(Tick(now_s=at_s))
        medians.append(median_s(coordinator, "waits"))
    assert medians[0] == pytest.approx(1000.0)  # a tenth of its median tells nothing
    assert medians[0] < medians[1] < medians[2] < medians[3]


def test_what_was_known_when_the_forecast_was_made_is_not_told_twice() -> None:
    coordinator = one_at_a_time()
    coordinator.apply_all([submission("first"), submission("second")])
    coordinator.apply(JobFinished(now_s=9000.0, job_id="first"))
    coordinator.apply(submission("third", 9001.0))
    assert median_s(coordinator, "third") == pytest.approx(1000.0)
    coordinator.apply(ForecastUpdated(now_s=9002.0, job_id="third", quantiles_s=lognormal(7000.0, 0.5)))
    assert median_s(coordinator, "third") == pytest.approx(7000.0)


def test_without_correlation_forecasts_stay_as_given_also_after_the_policy_changes() -> None:
    coordinator = one_at_a_time()
    coordinator.apply_all([submission("first"), submission("second"), submission("third")])
    coordinator.apply(JobFinished(now_s=20_000.0, job_id="first"))
    assert median_s(coordinator, "third") > 2000.0
    off = policy_document(Policy(siblings=Siblings(correlation=0.0)))
    coordinator.apply(PolicyChanged(now_s=20_001.0, policy=off))
    assert median_s(coordinator, "third") == pytest.approx(1000.0)
    coordinator.apply(PolicyChanged(now_s=20_002.0, policy=policy_document(Policy())))
    assert median_s(coordinator, "third") > 2000.0


def test_the_longest_of_a_sweep_do_not_hold_up_what_came_after_it() -> None:
    """All were forecast to run for a minute; the sweep runs for hours, what was sent later does not."""
    policy = Policy(order=Order(guard_s=math.inf))
    coordinator = Coordinator(policy, [Pool(name="gpu", total=1)])
    sweep = [submission(f"long {k}", median_s=60.0) for k in range(12)]
    later = [submission(f"short {k}", 1000.0, median_s=60.0) for k in range(40)]
    coordinator.apply_all(sweep)
    coordinator.apply_all(later)
    coordinator.apply(JobFinished(now_s=14_400.0, job_id="long 0"))
    coordinator.apply(JobFinished(now_s=28_800.0, job_id="long 1"))
    running = coordinator.state.store.job_ids(coordinator.state.store.running_slots)
    assert running[0].startswith("short")


def test_renewed_forecasts_cover_what_they_state_and_are_sharper() -> None:
    """Known truth: scores of siblings share 0.65 of their variance."""
    rng = np.random.default_rng(0)
    below, sharper, groups = [], [], 600
    for group in range(groups):
        shared = math.sqrt(0.65) * rng.standard_normal()
        scores = shared + math.sqrt(0.35) * rng.standard_normal(6)
        durations = 1000.0 * np.exp(scores)
        coordinator = one_at_a_time()
        coordinator.apply_all([submission(f"{group} {k}") for k in range(6)])
        now_s, ended = 0.0, set[str]()
        while len(ended) < 5:
            store = coordinator.state.store
            (running,) = store.job_ids(store.running_slots)
            now_s += durations[int(running.split()[1])]
            coordinator.apply(JobFinished(now_s=now_s, job_id=running))
            ended.add(running)
        (last,) = coordinator.state.store.slot_of
        logs = forecast_logs(coordinator, last)
        truth = math.log(durations[int(last.split()[1])])
        below.append([truth <= logs[LEVELS.index(level)] for level in (0.1, 0.5, 0.9)])
        sharper.append(logs[LEVELS.index(0.9)] - logs[LEVELS.index(0.1)])
    shares = np.mean(below, axis=0)
    assert shares[0] == pytest.approx(0.1, abs=0.06)
    assert shares[1] == pytest.approx(0.5, abs=0.08)
    assert shares[2] == pytest.approx(0.9, abs=0.06)
    assert np.mean(sharper) < 0.85 * 2 * SCORES[LEVELS.index(0.9)]


@settings(max_examples=60, deadline=None)
@given(
    took_s=st.lists(st.floats(1.0, 1e6), min_size=1, max_size=8),
    sigma=st.floats(0.0, 3.0),
    limit_s=st.sampled_from([math.inf, 5000.0]),
)
def test_renewed_quantiles_rise_and_are_finite(took_s: list[float], sigma: float, limit_s: float) -> None:
    coordinator = one_at_a_time()
    jobs = [
        submission(str(k), limit_s=limit_s, quantiles_s=lognormal(500.0, sigma))
        for k in range(len(took_s) + 2)
    ]
    coordinator.apply_all(jobs)
    now_s = 0.0
    for each_s in took_s:
        store = coordinator.state.store
        now_s += each_s
        coordinator.apply(JobFinished(now_s=now_s, job_id=store.job_ids(store.running_slots)[0]))
        for slot in coordinator.state.store.slot_of.values():
            logs = coordinator.state.store.log_quantiles[slot]
            assert np.isfinite(logs).all()
            assert (np.diff(logs) >= -1e-12).all()
            assert logs[0] >= 0.0


def test_scores_are_normal_scores_of_the_forecast() -> None:
    logs = np.log(np.array(lognormal(1000.0, 1.0)))
    for level, score in zip(LEVELS, SCORES, strict=True):
        duration_s = math.exp(logs[LEVELS.index(level)]) * (1 + 1e-12)
        assert score_of(logs, math.inf, duration_s) == pytest.approx(score, abs=0.02)
    assert score_of(logs, math.inf, 1.0) == -3.0
    assert score_of(logs, math.inf, 1e9) == 3.0
    assert score_of(logs, 1000.0, 1000.0) == pytest.approx(1.5, abs=0.01)  # at its limit: between 0 and 3


def test_an_explanation_says_what_siblings_have_told() -> None:
    coordinator = one_at_a_time()
    coordinator.apply_all([submission(str(k)) for k in range(3)])
    assert explain(coordinator, "1", 0.0).siblings == ""
    coordinator.apply(JobFinished(now_s=20_000.0, job_id="0"))
    (waiting,) = coordinator.state.store.job_ids(coordinator.state.store.waiting_slots)
    assert "1000 s at submission" in explain(coordinator, waiting, 20_000.0).siblings

"""This module tests that nobody goes ahead of a promised job beyond its guard who might delay it."""

import pytest

from predictor.contracts.decisions import Promised, Started
from predictor.contracts.events import JobFinished, JobSubmitted
from predictor.contracts.forecast import LEVELS
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.eta import forecast_starts
from predictor.scheduling.order import Order
from predictor.scheduling.parameter_vector import parameter_vector
from predictor.scheduling.policy import Policy
from predictor.scheduling.priority import guard_s
from predictor.scheduling.reservation import Plan


@pytest.mark.parametrize(
    ("guarded_level", "guard_s", "starts"), [(1.0, 10.0, False), (0.5, 10.0, True), (1.0, 1e6, True)]
)
def test_ahead_of_a_guarded_job_a_job_counts_with_its_limit(
    guarded_level: float, guard_s: float, starts: bool
) -> None:
    policy = Policy(
        order=Order(guard_s=guard_s, guard_width_exponent=0.0),
        plan=Plan(guarded_level=guarded_level),
    )
    coordinator = Coordinator(policy, [Pool(name="cpu", total=10)])
    coordinator.apply(_job("runs till 100", 0.0, width=8, takes_s=100.0, limit_s=100.0))
    coordinator.apply(_job("wide", 1.0, width=10, takes_s=100.0, limit_s=100.0))
    decisions = coordinator.apply(_job("short by forecast", 20.0, width=2, takes_s=50.0, limit_s=1000.0))
    assert any(type(each) is Started for each in decisions) is starts


@pytest.mark.parametrize(("at_s", "starts"), [(50.0, True), (500.0, False)])
def test_once_it_has_waited_for_many_guards_nobody_may_gamble_with_a_guarded_job(
    at_s: float, starts: bool
) -> None:
    coordinator = _short_guards(strict_after_guards=10.0)
    coordinator.apply(_job("was to end at 100", 0.0, width=8, takes_s=100.0, limit_s=1000.0))
    coordinator.apply(_job("wide", 1.0, width=10, takes_s=100.0, limit_s=100.0))
    decisions = coordinator.apply(_job("short by forecast", at_s, width=2, takes_s=5.0, limit_s=1000.0))
    assert any(type(each) is Started for each in decisions) is starts


@pytest.mark.parametrize(("strict_after_guards", "starts"), [(10.0, False), (100.0, True)])
def test_nor_may_a_guarded_job_behind_it(strict_after_guards: float, starts: bool) -> None:
    coordinator = _short_guards(strict_after_guards=strict_after_guards)
    coordinator.apply(_job("was to end at 300", 0.0, width=8, takes_s=300.0, limit_s=1000.0))
    coordinator.apply(_job("ends at 200", 0.0, width=2, takes_s=200.0, limit_s=200.0))
    coordinator.apply(_job("wide", 1.0, width=10, takes_s=100.0, limit_s=100.0))
    coordinator.apply(_job("guarded too", 50.0, width=2, takes_s=5.0, limit_s=1000.0))
    decisions = coordinator.apply(JobFinished(now_s=200.0, job_id="ends at 200"))
    assert any(type(each) is Started for each in decisions) is starts


@pytest.mark.parametrize(
    ("at_s", "width", "backlogs", "starts"),
    [
        (60.0, 1, 0.5, True),  # its median ends in time, and the wide job waits for three guards only
        (140.0, 1, 0.5, False),  # ten such jobs may go ahead: each must end with a chance of 93 %
        (140.0, 5, 0.5, True),  # two such jobs: 71 %
        (140.0, 1, 2.0, True),  # the cluster needs 180 s for all that is there: that is how long jobs wait
    ],
)
def test_the_longer_a_guarded_job_has_waited_the_surer_those_ahead_must_end_the_narrow_most(
    at_s: float, width: int, backlogs: float, starts: bool
) -> None:
    policy = Policy(
        order=Order(guard_s=20.0, guard_width_exponent=0.0),
        plan=Plan(strict_after_guards=1e3, careful_after_backlogs=backlogs),
    )
    coordinator = Coordinator(policy, [Pool(name="cpu", total=10)])
    coordinator.apply(_job("runs", 0.0, width=5, takes_s=300.0, limit_s=300.0))
    coordinator.apply(_job("ends", 0.0, width=5, takes_s=at_s, limit_s=at_s))
    coordinator.apply(_job("wide", 1.0, width=10, takes_s=100.0, limit_s=100.0))
    spread = tuple(10.0 if level <= 0.8 else 1000.0 for level in LEVELS)
    behind = JobSubmitted(now_s=2.0, job_id="behind", width=width, limit_s=5000.0, quantiles_s=spread)
    coordinator.apply(behind)
    decisions = coordinator.apply(JobFinished(now_s=at_s, job_id="ends"))
    assert [each.job_id for each in decisions if isinstance(each, Started)] == ["behind"] * starts


def _short_guards(strict_after_guards: float) -> Coordinator:
    policy = Policy(
        order=Order(guard_s=10.0, guard_width_exponent=0.0),
        plan=Plan(guarded_level=0.5, strict_after_guards=strict_after_guards),
    )
    return Coordinator(policy, [Pool(name="cpu", total=10)])


def _job(name: str, now_s: float, *, width: int, takes_s: float, limit_s: float) -> JobSubmitted:
    return JobSubmitted(
        now_s=now_s, job_id=name, width=width, limit_s=limit_s, quantiles_s=(takes_s,) * len(LEVELS)
    )


@pytest.mark.parametrize(
    ("width", "backlog_s", "guard"),
    [
        (100, 2500.0, 1000.0),
        (25, 2500.0, 2000.0),
        (1, 2500.0, 5000.0),
        (100, 100.0, 400.0),
        (25, 600.0, 1400.0),
    ],
)
def test_the_guard_is_longer_for_narrow_jobs_and_grows_with_what_was_ahead(
    width: int, backlog_s: float, guard: float
) -> None:
    order = Order(
        guard_s=1000.0,
        guard_width_exponent=0.5,
        guard_most_s=5000.0,
        guard_backlogs=2.0,
        guard_least_s=200.0,
    )
    assert guard_s(width, 100.0, backlog_s, parameter_vector(Policy(order=order))) == pytest.approx(guard)


def test_a_job_knows_how_long_the_cluster_needed_for_what_was_before_it() -> None:
    coordinator = Coordinator(Policy(), [Pool(name="cpu", total=10)])
    for k in range(3):
        coordinator.apply(_job(str(k), 10.0 * k, width=10, takes_s=100.0, limit_s=100.0))
    slot = coordinator.state.store.slot_of["2"]
    assert coordinator.state.store.floats[c.BACKLOG, slot] == pytest.approx(80.0 + 100.0)


def test_a_job_that_outlives_its_plan_is_taken_to_run_as_long_again() -> None:
    """A quantile of what is left of it may be years: a guard of four times that would guard nobody."""
    coordinator = Coordinator(Policy(), [Pool(name="cpu", total=10)])
    spread = tuple(100.0 * 10.0 ** (k / 3) for k in range(-11, len(LEVELS) - 11))
    running = JobSubmitted(now_s=0.0, job_id="runs", width=10, limit_s=float("inf"), quantiles_s=spread)
    coordinator.apply(running)
    coordinator.apply(_job("next", 5000.0, width=10, takes_s=100.0, limit_s=100.0))
    slot = coordinator.state.store.slot_of["next"]
    assert coordinator.state.store.floats[c.BACKLOG, slot] == pytest.approx(5000.0)


def test_an_expected_start_is_never_after_the_one_that_was_promised() -> None:
    coordinator = Coordinator(Policy(), [Pool(name="cpu", total=10)])
    spread = tuple(100.0 * 2.0**k for k in range(-11, len(LEVELS) - 11))
    coordinator.apply(JobSubmitted(now_s=0.0, job_id="runs", width=9, limit_s=1e9, quantiles_s=spread))
    decisions = coordinator.apply(_job("next", 1.0, width=10, takes_s=10.0, limit_s=1000.0))
    (promise,) = [each for each in decisions if isinstance(each, Promised)]
    now_s = promise.latest_s - 1.0  # it runs on and on: its remaining time is longer than what is left
    coordinator.state.now_s = now_s
    (eta,) = forecast_starts(coordinator.state, coordinator.state.store.waiting_slots, now_s)
    assert eta.q10_s <= eta.q50_s <= eta.q90_s <= promise.latest_s


def test_a_promised_start_is_expected_when_running_jobs_leave_room_at_their_medians() -> None:
    coordinator = Coordinator(Policy(), [Pool(name="cpu", total=10)])
    spread = tuple(100.0 * (k + 1) for k in range(len(LEVELS)))
    middle_s = spread[LEVELS.index(0.5)]
    running = JobSubmitted(now_s=0.0, job_id="runs", width=9, limit_s=1e6, quantiles_s=spread)
    coordinator.apply(running)
    decisions = coordinator.apply(_job("next", 1.0, width=5, takes_s=10.0, limit_s=1000.0))
    (promise,) = [each for each in decisions if isinstance(each, Promised)]
    assert promise.expected_s == pytest.approx(middle_s, rel=0.02)
    assert promise.expected_s < promise.start_s < promise.latest_s + 1.0

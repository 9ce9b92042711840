"""Short stories end as a person would expect, and the page that tells them is true."""

import numpy as np
import pytest

from predictor.contracts.decisions import Decision
from predictor.contracts.events import (
    Event,
    JobChanged,
    JobStarted,
    JobSubmitted,
    NodesChanged,
    PolicyChanged,
)
from predictor.contracts.forecast import DurationForecasts
from predictor.contracts.reasons import ReasonCode
from predictor.errors import ArgumentError
from predictor.scheduling import cycle
from predictor.scheduling.order import Order
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document, policy_from_document
from predictor.scheduling.presets import PRESETS, preset
from predictor.scheduling.remaining import quantile_s, remaining_s
from predictor.scheduling.reservation import Plan
from tests.unit.predictor.scheduling.builders import (
    NOW,
    a_cluster,
    a_job,
    eight_by_eight,
    ended,
    promised,
    refused,
    started,
)
from tests.unit.predictor.scheduling.stories import PAGE, page


def run(policy: str, *events: Event) -> tuple[Decision, ...]:
    """Decisions after the last of some events."""
    cluster = a_cluster(policy)
    decisions: tuple[Decision, ...] = ()
    for event in events:
        decisions = cluster.apply(event)
    return decisions


def test_the_page_of_decisions_is_what_the_coordinator_says() -> None:
    assert PAGE.read_text() == page()


def test_easy_backfills_only_what_ends_by_the_promise_or_leaves_its_units() -> None:
    cluster = a_cluster("easy")
    cluster.apply(a_job("running", 6, takes_s=100))
    assert promised(cluster.apply(a_job("head", 7, 1, 100))) == {"head": 100.0}
    assert started(cluster.apply(a_job("too long, too wide", 2, 2, 200))) == []
    assert started(cluster.apply(a_job("beside the head", 1, 3, 10_000))) == ["beside the head"]
    assert started(cluster.apply(a_job("ends in time", 1, 4, 96))) == ["ends in time"]


def test_fifo_never_lets_anybody_pass_the_head() -> None:
    assert started(run("fifo", a_job("a", 6), a_job("head", 4), a_job("small", 1))) == []


def test_a_job_of_eight_waits_for_a_whole_node_though_eight_units_are_free() -> None:
    cluster = a_cluster("fifo", eight_by_eight())
    for k in range(8):
        assert started(cluster.apply(a_job(f"half {k}", 5, k))) == [f"half {k}"]
    assert started(cluster.apply(a_job("whole", 8, 9))) == []
    assert started(cluster.apply(ended("half 3", 10))) == ["whole"]


def test_events_that_do_not_fit_are_refused_and_change_nothing() -> None:
    cluster = a_cluster()
    cluster.apply(a_job("a", 8))
    assert refused(cluster.apply(a_job("a", 1))) == ["DUPLICATE_JOB"]
    assert refused(cluster.apply(a_job("b", 9))) == ["TOO_WIDE"]
    assert refused(cluster.apply(ended("c", 1))) == ["UNKNOWN_JOB"]
    assert refused(cluster.apply(JobChanged(now_s=NOW, job_id="a", workload_class="x"))) == ["WRONG_STATE"]
    assert refused(cluster.apply(a_job("d", 0, workload_class="x", checkpoint="y"))) == [
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "NO_SUCH_CLASS",
    ]
    assert (cluster.waiting, cluster.running, cluster.knows("a")) == (0, 1, "running")


def test_whole_seconds_are_told_to_the_kernels_as_floats_and_compile_nothing_anew() -> None:
    coordinator = a_cluster("ours")
    coordinator.apply(JobSubmitted(now_s=1, job_id="a", width=1))
    assert isinstance(coordinator.state.now_s, float)


def test_a_policy_change_reorders_those_who_wait_and_touches_nobody_who_runs() -> None:
    cluster = a_cluster("fifo")
    cluster.apply(a_job("running", 8, takes_s=1000))
    cluster.apply(a_job("first, long", 8, 1, 9000))
    cluster.apply(a_job("second, short", 8, 2, 10))
    document = policy_document(preset("sjf-oracle"))
    assert cluster.apply(PolicyChanged(now_s=NOW + 3, policy=document)) == ()
    assert cluster.knows("running") == "running"
    assert started(cluster.apply(ended("running", 4))) == ["second, short"]


def test_drained_nodes_let_their_jobs_run_on_and_take_no_new_ones() -> None:
    cluster = a_cluster("fifo", eight_by_eight())
    cluster.apply(a_job("a", 8))
    cluster.apply(NodesChanged(now_s=NOW + 1, pool="gpu", node_units=dict.fromkeys(range(8), 0)))
    assert started(cluster.apply(a_job("b", 1, 2))) == []
    assert cluster.knows("a") == "running"
    cluster.apply(ended("a", 3))
    assert cluster.state.capacity.free[0] == 0
    assert started(cluster.apply(NodesChanged(now_s=NOW + 4, pool="gpu", node_units={0: 8}))) == ["b"]


def test_a_start_told_from_outside_counts_as_running() -> None:
    cluster = a_cluster("fifo")
    cluster.apply(a_job("a", 8))
    cluster.apply(a_job("b", 4, 1))
    cluster.apply(JobStarted(now_s=NOW + 2, job_id="b"))
    assert cluster.knows("b") == "running"


@pytest.mark.parametrize("name", PRESETS)
def test_policies_survive_being_written_and_read(name: str) -> None:
    assert policy_from_document(policy_document(PRESETS[name])) == PRESETS[name]


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("headroom", "weeks", 2**31 - 1),  # each would be accepted, and then take the memory or the service
        ("siblings", "reach", 2**30),
        ("order", "ageing_power", 1e6),
        ("order", "guard_s", 10**400),
    ],
)
def test_a_setting_beyond_reason_is_a_fault(section: str, name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=name):
        policy_from_document({section: {name: value}})


def test_all_faults_of_a_policy_are_named_at_once() -> None:
    document = {"name": 3, "order": {"by": "luck", "level": 1.5, "speed": 1}, "default_class": "x"}
    with pytest.raises(ArgumentError) as caught:
        policy_from_document(document)
    text = str(caught.value)
    assert all(word in text for word in ("policy.name", "speed"))
    with pytest.raises(ArgumentError) as caught:
        Policy(order=Order(by="luck", level=1.5), plan=Plan(source="guess"), default_class="x")
    text = str(caught.value)
    assert all(word in text for word in ("luck", "1.5", "guess", "default_class"))


def test_compiled_quantiles_equal_those_of_the_forecast() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        quantiles_s = np.sort(generator.lognormal(6, 2, 23))
        limit_s = float(generator.choice([np.inf, quantiles_s[-1] * 1.5]))
        forecast = DurationForecasts.build(quantiles_s[None], np.array([limit_s]))
        logs = np.log(forecast.quantiles_s[0])
        for level in (0.05, 0.5, 0.77, 0.9):
            assert quantile_s(logs, limit_s, level) == pytest.approx(forecast.quantile_s(level)[0])
        elapsed_s = float(generator.lognormal(6, 2))
        if elapsed_s < min(limit_s, quantiles_s[-1]):
            want = forecast.remaining(np.array([elapsed_s])).quantiles_s[0]
            for k, level in ((3, 0.1), (11, 0.5), (19, 0.9)):
                assert remaining_s(logs, limit_s, elapsed_s, level) == pytest.approx(want[k], rel=1e-6)


def test_reason_codes_of_the_compiled_pass_are_those_of_the_contract() -> None:
    names = {
        "IN_ORDER": ReasonCode.IN_ORDER,
        "BACKFILLED": ReasonCode.BACKFILLED,
        "CAPACITY_SHORT": ReasonCode.CAPACITY_SHORT,
        "BEHIND_OTHERS": ReasonCode.BEHIND_OTHERS,
        "WOULD_DELAY": ReasonCode.WOULD_DELAY_PROMISE,
        "QUOTA": ReasonCode.QUOTA_EXCEEDED,
        "HEADROOM": ReasonCode.HEADROOM_HELD,
        "FRAGMENTED": ReasonCode.FRAGMENTED,
        "BACKING_OFF": ReasonCode.BACKING_OFF,
    }
    assert all(getattr(cycle, name) == code for name, code in names.items())

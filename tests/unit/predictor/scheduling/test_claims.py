"""This module tests for which waiting jobs victims are looked for, and in which order."""

from dataclasses import replace

import pytest

from predictor.contracts.decisions import Decision
from predictor.contracts.events import ForecastUpdated, Tick
from predictor.scheduling.capacity import Pool
from predictor.scheduling.order import Order
from predictor.scheduling.policy import Policy
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.quota import Quota
from predictor.scheduling.reservation import Reserve
from predictor.scheduling.snapshot import restore, snapshot
from tests.unit.predictor.scheduling.builders import (
    NOW,
    a_cluster,
    a_job,
    ended,
    preempted,
    promised,
    started,
)

_EIGHT = Pool(name="gpu", total=8)


@pytest.mark.parametrize(
    ("units", "guard_s", "first"),
    [
        (9, 600.0, "eldest"),  # beyond its guard, and the other is not
        (8, float("inf"), "short"),  # no unit was ever free, so that no pass has looked at those that wait
    ],
)
def test_victims_are_looked_for_in_the_order_of_the_queue_as_it_is_now(
    units: int, guard_s: float, first: str
) -> None:
    rules = Preemption(least_runtime_s=3600.0, grace_s=0.0, per_hour=1)
    order = Order(guard_s=guard_s, guard_backlogs=float("inf"))
    cluster = a_cluster(Policy(preemption=rules, order=order), Pool(name="gpu", total=units))
    cluster.apply(a_job("victim", width=8, takes_s=90_000.0))
    cluster.apply(a_job("eldest", width=8, at_s=600.0, takes_s=9000.0, workload_class="emergency"))
    cluster.apply(a_job("short", width=8, at_s=3000.0, takes_s=60.0, workload_class="emergency"))
    decisions = cluster.apply(Tick(now_s=NOW + 3500.0)) + cluster.apply(Tick(now_s=NOW + 3600.0))
    assert set(preempted(decisions)) == {"victim"}
    assert started(decisions) == [first]


def test_a_job_that_has_room_and_waits_for_a_promise_evicts_nobody() -> None:
    policy = Policy(
        order=Order(by="submit", ageing="none"),
        quotas=(Quota(team="a", units=4), Quota(team="b", units=0, borrow=4)),
    )
    for pool in _EIGHT, Pool(name="gpu", node_units=(4, 4)):
        cluster = a_cluster(policy, pool)
        cluster.apply(a_job("borrowed", width=4, team="b", workload_class="experiment"))
        wide = cluster.apply(a_job("wide", width=8, at_s=900.0))
        assert not preempted(wide)
        assert promised(wide) == {"wide": 3600.0}
        own = cluster.apply(a_job("own", width=4, at_s=1800.0, takes_s=90_000.0, team="a"))
        assert not preempted(own)
        assert not started(own)


@pytest.mark.parametrize("in_turn", [False, True])
def test_who_was_evicted_by_a_job_does_not_evict_it_though_it_has_less_left_by_now(in_turn: bool) -> None:
    rules = Preemption(mode="order", least_runtime_s=0.0, grace_s=0.0, backoff_s=0.0, in_turn=in_turn)
    cluster = a_cluster(Policy(preemption=rules), _EIGHT)
    cluster.apply(a_job("long", width=8, takes_s=9000.0, checkpoint="system"))
    short = cluster.apply(a_job("short", width=8, at_s=60.0, takes_s=900.0, checkpoint="system"))
    assert (set(preempted(short)), started(short)) == ({"long"}, ["short"])
    cluster = restore(snapshot(cluster))
    renewed = cluster.apply(ForecastUpdated(now_s=NOW + 70.0, job_id="long", estimate_s=100.0))
    assert (set(preempted(renewed)), started(renewed)) == (({"short"}, ["long"]) if in_turn else (set(), []))


def test_jobs_beyond_their_quota_use_up_nothing_of_what_a_pass_looks_at() -> None:
    policy = Policy(quotas=(Quota(team="a", units=2),), reserve=replace(Reserve(), depth=2))
    cluster = a_cluster(policy, _EIGHT)
    assert started(cluster.apply(a_job("first", width=2, team="a"))) == ["first"]
    for k in range(3):
        assert not started(cluster.apply(a_job(f"beyond-{k}", width=2, at_s=k, takes_s=60.0, team="a")))
    assert started(cluster.apply(a_job("other", width=4, at_s=5.0, team="b"))) == ["other"]


def test_jobs_that_cannot_be_resumed_do_not_evict_each_other_for_ever() -> None:
    cluster = a_cluster("las", _EIGHT)
    for name in "ab":
        cluster.apply(a_job(name, width=8, takes_s=40_000.0))
    took_s, left = dict.fromkeys("ab", 40_000.0), 2
    now_s, began_s = 0.0, {"a": 0.0}
    for _ in range(3000):
        now_s += 60.0
        for name in [each for each in began_s if now_s - began_s[each] >= took_s[each]]:
            del began_s[name]
            left -= 1
            _take_in(cluster.apply(ended(name, now_s)), began_s, now_s)
        _take_in(cluster.apply(Tick(now_s=NOW + now_s)), began_s, now_s)
    assert left == 0


def _take_in(decisions: tuple[Decision, ...], began_s: dict[str, float], now_s: float) -> None:
    for name in preempted(decisions):
        del began_s[name]
    began_s |= dict.fromkeys(started(decisions), now_s)

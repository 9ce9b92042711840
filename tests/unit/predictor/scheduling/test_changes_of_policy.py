"""What changes while jobs run, wait and are remembered leaves nothing behind: policies, nodes, forecasts."""

from dataclasses import replace
from typing import Any

import pytest

from predictor.contracts.events import (
    JobFinished,
    JobStarted,
    NodesChanged,
    PolicyChanged,
    Tick,
)
from predictor.errors import ArgumentError
from predictor.scheduling.capacity import Pool
from predictor.scheduling.classes import DEFAULT_CLASSES, WorkloadClass
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.fair_share import FairShare
from predictor.scheduling.headroom import Headroom
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.snapshot import restore, snapshot
from predictor.scheduling.views import explain, queue_page, running_page
from tests.unit.predictor.scheduling.builders import NOW, a_cluster, a_job, ended, promised, started


def changed(at_s: float = 1.0, **fields: Any) -> PolicyChanged:  # Any: sections of a policy
    return PolicyChanged(now_s=NOW + at_s, policy=policy_document(Policy(**fields)))


@pytest.mark.parametrize("weeks", [1, 4, 12])
def test_a_snapshot_is_readable_after_the_memory_of_demand_has_changed(weeks: int) -> None:
    cluster = a_cluster("ours")
    cluster.apply(a_job("a", workload_class="emergency"))
    cluster.apply(changed(headroom=Headroom(weeks=weeks)))
    assert snapshot(restore(snapshot(cluster))) == snapshot(cluster)


def test_running_jobs_take_the_place_of_their_class_in_a_new_policy() -> None:
    cluster = a_cluster("ours")
    cluster.apply(a_job("a", workload_class="background"))
    cluster.apply(changed(classes=DEFAULT_CLASSES[:1], default_class=DEFAULT_CLASSES[0].name))
    rows = running_page(cluster, 0, 10, now_s=NOW + 1).rows
    assert [row.workload_class for row in rows] == [DEFAULT_CLASSES[0].name]


def test_waiting_jobs_keep_to_the_pools_of_a_new_policy() -> None:
    cluster = a_cluster("ours", Pool(name="x", total=4), Pool(name="y", total=4))
    cluster.apply_all([a_job(name, width=4) for name in ("a", "b", "c")])
    waits = next(each for each in "abc" if cluster.knows(each) == "waiting")
    only_y = tuple(replace(each, pools=("y",)) for each in DEFAULT_CLASSES)
    cluster.apply(changed(classes=only_y))
    in_x = next(row.job_id for row in running_page(cluster, 0, 10, now_s=NOW).rows if row.pool == "x")
    assert waits not in started(cluster.apply(ended(in_x, 2)))
    assert cluster.knows(waits) == "waiting"


def test_a_tier_below_the_first_is_a_fault() -> None:
    with pytest.raises(ArgumentError, match="tier=-1"):
        Policy(classes=(*DEFAULT_CLASSES, WorkloadClass(name="x", tier=-1)))


def test_fair_share_that_is_turned_off_leaves_all_teams_alike() -> None:
    cluster = a_cluster(Policy(fair_share=FairShare(strength=1.0)))
    cluster.apply(a_job("a", 8, team="a"))
    cluster.apply(a_job("b", 8, 7200.0, team="b"))
    cluster.state.teams.share[:] = 0.25
    cluster.apply(changed(7201.0, fair_share=FairShare(strength=0.0)))
    assert set(cluster.state.teams.share) == {1.0}


def test_a_node_that_grows_takes_as_many_jobs_as_it_has_units_and_gives_all_back() -> None:
    cluster = a_cluster("easy", Pool(name="gpu", node_units=(2, 2)))
    cluster.apply(NodesChanged(now_s=NOW, pool="gpu", node_units={0: 16}))
    names = [str(k) for k in range(18)]
    for name in names:
        cluster.apply(a_job(name))
    assert cluster.state.capacity.node_free.tolist() == [0, 0]
    again = restore(snapshot(cluster))
    for name in names:
        for each in (cluster, again):
            each.apply(ended(name, 1))
    assert cluster.state.capacity.node_free.tolist() == again.state.capacity.node_free.tolist() == [16, 2]


def test_a_start_told_from_outside_on_full_nodes_holds_its_units() -> None:
    cluster = a_cluster("easy", Pool(name="gpu", node_units=(4,)))
    cluster.apply(a_job("a", 4))
    cluster.apply(a_job("b", 4))
    cluster.apply(JobStarted(now_s=NOW + 1, job_id="b"))
    cluster.apply(JobFinished(now_s=NOW + 2, job_id="a"))
    assert started(cluster.apply(a_job("c", 4, 3))) == []
    assert started(cluster.apply(ended("b", 4))) == ["c"]


def test_a_job_that_no_empty_pool_could_hold_is_refused() -> None:
    wide = Pool(name="gpu", node_units=(8, 4, 4))
    assert not wide.could_hold(16, 0, island=False)
    assert wide.could_hold(12, 0, island=False)
    islands = Pool(name="gpu", node_units=(8, 8, 8), islands=(0, 1, 2))
    assert not islands.could_hold(8, 2, island=True)
    assert islands.could_hold(8, 2, island=False)


def test_a_job_that_cannot_be_promised_a_start_leaves_the_promise_to_the_next() -> None:
    cluster = a_cluster("easy", Pool(name="gpu", total=10))
    cluster.apply(a_job("run", 8, 0, 100))
    cluster.apply(a_job("all", 10, 2, 100))
    cluster.apply(NodesChanged(now_s=NOW + 2, pool="gpu", total=9))
    assert promised(cluster.apply(a_job("nine", 9, 3, 100))) == {"nine": 100}
    assert started(cluster.apply(a_job("long", 1, 4, 1e5))) == []


def test_jobs_past_their_limits_ask_for_no_looks() -> None:
    cluster = a_cluster("easy", Pool(name="gpu", total=5))
    for k in range(4):
        cluster.apply(a_job(str(k), 1, 0, 100))
    cluster.apply(a_job("waits", 5, 1, 100))
    ticks = 0
    while (at_s := cluster.next_wakeup_s()) <= NOW + 400:
        cluster.apply(Tick(now_s=at_s))
        ticks += 1
    assert ticks < 10


def test_pages_of_jobs_that_were_sent_at_once_show_each_once() -> None:
    cluster = a_cluster("ours")
    cluster.apply(a_job("whole", 8))
    cluster.apply_all([a_job(str(k), 1, 1, (60, 600, 6000)[k % 3]) for k in range(200)])
    shown = [row.job_id for at in range(0, 200, 7) for row in queue_page(cluster, at, 7, now_s=NOW + 1).rows]
    assert len(shown) == len(set(shown)) == 200


def test_moments_beyond_all_calendars_are_told_as_not_foreseen() -> None:
    cluster = a_cluster("easy", Pool(name="gpu", total=10))
    cluster.apply(a_job("a", 8, 0, 1e12))
    cluster.apply(a_job("b", 9, 1))
    cluster.apply(a_job("c", 2, 2, 2e12))
    told = explain(cluster, "c", now_s=NOW + 3)
    assert told.position == 2
    for waiting in queue_page(cluster, 0, 5, now_s=NOW + 3).rows:
        assert waiting.reason.sentence


def _a_cluster_that_expects_emergencies() -> tuple[Coordinator, float]:
    """Return a cluster in which one unit was wanted by an emergency in each hour, and the present instant."""
    cluster = a_cluster(Policy(), Pool(name="gpu", total=10))
    for hour in range(24 * 21):
        name = f"urgent{hour}"
        cluster.apply(a_job(name, 1, 3600.0 * hour, 60, workload_class="emergency"))
        cluster.apply(ended(name, 3600.0 * hour + 60))
    return cluster, 3600.0 * 24 * 21 - 3000.0


def test_units_kept_free_for_emergencies_are_looked_at_again_each_hour_and_starve_nobody() -> None:
    cluster, at_s = _a_cluster_that_expects_emergencies()
    assert started(cluster.apply(a_job("wide", 10, at_s, 3600))) == []
    waited_s = 0.0
    while cluster.knows("wide") == "waiting":
        wakeup_s = cluster.next_wakeup_s()
        assert NOW + at_s + waited_s < wakeup_s <= NOW + at_s + waited_s + 3600.0
        waited_s = wakeup_s - NOW - at_s
        assert waited_s < 24 * 3600.0
        cluster.apply(Tick(now_s=wakeup_s))

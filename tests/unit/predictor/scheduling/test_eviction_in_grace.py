"""This module tests that an eviction counts however the job leaves: at the end of its grace or before."""

from typing import Any

import pytest

from predictor.contracts.events import ForecastUpdated, JobRequeued, Tick
from predictor.contracts.reasons import ReasonCode
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from tests.unit.predictor.scheduling.builders import NOW, a_cluster, a_job, preempted, started


@pytest.mark.parametrize("saved_s", [None, 3600.0, 3300.0])
def test_a_job_that_leaves_within_its_grace_was_evicted_as_much_as_one_that_takes_it_all(
    saved_s: float | None,
) -> None:
    early, late = _in_grace(), _in_grace()
    early.apply(JobRequeued(now_s=NOW + 3610.0, job_id="victim", saved_s=saved_s))
    late.apply(Tick(now_s=NOW + 3630.0))
    for cluster in early, late:
        store = cluster.state.store
        slot = store.slot_of["victim"]
        assert store.ints[c.EVICTIONS, slot] == 1
        assert store.ints[c.REASON, slot] == ReasonCode.BACKING_OFF
        assert cluster.knows("victim") == "waiting"
        assert cluster.knows("urgent") == "running"
    left = early.state.store.floats[:, early.state.store.slot_of["victim"]]
    assert left[c.SAVED] == (3600.0 if saved_s is None else saved_s)
    assert left[c.NOT_BEFORE] == NOW + 3670.0


def test_a_forecast_during_the_grace_does_not_end_it() -> None:
    cluster = _in_grace()
    ends_s = cluster.next_wakeup_s()
    cluster.apply(ForecastUpdated(now_s=NOW + 3610.0, job_id="victim", estimate_s=9000.0))
    assert cluster.next_wakeup_s() == ends_s
    assert cluster.knows("urgent") == "waiting"


def test_a_job_that_its_node_loses_counts_no_eviction() -> None:
    cluster = a_cluster("ours", Pool(name="gpu", total=8))
    cluster.apply(a_job("lost", width=8))
    cluster.apply(JobRequeued(now_s=NOW + 600.0, job_id="lost"))
    assert cluster.state.store.ints[c.EVICTIONS, cluster.state.store.slot_of["lost"]] == 0


def _in_grace() -> Coordinator:
    """Return a cluster whose only job writes its final checkpoint, to make room for an emergency."""
    cluster = a_cluster("ours", Pool(name="gpu", total=8))
    more: dict[str, Any] = {"checkpoint": "application", "checkpoint_interval_s": 900.0}
    assert started(cluster.apply(a_job("victim", width=8, takes_s=9000.0, **more))) == ["victim"]
    urgent = a_job("urgent", width=8, at_s=3600.0, workload_class="emergency")
    assert preempted(cluster.apply(urgent))["victim"].grace_s == 30.0
    return cluster

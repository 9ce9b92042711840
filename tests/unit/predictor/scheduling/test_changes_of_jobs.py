"""What a change of a job would come to is known before it is made."""

import pytest

from predictor.contracts.decisions import Refused
from predictor.contracts.events import JobChanged, JobRequeued, JobStarted
from predictor.scheduling import columns as c
from predictor.scheduling.classes import DEFAULT_CLASSES, WorkloadClass
from predictor.scheduling.policy import Policy
from tests.unit.predictor.scheduling.builders import NOW, a_cluster, a_job


@pytest.mark.parametrize(
    ("job_id", "workload_class", "accepted"),
    [
        ("waits", "production", True),
        ("waits", "royal", False),  # no such class
        ("waits", "elsewhere", False),  # a class that no pool here admits
        ("runs", "production", False),
        ("nobody", "production", False),
    ],
)
def test_a_change_is_accepted_exactly_where_it_is_then_made(
    job_id: str, workload_class: str, accepted: bool
) -> None:
    classes = (*DEFAULT_CLASSES, WorkloadClass(name="elsewhere", pools=("other",)))
    cluster = a_cluster(Policy(classes=classes))
    cluster.apply(a_job("runs", width=8))
    cluster.apply(a_job("waits", width=8))
    change = JobChanged(now_s=NOW + 1.0, job_id=job_id, workload_class=workload_class)
    assert cluster.accepts(change) is accepted
    refused = any(isinstance(each, Refused) for each in cluster.apply(change))
    assert refused is not accepted


def test_a_change_minds_no_other_job_whatever_its_name() -> None:
    cluster = a_cluster(Policy())
    cluster.apply(a_job("full", width=8))
    for name in ("waits", "waits (changed)"):
        cluster.apply(a_job(name, width=8))
    assert cluster.accepts(JobChanged(now_s=NOW + 1.0, job_id="waits", workload_class="production"))


def test_a_start_that_is_told_twice_counts_from_the_first_time() -> None:
    cluster = a_cluster(Policy())
    store = cluster.state.store
    cluster.apply(a_job("runs", width=8))
    cluster.apply(JobStarted(now_s=NOW + 30.0, job_id="runs", pool="gpu"))
    slot = store.slot_of["runs"]
    planned_s = store.floats[c.PLAN_END, slot]
    cluster.apply(JobStarted(now_s=NOW + 230.0, job_id="runs", pool="gpu"))
    assert (store.floats[c.START, slot], store.floats[c.PLAN_END, slot]) == (NOW + 30.0, planned_s)


def test_each_attempt_is_told_anew() -> None:
    cluster = a_cluster(Policy())
    cluster.apply(a_job("unlucky", width=8))
    cluster.apply(JobStarted(now_s=NOW + 30.0, job_id="unlucky", pool="gpu"))
    cluster.apply(JobRequeued(now_s=NOW + 60.0, job_id="unlucky"))  # it starts again at once
    cluster.apply(JobStarted(now_s=NOW + 90.0, job_id="unlucky", pool="gpu"))
    assert cluster.state.store.floats[c.START, cluster.state.store.slot_of["unlucky"]] == NOW + 90.0

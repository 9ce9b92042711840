"""What a change of a job would come to is known before it is made."""

import pytest

from predictor.contracts.decisions import Refused
from predictor.contracts.events import JobChanged
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

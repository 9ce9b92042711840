"""This module checks that drift is watched alike in training data and live jobs."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from predictor.contracts.request import JobRequest
from predictor.data.schema import seconds
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.monitoring.drift import DriftSettings, drift_alerts
from predictor.monitoring.watched import NUMBERS, WORDS, DriftReference, learn_reference

FRAME = generate(WorkloadSpec(jobs=6000, days=40.0, users=25, random_state=4)).frame.sort_values(
    "submitted_at", kind="stable", ignore_index=True
)
HALF = len(FRAME) // 2


FIELDS = (
    "user", "account", "queue", "qos", "gpu_type", "walltime_s", "requested_gpus", "requested_nodes",
    "requested_cpus", "requested_memory_mib", "array_job_id", "dependency",
)  # fmt: skip


def requests(rows: slice, **changes: Any) -> list[JobRequest]:  # Any: fields of a request
    """Return jobs of the table as they come to the service."""
    found = []
    moments = seconds(FRAME["submitted_at"])[rows]
    for moment_s, row in zip(moments, FRAME[rows].to_dict("records"), strict=True):
        known: dict[str, Any] = {name: None if pd.isna(row[name]) else row[name] for name in FIELDS}
        found.append(JobRequest(submitted_s=float(moment_s), **{**known, **changes}))
    return found


@pytest.fixture(scope="module")
def reference() -> DriftReference:
    return learn_reference(FRAME.iloc[:HALF])


def test_live_jobs_of_the_same_mix_raise_no_alert(reference: DriftReference) -> None:
    values = reference.values(requests(slice(HALF, HALF + 2000)))
    assert set(values) == {*NUMBERS, *WORDS} == set(reference.features)
    assert drift_alerts(reference.features, values, DriftSettings()) == []


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"walltime_s": 60.0}, "walltime_s"),
        ({"queue": "brand-new"}, "queue"),
        ({"requested_gpus": 64.0}, "gpus"),
    ],
)
def test_another_mix_raises_an_alert_that_names_what_changed(
    reference: DriftReference, changes: dict[str, object], subject: str
) -> None:
    jobs = requests(slice(HALF, HALF + 2000), **changes)
    alerts = drift_alerts(reference.features, reference.values(jobs), DriftSettings())
    assert [alert.subject for alert in alerts] == [subject]
    assert alerts[0].numbers["stability_index"] > DriftSettings().warning


def test_a_burst_of_equal_jobs_of_one_user_counts_once(reference: DriftReference) -> None:
    mix = requests(slice(HALF, HALF + 1500))
    burst = [JobRequest(submitted_s=mix[-1].submitted_s, user="eve", walltime_s=7.0)] * 3000
    values = reference.values([*mix, *burst])
    assert len(values["gpus"]) == len(reference.values(mix)["gpus"]) + 1
    assert drift_alerts(reference.features, values, DriftSettings()) == []


def test_a_reference_survives_json_and_holds_no_names(reference: DriftReference) -> None:
    text = json.dumps(reference.to_json())
    assert DriftReference.from_json(json.loads(text)) == reference
    names = {str(name) for name in FRAME["user"]} | {str(name) for name in FRAME["account"].dropna()}
    assert not [name for name in names if f'"{name}"' in text]
    assert all(np.isclose(sum(each.shares), 1.0) for each in reference.features.values())

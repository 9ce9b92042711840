"""This module checks that a changed mix of jobs is told with its evidence, and may ask for a retraining."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from predictor.data.schema import empty_table
from predictor.monitoring.watched import learn_reference
from serving.evidence import Evidence, evidence_of
from serving.ports import Forecaster
from serving.services import Services
from tests.api.fakes import FakeForecaster, read_fake
from tests.api.harness import Harness
from tests.api.queueing import get, queueing

pytestmark = pytest.mark.anyio
USUAL = [600.0 * (1 + number % 37) for number in range(3000)]


def usual_mix() -> dict[str, object]:
    """Return the metadata of a bundle that has learned from jobs of some walltimes."""
    frame = empty_table().reindex(range(len(USUAL)))
    frame["submitted_at"] = pd.to_datetime(np.arange(len(USUAL)) * 60.0, unit="s", utc=True)
    frame["walltime_s"] = USUAL
    frame["requested_gpus"] = 1.0
    frame["user"] = [f"u{number % 7}" for number in range(len(USUAL))]
    scores = {"mean_abs_log_ratio": 0.2}
    return {"drift": json.loads(json.dumps(learn_reference(frame).to_json())), "scores": scores}


def load_watched(directory: Path, expected_digest: str | None) -> Forecaster:
    return FakeForecaster(info=read_fake(directory, expected_digest), evidence=evidence_of(usual_mix()))


@pytest.fixture
def watched(harness: Harness) -> Harness:
    return Harness(harness.root, harness.clock, load_watched, harness.log)


async def forecast(client: Any, walltimes_s: Sequence[float], name: str) -> None:  # Any: a client
    jobs = [
        {"job_id": f"{name}{number}", "user": f"u{number % 7}", "requested_gpus": 1, "walltime_s": walltime_s}
        for number, walltime_s in enumerate(walltimes_s)
    ]
    answer = await client.post("/v1/predictions", json={"jobs": jobs})
    assert (answer.status_code, answer.json()["failed"]) == (200, 0)


async def alerts(client: Any, services: Services) -> list[dict[str, Any]]:
    assert services.queue is not None
    await services.queue.monitor.look()
    found: list[dict[str, Any]] = (await get(client, "/v1/alerts"))["alerts"]
    return found


async def test_the_mix_that_the_model_knows_raises_no_alert(watched: Harness) -> None:
    async with queueing(watched, drift_window=1000) as (client, services):
        await forecast(client, USUAL[:1000], "a")
        assert await alerts(client, services) == []


async def test_another_mix_is_told_with_its_evidence_and_goes_when_the_old_mix_is_back(
    watched: Harness, tmp_path: Path
) -> None:
    request = tmp_path / "retrain-request.json"
    async with queueing(watched, drift_window=1000, retrain_request=request) as (client, services):
        await forecast(client, [60.0 + number for number in range(1000)], "a")
        [alert] = await alerts(client, services)
        assert (alert["code"], alert["subject"], alert["retrain"]) == ("FEATURE_DRIFT", "walltime_s", True)
        assert alert["numbers"]["stability_index"] > alert["numbers"]["limit"]
        assert alert["numbers"]["rows"] == 1000
        assert "walltime_s" in alert["sentence"]
        document = json.loads(request.read_text())
        assert document["model"] == "v1"
        assert [one["sentence"] for one in document["alerts"]] == [alert["sentence"]]
        request.unlink()  # the retraining has begun
        await alerts(client, services)
        assert not request.exists(), "an alert that stands asks once"
        await forecast(client, USUAL[:1000], "b")
        for _ in range(3):
            left = await alerts(client, services)
        assert left == []
        await forecast(client, [60.0 + number for number in range(1000)], "c")
        assert await alerts(client, services)
        assert not request.exists(), "not twice within the pause"


async def test_what_was_submitted_before_a_restart_still_counts(watched: Harness) -> None:
    events = [
        {"event": "submitted", "job_id": f"o{number}", "user": f"u{number % 7}", "requested_gpus": 1,
         "walltime_s": 60.0 + number, "submitted_at": watched.clock() - 5}
        for number in range(500)
    ]  # fmt: skip
    async with queueing(watched) as (client, _):
        assert (await client.post("/v1/outcomes", json={"outcomes": events})).json()["failed"] == 0
    async with queueing(watched) as (client, services):
        assert [alert["subject"] for alert in await alerts(client, services)] == ["walltime_s"]


async def test_an_error_that_grew_beyond_that_of_the_gate_asks_for_a_retraining(
    watched: Harness, tmp_path: Path
) -> None:
    """The fake's median is 0.4 of the walltime; a run of 0.8 of it is wrong by ln 2."""
    request = tmp_path / "r.json"
    now_s = watched.clock()
    async with queueing(watched, retrain_request=request) as (client, services):
        for number in range(150):
            walltime_s = USUAL[number]
            began_s = now_s - 0.8 * walltime_s
            job = {
                "job_id": str(number),
                "requested_gpus": 1,
                "walltime_s": walltime_s,
                "submitted_at": began_s,
            }
            times = {"started_at": began_s, "ended_at": now_s}
            for event in (
                {**job, "event": "submitted"},
                {"job_id": str(number), "event": "finished", "state": "COMPLETED", **times},
            ):
                assert (await client.post("/v1/outcomes", json=event)).status_code == 200
        found = {alert["code"]: alert for alert in await alerts(client, services)}
    assert found["ERROR_GREW"]["numbers"]["error"] == pytest.approx(np.log(2.0), abs=0.01)
    assert found["ERROR_GREW"]["numbers"]["reference"] == 0.2
    assert "ERROR_GREW" in {alert["code"] for alert in json.loads(request.read_text())["alerts"]}


async def test_without_the_setting_nothing_is_asked_for(watched: Harness) -> None:
    async with queueing(watched, drift_window=1000) as (client, services):
        await forecast(client, [60.0 + number for number in range(1000)], "a")
        assert await alerts(client, services)
    assert [path.name for path in watched.root.rglob("*retrain*")] == []


def test_a_bundle_without_a_reference_or_with_a_damaged_one_can_still_serve() -> None:
    assert evidence_of({}) == Evidence()
    cases: tuple[dict[str, object], ...] = (
        {"drift": {}}, {"drift": {"features": 3, "words": {}}}, {"drift": [1]}, {"scores": 5},
    )  # fmt: skip
    for damaged in cases:
        assert evidence_of(damaged) == Evidence()

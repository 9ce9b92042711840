"""The hot swap: what answers before, during and after the champion changes."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from predictor.contracts.request import JobRequest
from serving.model_slot import Origin
from serving.ports import Forecaster
from serving.services import Services
from tests.api.fakes import FakeForecast, FakeForecaster, load_fake, read_fake, write_fake_bundle
from tests.api.harness import Harness

pytestmark = pytest.mark.anyio


def version(services: Services) -> str:
    assert services.slot.state.model is not None
    return services.slot.state.model.info.version


def outcome(job_id: str, ended_s: float) -> dict[str, object]:
    times = {"submitted_at": ended_s - 60, "started_at": ended_s - 50, "ended_at": ended_s}
    return {"job_id": job_id, "user": "ada", "state": "COMPLETED", **times}


async def test_a_new_champion_answers_after_the_next_look_at_the_alias_file(harness: Harness) -> None:
    async with harness.serving() as (_, services):
        harness.store.publish("v2")
        assert version(services) == "v1"
        await services.slot.poll()
        assert version(services) == "v2"
        assert services.slot.state.origin is Origin.CHAMPION


async def test_an_alias_file_that_did_not_change_is_not_read_again(harness: Harness) -> None:
    loads: list[Path] = []

    def load(directory: Path, digest: str | None) -> Forecaster:
        loads.append(directory)
        return load_fake(directory, digest)

    harness.load = load
    async with harness.serving() as (_, services):
        for _ in range(3):
            await services.slot.poll()
    assert len(loads) == 1


async def test_a_corrupt_champion_keeps_the_last_good_one_and_says_why(harness: Harness) -> None:
    async with harness.serving() as (client, services):
        harness.store.publish("v2")
        (harness.root / "store" / "v2" / "manifest.json").write_text(
            '{"version": "evil", "trained_until_s": 0}'
        )
        await services.slot.poll()
        ready = (await client.get("/readyz")).json()
        answer = await client.post("/v1/predictions", json={})
        assert (version(services), answer.status_code) == ("v1", 200)
        assert (ready["status"], ready["model_origin"]) == ("degraded", "last-good")
        assert "bundle-corrupt" in ready["reason"]
        metrics = (await client.get("/metrics")).text
        assert 'predictor_model_loads_total{result="bundle-corrupt"} 1.0' in metrics
        assert 'origin="last-good"' in metrics


@pytest.mark.parametrize("breakage", ["gone", "no-json", "missing-version"])
async def test_a_broken_store_keeps_the_last_good_one(harness: Harness, breakage: str) -> None:
    aliases = harness.root / "store" / "aliases.json"
    async with harness.serving() as (_, services):
        if breakage == "gone":
            aliases.unlink()
        elif breakage == "no-json":
            aliases.write_text("{")
        else:
            harness.store.point("champion", "v9", "0" * 64)
        await services.slot.poll()
        assert (version(services), services.slot.state.origin) == ("v1", Origin.LAST_GOOD)
        aliases.unlink(missing_ok=True)
        harness.store.publish("v3")
        await services.slot.poll()
        assert (version(services), services.slot.state.origin) == ("v3", Origin.CHAMPION)


async def test_a_bundle_repaired_in_place_is_tried_again_after_a_while(harness: Harness) -> None:
    path = harness.root / "store" / "v2" / "manifest.json"
    async with harness.serving(retry_s=30) as (_, services):
        harness.store.publish("v2")
        good = path.read_text()
        path.write_text("{}")
        await services.slot.poll()
        path.write_text(good)
        await services.slot.poll()
        assert version(services) == "v1"
        harness.clock.now_s += 31
        await services.slot.poll()
        assert (version(services), services.slot.state.origin) == ("v2", Origin.CHAMPION)


async def test_rolling_back_to_the_bundle_in_service_ends_the_degradation(harness: Harness) -> None:
    async with harness.serving() as (_, services):
        digest = write_fake_bundle(harness.root / "store" / "v1", "v1")
        harness.store.point("champion", "v2", "0" * 64)
        await services.slot.poll()
        model = services.slot.state.model
        harness.store.point("champion", "v1", digest)
        await services.slot.poll()
        assert services.slot.state.origin is Origin.CHAMPION
        assert services.slot.state.model is model


async def test_the_first_champion_replaces_the_fallback(harness: Harness) -> None:
    bare = Harness(harness.root / "bare").with_fallback()
    async with bare.serving() as (_, services):
        assert services.slot.state.origin is Origin.FALLBACK
        bare.store.publish("v1")
        await services.slot.poll()
        assert (version(services), services.slot.state.origin) == ("v1", Origin.CHAMPION)


async def test_a_bundle_whose_first_forecast_is_no_distribution_is_refused(harness: Harness) -> None:
    class Mad(FakeForecaster):
        def predict(self, jobs: Sequence[JobRequest]) -> list[FakeForecast]:
            answers = super().predict(jobs)
            object.__setattr__(answers[0], "walltime_s", float("nan"))
            return answers

    def load(directory: Path, digest: str | None) -> Forecaster:
        info = read_fake(directory, digest)
        return Mad(info=info) if info.version == "v2" else FakeForecaster(info=info)

    harness.load = load
    async with harness.serving() as (_, services):
        harness.store.publish("v2")
        await services.slot.poll()
        assert (version(services), services.slot.state.origin) == ("v1", Origin.LAST_GOOD)


async def test_a_new_model_learns_what_happened_after_its_training_and_nothing_twice(
    harness: Harness,
) -> None:
    now_s = harness.clock.now_s
    async with harness.serving() as (client, services):
        for n, ended_s in enumerate((now_s - 500, now_s - 300, now_s - 100)):
            assert (await client.post("/v1/outcomes", json=outcome(str(n), ended_s))).status_code == 200
        harness.store.publish("v2", trained_until_s=now_s - 400)
        await services.slot.poll()
        support = (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]
        models = (await client.get("/v1/models")).json()
    assert support["count"] == 2
    assert models["served"]["replayed_events"] == 2


async def test_outcomes_that_come_while_a_model_is_loading_reach_it_once(harness: Harness) -> None:
    loading, go_on = threading.Event(), threading.Event()

    def load(directory: Path, digest: str | None) -> Forecaster:
        if directory.name == "v2":
            loading.set()
            assert go_on.wait(10)
        return load_fake(directory, digest)

    harness.load = load
    now_s = harness.clock.now_s
    async with harness.serving() as (client, services):
        await client.post("/v1/outcomes", json=outcome("1", now_s - 100))
        harness.store.publish("v2")
        swap = asyncio.create_task(services.slot.poll())
        assert await asyncio.to_thread(loading.wait, 10)
        await client.post("/v1/outcomes", json=outcome("2", now_s - 50))
        during = (await client.post("/v1/predictions", json={"user": "ada"})).json()
        go_on.set()
        await swap
        after = (await client.post("/v1/predictions", json={"user": "ada"})).json()
    assert (during["model"]["version"], during["support"]["count"]) == ("v1", 2)
    assert (after["model"]["version"], after["support"]["count"]) == ("v2", 2)


async def test_jobs_open_over_a_swap_are_announced_to_the_new_model(harness: Harness) -> None:
    now_s = harness.clock.now_s
    async with harness.serving() as (client, services):
        event = {"job_id": "7", "user": "ada", "submitted_at": now_s - 500}
        await client.post("/v1/outcomes", json={"event": "submitted", **event})
        await client.post("/v1/outcomes", json={"event": "started", "job_id": "7", "started_at": now_s - 450})
        harness.store.publish("v2", trained_until_s=now_s - 400)
        await services.slot.poll()
        forecaster = services.slot.model._forecaster
    assert isinstance(forecaster, FakeForecaster)
    assert [key[1] for key in forecaster.announced] == ["7"]
    assert forecaster.starts == [("7", now_s - 450)]


async def test_a_batch_is_answered_by_one_model_also_when_a_swap_comes_between(harness: Harness) -> None:
    async with harness.serving(slice_jobs=1) as (client, services):
        harness.store.publish("v2")
        batch = asyncio.create_task(client.post("/v1/predictions", json={"jobs": [{}] * 300}))
        swap = asyncio.create_task(services.slot.poll())
        versions = {item["model"]["version"] for item in (await batch).json()["predictions"]}
        await swap
        assert len(versions) == 1
        assert version(services) == "v2"

"""The prediction route, asked for GPU memory and placements: as offline, per item, every fault at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from predictor.contracts.cluster import Placement
from predictor.contracts.request import JobRequest
from predictor.forecasting.memory.jobs import job_request, row_request
from predictor.forecasting.topology.jobs import topology_job
from serving.examples import MEMORY_JOB
from serving.model_slot import Origin
from serving.services import Services
from tests.api.harness import Harness, check_problem, pointers
from tests.api.resource_models import publish_memory, publish_topology

pytestmark = pytest.mark.anyio
URL = "/v1/predictions"
JOB: dict[str, Any] = {
    "user": "user3", "job_name": "job3", "requested_gpus": 1, "gpu_type": "a100", "model_family": "family3",
}  # fmt: skip


@asynccontextmanager
async def serving(harness: Harness, **values: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    roots = {"models_vram": harness.root / "vram", "models_topology": harness.root / "topology"}
    async with harness.serving(**roots, **values) as found:
        yield found


async def test_a_plain_job_gets_no_memory_and_no_placements(harness: Harness) -> None:
    async with serving(harness) as (client, _):
        answer = (await client.post(URL, json={"user": "ada", "requested_gpus": 4})).json()
        cpu_job = (await client.post(URL, json={"requested_gpus": 0, "framework": "pytorch"})).json()
    assert not {"vram", "placements", "topology"} & set(answer)
    assert "vram" not in cpu_job


async def test_without_a_bundle_the_formula_answers_and_says_so(harness: Harness) -> None:
    async with serving(harness) as (client, _):
        known = (await client.post(URL, json=MEMORY_JOB)).json()["vram"]
        unknown = (await client.post(URL, json={"memory_risk": 0.05})).json()["vram"]
        strict = (await client.post(URL, json={**MEMORY_JOB, "memory_risk": 0.001})).json()["vram"]
        ready = await client.get("/readyz")
    assert (known["regime"], known["model"]) == ("analytical", None)
    assert known["p50_mib"] == pytest.approx(known["analytical_mib"])
    assert sum(known["breakdown_mib"].values()) == pytest.approx(known["analytical_mib"])
    assert strict["upper_mib"] > known["upper_mib"] > 1.5 * known["p50_mib"]
    assert unknown["regime"] == "prior"
    assert unknown["upper_mib"] > 5 * unknown["p50_mib"]
    assert ready.status_code == 200
    chances = [one["oom_probability"] for one in sorted(known["fits_on"], key=lambda one: one["memory_mib"])]
    assert chances == sorted(chances, reverse=True)


async def test_served_memory_equals_that_of_the_bundle_offline(harness: Harness) -> None:
    offline = publish_memory(harness.root / "vram")
    async with serving(harness) as (client, _):
        answer = (await client.post(URL, json={**JOB, "batch_size": 24, "memory_risk": 0.1})).json()["vram"]
        stranger = (await client.post(URL, json={"user": "new", "task": "training"})).json()["vram"]
    known = offline.predict([row_request({**JOB, "requested_gpus": 1.0, "batch_size": 24.0})], risk=0.1)[0]
    assert (answer["p50_mib"], answer["upper_mib"]) == (known.p50_mib, known.upper_mib)
    assert answer["p50_mib"] == pytest.approx(2000 + 1500 + 40 * 24, rel=0.1)
    assert (answer["regime"], answer["model"]["version"]) == ("seen-signature", "m1")
    new = offline.predict([job_request(JobRequest(submitted_s=0.0, user="new"), {"task": "training"})])[0]
    assert (stranger["p50_mib"], stranger["upper_mib"]) == (new.p50_mib, new.upper_mib)


async def test_peaks_of_ended_jobs_are_learned_at_once_and_again_after_a_restart(harness: Harness) -> None:
    publish_memory(harness.root / "vram")
    job = {"user": "zoe", "job_name": "fresh", "requested_gpus": 1, "task": "training", "batch_size": 8}
    done = {"event": "finished", "state": "COMPLETED", "submitted_at": 1793690000, "started_at": 1793690100,
            "ended_at": 1793690200, "peak_vram_mib": 31000}  # fmt: skip
    async with serving(harness) as (client, _):
        before = (await client.post(URL, json=job)).json()["vram"]
        for number in range(3):
            told = await client.post("/v1/outcomes", json={**job, **done, "job_id": number})
            assert told.status_code == 200
        after = (await client.post(URL, json=job)).json()["vram"]
    async with serving(harness) as (client, services):
        again = (await client.post(URL, json=job)).json()["vram"]
        replayed = services.vram.state.replayed
    assert before["regime"] != after["regime"] == "seen-signature"
    assert after["p50_mib"] == pytest.approx(31000, rel=0.05)
    assert again == after
    assert replayed == 3


async def test_served_placements_equal_those_of_the_bundle_offline(harness: Harness) -> None:
    offline = publish_topology(harness.root / "topology")
    shapes = [[4], [1, 1, 1, 1], [2, 2]]
    body = {
        "cluster": "alpha", "model_family": "app1", "batch_size": 64, "requested_gpus": 4, "gpu_type": "V100",
        "candidates": [{"gpus_per_node": shape} for shape in shapes], "walltime_s": 100000,
    }  # fmt: skip
    async with serving(harness) as (client, _):
        answer = (await client.post(URL, json=body)).json()
    request = row_request({"model_family": "app1", "batch_size": 64.0, "requested_gpus": 4.0})
    want = offline.rank(
        topology_job(request), [Placement(gpu_type="v100", gpus_per_node=tuple(shape)) for shape in shapes],
        cluster="alpha",
    )  # fmt: skip
    got = answer["placements"]
    assert [one["candidate"] for one in got] == [one.index for one in want.ranked] == [1, 2, 0]
    assert [one["score"] for one in got] == [one.score for one in want.ranked]
    assert [tuple(one["interval"]) for one in got] == [one.interval for one in want.ranked]
    assert got[0]["evidence"] == "seen-shape"
    medians = [one["quantiles_s"]["q50"] for one in got]
    assert medians == sorted(medians)
    assert medians[0] < medians[-1]
    assert answer["vram"]["regime"] == "prior"  # knows nothing, hence excludes nothing
    assert answer["topology"]["model"]["version"] == "t1"
    assert answer["topology"]["no_history"] is False


async def test_a_candidate_that_cannot_hold_the_bound_is_excluded_with_the_reason(harness: Harness) -> None:
    publish_memory(harness.root / "vram")
    candidates = [{"gpu_type": name, "gpus_per_node": [1]} for name in ("k80", "a100")]
    body = {**JOB, "batch_size": 300, "candidates": candidates}
    async with serving(harness) as (client, _):
        answer = (await client.post(URL, json=body)).json()
    assert 11_430 < answer["vram"]["upper_mib"] < 40_000
    kept, gone = answer["placements"]
    assert (kept["candidate"], kept["score"], kept["excluded"]) == (1, 1.0, None)
    assert (gone["candidate"], gone["score"], gone["quantiles_s"]) == (0, None, None)
    assert gone["excluded"]["code"] == "memory-does-not-fit"
    assert "k80" in gone["excluded"]["sentence"]


async def test_a_known_cluster_adds_links_levels_hints_and_its_own_cards(harness: Harness) -> None:
    candidates = [{"gpus_per_node": [8]}, {"gpus_per_node": [4, 4], "shared_levels": 0}]
    body = {"requested_gpus": 8, "gpu_type": "h100", "model_family": "bert", "candidates": candidates}
    async with serving(harness, cluster="hgx-h100-8nic") as (client, _):
        answer = (await client.post(URL, json=body)).json()
    assert [one["gpu_class"] for one in answer["vram"]["fits_on"]] == ["h100"]
    best = next(one for one in answer["placements"] if one["candidate"] == 0)
    hint = best["affinity"][0]
    assert hint["gpus"] == list(range(8))
    assert hint["environment"]["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
    assert hint["cpu_bind"]
    assert best["limiting_link"]["link"] == "NVSWITCH"
    assert answer["topology"]["no_history"] is True
    assert answer["topology"]["level"]["policy"] in ("any", "preferred", "required")


async def test_faults_of_candidates_are_all_named_with_pointers(harness: Harness) -> None:
    types = {
        "memory_risk": 1,
        "candidates": [{"gpus_per_node": [1, -2]}, {"gpu_typ": "x", "gpus_per_node": []}],
    }
    odd: list[dict[str, object]] = [
        {"gpus_per_node": [1, 1], "hosts": ["a"]},
        {"gpus_per_node": [0]},
        {"gpus_per_node": [3]},
        {"gpus_per_node": [2], "gpu_indices": [[0, 0]]},
    ]
    shapes = {"candidates": odd}
    many = {"candidates": [{"gpus_per_node": [1]}] * 201}
    async with serving(harness) as (client, _):
        wrong_types = await client.post(URL, json=types)
        wrong_shapes = await client.post(URL, json=shapes)
        too_many = await client.post(URL, json=many)
    for answer in (wrong_types, wrong_shapes, too_many):
        check_problem(answer, 422, "invalid-request")
    assert pointers(wrong_types) == [
        "/memory_risk", "/candidates/0/gpus_per_node/1", "/candidates/1/gpu_typ",
        "/candidates/1/gpus_per_node",
    ]  # fmt: skip
    assert pointers(wrong_shapes) == [f"/candidates/{place}" for place in range(4)]
    assert pointers(too_many) == ["/candidates"]


async def test_a_batch_answers_memory_and_placements_per_item(harness: Harness) -> None:
    publish_memory(harness.root / "vram")
    jobs = [{**JOB, "batch_size": 8}, {"user": "ada"}, {"candidates": [{"gpus_per_node": [0]}]},
            {**JOB, "batch_size": 64, "candidates": [{"gpus_per_node": [1]}]}]  # fmt: skip
    async with serving(harness) as (client, _):
        body = (await client.post(URL, json={"jobs": jobs})).json()
        alone = (await client.post(URL, json=jobs[0])).json()
    first, plain, faulty, placed = body["predictions"]
    assert first["vram"] == alone["vram"]
    assert "vram" not in plain
    assert faulty["problem"]["errors"][0]["pointer"] == "/jobs/2/candidates/0"
    assert placed["placements"][0]["score"] == 1.0
    assert placed["vram"]["p50_mib"] > first["vram"]["p50_mib"]


async def test_models_lists_what_answers_for_each_target_and_follows_its_alias(harness: Harness) -> None:
    async with serving(harness) as (client, services):
        none = (await client.get("/v1/models")).json()["targets"]
        publish_memory(harness.root / "vram")
        await services.vram.poll()
        found = (await client.get("/v1/models")).json()["targets"]
    assert [one["target"] for one in none] == ["duration", "vram", "topology"]
    assert none[1]["origin"] == Origin.NONE
    assert none[1]["reason"] == "no bundle is published"
    assert (found[1]["origin"], found[1]["version"], found[1]["reason"]) == ("champion", "m1", "")


async def test_a_damaged_memory_bundle_leaves_the_formula_in_place(harness: Harness) -> None:
    publish_memory(harness.root / "vram")
    (harness.root / "vram" / "m1" / "card.md").write_text("other")
    async with serving(harness) as (client, _):
        answer = await client.post(URL, json=MEMORY_JOB)
        target = (await client.get("/v1/models")).json()["targets"][1]
        ready = await client.get("/readyz")
    assert answer.json()["vram"]["regime"] == "analytical"
    assert "bundle-corrupt" in target["reason"]
    assert ready.status_code == 200

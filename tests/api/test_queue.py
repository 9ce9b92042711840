"""The operations that change the queue: what they take, what they refuse, and that each counts once."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from serving.engine.steps import Role
from tests.api.harness import Harness, check_problem, pointers, rows
from tests.api.queueing import (
    CLUSTER,
    POOL,
    UNITS,
    fill,
    get,
    job,
    order_of,
    queueing,
    role_of,
    state_of,
    submit,
)

pytestmark = pytest.mark.anyio


async def test_a_job_that_fits_starts_at_once_and_its_receipt_has_the_forecast(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        answer = await client.post("/v1/jobs", json=job("a"))
        running = await get(client, "/v1/jobs")
    body = answer.json()
    assert (answer.status_code, body["job_id"], body["state"]) == (200, "a", "running")
    assert body["forecast"]["source"] == "model"
    assert body["forecast"]["model"]["version"] == "v1"
    assert body["forecast"]["quantiles_s"]["q50"] == pytest.approx(0.45 * 3600)
    assert [decision["kind"] for decision in body["decisions"]] == ["started"]
    assert body["decisions"][0]["reason"]["sentence"]
    assert [(item["job_id"], item["width"]) for item in running["items"]] == [("a", 8)]


async def test_the_callers_own_numbers_take_the_place_of_the_models(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        flat = (await client.post("/v1/jobs", json=job("a", forecast={"duration_s": 60}))).json()
        spread = job("b", forecast={"quantiles_s": {"q10": 10, "q90": 1000}})
        wide = (await client.post("/v1/jobs", json=spread)).json()
    assert flat["forecast"]["source"] == "caller"
    assert set(flat["forecast"]["quantiles_s"].values()) == {60.0}
    assert wide["forecast"]["quantiles_s"]["q50"] == pytest.approx(100.0)


async def test_a_batch_answers_each_job_in_its_place_and_takes_the_good_ones(harness: Harness) -> None:
    jobs = [job("a"), job("b", 0, walltime_s=0), job("a"), job("wide", 1000), job("c", UNITS)]
    async with queueing(harness) as (client, _):
        body = (await client.post("/v1/jobs", json={"jobs": jobs})).json()
        assert await order_of(client) == ["c"]
    assert [item["status"] for item in body["jobs"]] == [200, 422, 409, 422, 200]
    assert body["failed"] == 3
    assert [item.get("state") for item in body["jobs"]] == ["running", None, None, None, "waiting"]
    assert body["jobs"][1]["problem"]["errors"][0]["pointer"] == "/jobs/1/walltime_s"
    assert body["jobs"][3]["problem"]["code"] == "job-refused"


async def test_nothing_of_a_refused_job_is_kept_or_learned(harness: Harness) -> None:
    async with queueing(harness) as (client, services):
        jobs = [job("wide", 1000), job("a"), job("b", UNITS)]
        assert (await client.post("/v1/jobs", json={"jobs": jobs})).json()["failed"] == 1
        assert sorted(row.job_id for row in services.ledger.open_rows()) == ["a", "b"]
        await submit(client, job("wide", 1))
        assert "wide" in {row.job_id for row in services.ledger.open_rows()}


async def test_a_batch_above_the_limit_is_refused_whole(harness: Harness) -> None:
    async with queueing(harness, max_jobs=2) as (client, _):
        answer = await client.post("/v1/jobs", json={"jobs": [job(str(n)) for n in range(3)]})
        check_problem(answer, 422, "too-many-jobs")
        assert (await get(client, "/v1/jobs"))["total"] == 0


FAULTY: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no job_id": ({"requested_gpus": 1}, ["/job_id"]),
    "no walltime": (job("a", walltime_s=0), ["/walltime_s"]),
    "half a node": (job("a", requested_nodes=1.5), ["/requested_nodes"]),
    "nodes beyond count": (job("a", requested_nodes=1e15), ["/requested_nodes"]),
    "a time of its own": (job("a", submitted_at=1793698200), ["/submitted_at"]),
    "an attempt": (job("a", attempt=2), ["/attempt"]),
    "an unknown field": (job("a", colour=4), ["/colour"]),
    "no quantile": (job("a", forecast={"quantiles_s": {"median": 3}}), ["/forecast/quantiles_s"]),
    "a digit that is none": (job("a", forecast={"quantiles_s": {"q5²": 3}}), ["/forecast/quantiles_s"]),
    "falling quantiles": (job("a", forecast={"quantiles_s": {"q1": 3, "q5": 2}}), ["/forecast/quantiles_s"]),
    "a name with U+0000": (job("a", user="x\0y"), ["/user"]),
    "an id of too many digits": ({**job("a"), "job_id": 10**300}, ["/job_id"]),
    "a deadline in milliseconds": (job("a", deadline_at=1793698200000), ["/deadline_at"]),
    "a word that is none": (job("a", checkpoint_kind="some"), ["/checkpoint_kind"]),
    "both kinds": (job("a", forecast={"duration_s": 3, "quantiles_s": {"q50": 2}}), ["/forecast/duration_s"]),
    "several": (job("a", walltime_s=0, attempt=1), ["/attempt", "/walltime_s"]),
}  # fmt: skip


@pytest.mark.parametrize("story", FAULTY)
async def test_every_fault_of_a_submission_is_named_and_nothing_is_taken_up(
    harness: Harness, story: str
) -> None:
    body, want = FAULTY[story]
    async with queueing(harness) as (client, _):
        answer = await client.post("/v1/jobs", json=body)
        check_problem(answer, 422, "invalid-request")
        assert pointers(answer) == want
        assert (await get(client, "/v1/jobs"))["total"] == 0


IMPOSSIBLE = {
    "wider than the pool": (job("a", UNITS + 1), "TOO_WIDE"),
    "an unknown pool": (job("a", pool="cpu"), "NO_SUCH_POOL"),
    "an unknown class": (job("a", workload_class="royal"), "NO_SUCH_CLASS"),
    "a device that is not there": (job("a", gpu_type="h100"), "NO_DEVICE_OF_TYPE"),
}


@pytest.mark.parametrize("story", IMPOSSIBLE)
async def test_what_can_never_run_is_refused_with_the_reason(harness: Harness, story: str) -> None:
    body, code = IMPOSSIBLE[story]
    async with queueing(harness) as (client, _):
        answer = await client.post("/v1/jobs", json=body)
        check_problem(answer, 422, "job-refused")
        assert code in [fault["code"] for fault in answer.json()["errors"]]
        check_problem(await client.get("/v1/jobs/a/explanation"), 404, "not-found")


CHOICES: dict[str, tuple[dict[str, Any], str, str]] = {  # Any: as `job` takes it
    "a pool": ({"pool": "cpu"}, "/pool", POOL),
    "a class": ({"workload_class": "royal"}, "/workload_class", "production"),
    "a device": ({"gpu_type": "h100"}, "/gpu_type", "p100"),
}


@pytest.mark.parametrize("story", CHOICES)
async def test_a_name_that_is_not_known_is_refused_with_those_that_are(harness: Harness, story: str) -> None:
    wrong, pointer, known = CHOICES[story]
    async with queueing(harness) as (client, _):
        answer = await client.post("/v1/jobs", json=job("a", **wrong))
        assert pointers(answer) == [pointer]
        assert known in answer.json()["detail"]
        batch = await client.post("/v1/jobs", json={"jobs": [job("a", **wrong)]})
        [item] = batch.json()["jobs"]
        assert [fault["pointer"] for fault in item["problem"]["errors"]] == [f"/jobs/0{pointer}"]


async def test_who_changed_nodes_and_jobs_is_in_the_audit_trail_and_what_was_refused_is_not(
    harness: Harness,
) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("runs", UNITS), job("waits"))
        drain = {"pool": POOL, "node": 0, "state": "drain"}
        assert (await client.post("/v1/nodes", json={"nodes": [drain]})).status_code == 200
        change = {"workload_class": "production"}
        assert (await client.patch("/v1/jobs/waits", json=change)).status_code == 200
        for path, body in (("waits", {"workload_class": "royal"}), ("runs", change)):
            assert (await client.patch(f"/v1/jobs/{path}", json=body)).status_code == 409
        audit = (await get(client, "/v1/audit"))["items"]
    assert [(one["action"], one["target"]) for one in audit] == [
        ("job.change", "waits"), ("nodes.change", "nodes"),
    ]  # fmt: skip
    assert audit[0]["detail"] == change
    assert audit[1]["detail"]["nodes"][0] == {**drain, "capacity": None}
    assert all(one["request_id"] for one in audit)


async def test_a_job_that_is_known_is_a_conflict_until_it_has_ended(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        check_problem(await client.post("/v1/jobs", json=job("a")), 409, "job-conflict")
        assert (await client.post("/v1/jobs/a/outcome", json={"event": "finished"})).status_code == 200
        assert (await client.post("/v1/jobs", json=job("a"))).json()["state"] == "running"


async def test_a_full_queue_says_when_to_come_again(harness: Harness) -> None:
    async with queueing(harness, max_waiting=2) as (client, _):
        await fill(client)
        await submit(client, job("a"), job("b"))
        answer = await client.post("/v1/jobs", json=job("c"))
        check_problem(answer, 429, "queue-full")
        assert int(answer.headers["retry-after"]) > 0


async def test_a_repeated_key_gets_the_same_answer_and_has_one_effect(harness: Harness) -> None:
    async with queueing(harness) as (client, services):
        headers = {"idempotency-key": "k1"}
        calls = [client.post("/v1/jobs", json=job("a"), headers=headers) for _ in range(4)]
        answers = await asyncio.gather(*calls)
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.text for answer in answers}) == 1
        other = await client.post("/v1/jobs", json=job("b"), headers=headers)
        check_problem(other, 409, "idempotency-conflict")
        assert (await get(client, "/v1/jobs"))["total"] == 1
    async with queueing(harness) as (client, services):  # an answer outlives the process
        again = await client.post("/v1/jobs", json=job("a"), headers=headers)
        assert again.text == answers[0].text
        assert services.queue is not None
        assert services.queue.engine.sequence == 1


async def test_a_key_that_cannot_be_one_is_refused(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        answer = await client.post("/v1/jobs", json=job("a"), headers={"idempotency-key": "x" * 201})
        check_problem(answer, 422, "invalid-request")


async def test_a_withdrawn_job_is_gone_and_its_units_go_to_the_next(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a"), job("b"))
        assert (await client.delete("/v1/jobs/a")).json()["state"] == "ended"
        assert await order_of(client) == ["b"]
        body = (await client.delete("/v1/jobs/whole")).json()
        assert [(one["kind"], one["job_id"]) for one in body["decisions"]] == [("started", "b")]
        check_problem(await client.delete("/v1/jobs/a"), 404, "not-found")


async def test_outcomes_carry_a_job_from_start_to_end_and_reach_the_model(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"), job("b", UNITS))
        for body in ({"event": "started"}, {"event": "progress", "saved_s": 10}):
            harness.clock.now_s += 60
            answer = await client.post("/v1/jobs/a/outcome", json=body)
            assert (answer.status_code, answer.json()["state"]) == (200, "running")
        harness.clock.now_s += 600
        end = {"event": "finished", "state": "COMPLETED", "peak_vram_mib": 9000, "exit_code": 0}
        body = (await client.post("/v1/jobs/a/outcome", json=end)).json()
        assert body["state"] == "ended"
        assert [(one["kind"], one["job_id"]) for one in body["decisions"]] == [("started", "b")]
        learned = (await client.post("/v1/predictions", json={"user": "ada", "walltime_s": 100})).json()
        assert learned["support"]["count"] == 1
        check_problem(await client.post("/v1/jobs/a/outcome", json=end), 404, "not-found")
        wrong = await client.post("/v1/jobs/b/outcome", json={"event": "vanished"})
        check_problem(wrong, 422, "invalid-request")


async def test_an_outcome_that_does_not_fit_the_state_is_a_conflict(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a"))
        answer = await client.post("/v1/jobs/a/outcome", json={"event": "finished"})
        check_problem(answer, 409, "job-conflict")
        assert await order_of(client) == ["a"]


async def test_a_better_class_moves_a_waiting_job_ahead(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a"), job("b", walltime_s=5000))
        assert await order_of(client) == ["a", "b"]
        better = "production"
        answer = await client.patch("/v1/jobs/b", json={"workload_class": better})
        assert answer.status_code == 200, answer.text
        assert await order_of(client) == ["b", "a"]
        check_problem(await client.patch("/v1/jobs/b", json={}), 422, "invalid-request")
        unknown = await client.patch("/v1/jobs/b", json={"workload_class": "royal"})
        check_problem(unknown, 409, "job-conflict")
        check_problem(
            await client.patch("/v1/jobs/whole", json={"workload_class": better}), 409, "job-conflict"
        )
        check_problem(await client.patch("/v1/jobs/x", json={"workload_class": better}), 404, "not-found")


async def test_drained_nodes_take_no_jobs_and_come_back_whole(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        nodes = [{"pool": POOL, "node": n, "state": "drain"} for n in range(8)]
        assert (await client.post("/v1/nodes", json={"nodes": nodes})).status_code == 200
        pool = (await get(client, "/v1/capacity"))["pools"][0]
        assert (pool["total"], pool["free"], pool["down"]) == (0, 0, UNITS)
        assert (await client.post("/v1/jobs", json=job("a"))).json()["state"] == "waiting"
        back = await client.post("/v1/nodes", json={"nodes": [{"pool": POOL, "node": 3, "state": "up"}]})
        assert [one["job_id"] for one in back.json()["decisions"]] == ["a"]
        pool = (await get(client, "/v1/capacity"))["pools"][0]
        assert (pool["total"], pool["free"]) == (8, 0)


async def test_faults_of_nodes_are_all_named(harness: Harness) -> None:
    nodes = [{"pool": "cpu"}, {"pool": POOL}, {"pool": POOL, "node": 8}, {"pool": POOL, "node": 1}]
    async with queueing(harness) as (client, _):
        answer = await client.post("/v1/nodes", json={"nodes": nodes})
        check_problem(answer, 422, "invalid-request")
        assert pointers(answer) == ["/nodes/0/pool", "/nodes/1/node", "/nodes/2/node"]


async def test_a_standby_reads_and_follows_but_does_not_write(harness: Harness) -> None:
    async with queueing(harness) as (leader, _):
        await submit(leader, job("a"), job("b", UNITS))
        async with harness.serving(cluster=CLUSTER, outcomes=harness.root / "other") as (standby, services):
            await role_of(services, Role.STANDBY)
            assert await order_of(standby) == ["b"]
            answer = await standby.post("/v1/jobs", json=job("c"))
            check_problem(answer, 503, "not-the-writer")
            assert answer.headers["retry-after"]
            assert answer.headers["connection"] == "close"
            for method, path in (("DELETE", "/v1/jobs/a"), ("PATCH", "/v1/policy"), ("POST", "/v1/nodes")):
                nodes = {"nodes": [{"pool": POOL, "node": 0}]}
                bodies: dict[str, object] = {"DELETE": None, "PATCH": {"patch": {}}, "POST": nodes}
                body = bodies[method]
                refused = await standby.request(method, path, json=body)
                check_problem(refused, 503, "not-the-writer")
            await leader.delete("/v1/jobs/b")
            async with asyncio.timeout(10):
                while await order_of(standby):
                    await asyncio.sleep(0.05)
            assert await state_of(standby) == await state_of(leader)


async def test_a_service_without_a_cluster_says_that_it_keeps_no_queue(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.get("/v1/queue")
    check_problem(answer, answer.status_code, answer.json()["code"])
    assert answer.status_code in (404, 503)


async def test_a_job_whose_memory_fits_no_gpu_is_refused_by_what_it_says_that_it_computes(
    harness: Harness,
) -> None:
    async with queueing(harness) as (client, _):
        large = job("large", model_family="llama-3-70b", task="training", precision="bf16", batch_size=8,
                    sequence_length=4096)  # fmt: skip
        small = job("small", model_family="gpt2", task="training", precision="bf16", batch_size=8,
                    sequence_length=512)  # fmt: skip
        answer = await client.post("/v1/jobs", json={"jobs": [large, small]})
        refused, taken = answer.json()["jobs"]
        assert (refused["status"], refused["problem"]["errors"][0]["code"]) == (422, "MEMORY_TOO_SMALL")
        assert taken["status"] == 200


async def test_a_repeated_end_gets_the_answer_of_the_first_though_the_job_is_over(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"), job("b"))
        for method, path, body in (
            ("DELETE", "/v1/jobs/a", None),
            ("POST", "/v1/jobs/b/outcome", {"event": "finished"}),
        ):
            first, again = [
                await client.request(method, path, json=body, headers={"idempotency-key": f"end-{path}"})
                for _ in range(2)
            ]
            assert (first.status_code, again.status_code) == (200, 200)
            assert first.json() == again.json()
            check_problem(await client.request(method, path, json=body), 404, "not-found")


@pytest.mark.parametrize("case", ["too-wide", "runs"])
async def test_a_repeated_refusal_is_the_refusal_again(harness: Harness, case: str) -> None:
    method, path, body = {
        "too-wide": ("POST", "/v1/jobs", job("big", 1_000_000)),
        "runs": ("PATCH", "/v1/jobs/a", {"workload_class": "production"}),
    }[case]
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        headers = {"idempotency-key": "k"}
        first, again = [await client.request(method, path, json=body, headers=headers) for _ in range(2)]
    assert first.status_code == again.status_code >= 400
    assert again.headers["content-type"] == "application/problem+json"
    told = [{**each.json(), "request_id": ""} for each in (first, again)]
    assert told[0] == told[1]


async def test_jobs_of_a_named_cluster_are_learned_from(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a", cluster="alpha"))
        for event in ("started", "finished"):
            harness.clock.now_s += 60
            body = {"event": event, "state": "COMPLETED" if event == "finished" else None}
            assert (await client.post("/v1/jobs/a/outcome", json=body)).status_code == 200
    *_, end = rows(harness.root, "outcomes")
    assert (end["event"], end["cluster"], end["requested_gpus"]) == ("finished", "alpha", 8.0)
    assert not [each for each in harness.log_events() if "not learned" in each["event"]]


@pytest.mark.parametrize("fields", [{"state": "BANANA"}, {"state": "RUNNING"}, {"at": 5}])
async def test_an_outcome_that_could_not_be_learned_is_refused_and_ends_nothing(
    harness: Harness, fields: dict[str, Any]
) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        answer = await client.post("/v1/jobs/a/outcome", json={"event": "finished", **fields})
        check_problem(answer, 422, "invalid-request")
        assert pointers(answer) == [f"/{next(iter(fields))}"]
        assert (await get(client, "/v1/jobs"))["total"] == 1


async def test_an_end_told_by_a_clock_that_is_behind_is_learned_as_of_now(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        early = datetime.fromtimestamp(harness.clock.now_s - 90, UTC).isoformat()
        harness.clock.now_s += 30
        body = {"event": "finished", "state": "COMPLETED", "at": early}
        assert (await client.post("/v1/jobs/a/outcome", json=body)).status_code == 200
        learned = (await client.post("/v1/predictions", json={"user": "ada", "walltime_s": 100})).json()
    assert learned["support"]["count"] == 1


async def test_a_job_whose_name_has_slashes_can_be_explained_changed_ended_and_withdrawn(
    harness: Harness,
) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("team/a"), job("team/b", UNITS))
        assert (await get(client, "/v1/jobs/team/b/explanation"))["job_id"] == "team/b"
        changed = await client.patch("/v1/jobs/team%2Fb", json={"workload_class": "production"})
        assert changed.status_code == 200
        ended = await client.post("/v1/jobs/team/a/outcome", json={"event": "finished"})
        assert ended.json()["state"] == "ended"
        assert (await client.delete("/v1/jobs/team/b")).json()["state"] == "ended"


async def test_a_question_about_too_many_jobs_is_refused(harness: Harness) -> None:
    async with queueing(harness, max_jobs=2) as (client, _):
        answer = await client.post("/v1/what-if", json={"jobs": [job(str(k)) for k in range(3)]})
    check_problem(answer, 422, "too-many-jobs")


async def test_every_job_of_an_id_that_is_used_again_is_learned(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        for state in ("COMPLETED", "FAILED", "CANCELLED"):
            await submit(client, job("again"))
            harness.clock.now_s += 30.0
            end = {"event": "finished", "state": state}
            assert (await client.post("/v1/jobs/again/outcome", json=end)).status_code == 200
    found = rows(harness.root, "outcomes")
    assert [(row["state"], row["elapsed_s"]) for row in found] == [
        ("COMPLETED", 30.0), ("FAILED", 30.0), ("CANCELLED", 30.0)
    ]  # fmt: skip
    assert not [event for event in harness.log_events() if "not learned" in event["event"]]


async def test_an_evicted_job_is_learned_with_the_work_that_it_resumed(harness: Harness) -> None:
    async def tell(job_id: str, event: str, after_s: float) -> None:
        harness.clock.now_s += after_s
        answer = await client.post(f"/v1/jobs/{job_id}/outcome", json={"event": event})
        assert answer.status_code == 200

    async with queueing(harness) as (client, _):
        await submit(client, job("a", UNITS, checkpoint_kind="system"))
        await tell("a", "started", 0.0)
        harness.clock.now_s += 1000.0
        await submit(client, job("urgent", UNITS, workload_class="emergency"))
        await tell("urgent", "finished", 500.0)
        await tell("a", "started", 5.0)
        await tell("a", "finished", 200.0)
    learned = [row for row in rows(harness.root, "outcomes") if row["job_id"] == "a"]
    assert [(row["event"], row["elapsed_s"]) for row in learned] == [
        ("finished", pytest.approx(1200.0, abs=10.0))
    ]
    assert not [event for event in harness.log_events() if "not learned" in event["event"]]


async def test_what_the_queue_tells_is_learned_though_the_clock_was_set_back(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        harness.clock.now_s -= 4 * 3600.0  # that of the queue goes on
        answer = await client.post("/v1/jobs/a/outcome", json={"event": "finished", "state": "FAILED"})
        assert answer.status_code == 200
    assert [row["job_id"] for row in rows(harness.root, "outcomes")] == ["a"]


@pytest.mark.parametrize(("body", "pointer", "says"), [
    ({"event": "started", "state": "COMPLETED"}, "/state", "with the event 'finished' only"),
    ({"event": "finished", "saved_s": 3}, "/saved_s", "with the event 'progress' only"),
    ({"event": "finished", "at": 1_793_700_000 + 86400}, "/at", "ahead of this service's clock"),
    ({"event": "paused"}, "/event", "allowed are finished, progress, started"),
])  # fmt: skip
async def test_a_report_that_would_not_count_as_it_is_meant_is_refused_with_what_is_allowed(
    harness: Harness, body: dict[str, Any], pointer: str, says: str
) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        answer = await client.post("/v1/jobs/a/outcome", json=body)
        check_problem(answer, 422, "invalid-request")
        assert pointers(answer) == [pointer]
        assert says in answer.json()["errors"][0]["detail"]
        assert (await get(client, "/v1/jobs"))["total"] == 1


async def test_a_deadline_in_milliseconds_changes_no_job(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a"))
        answer = await client.patch("/v1/jobs/a", json={"deadline_at": 1793698200000})
        check_problem(answer, 422, "invalid-request")
        assert pointers(answer) == ["/deadline_at"]


async def test_an_address_names_every_method_that_it_takes(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        answer = await client.put("/v1/jobs")
        check_problem(answer, 405, "method-not-allowed")
        assert answer.headers["allow"] == "GET, HEAD, POST"
        assert "takes GET, HEAD, POST, not PUT" in answer.json()["detail"]

"""What the queue shows, tries and hands out: pages, explanations, policy, what-if, snapshots, alerts."""

import pytest

from serving.engine.steps import Role
from tests.api.harness import Harness, check_problem, pointers
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
BY_SUBMISSION = {"patch": {"order": {"by": "submit"}}}


async def test_pages_follow_each_other_without_gap_and_end(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, *(job(f"j{n:02d}", walltime_s=600 + 60 * n) for n in range(25)))
        whole = await order_of(client)
        seen: list[str] = []
        path = "/v1/queue?limit=10"
        sizes = []
        while True:
            page = await get(client, path)
            assert page["total"] == 25
            assert [item["position"] for item in page["items"]] == [
                len(seen) + 1 + n for n in range(len(page["items"]))
            ]
            seen += [item["job_id"] for item in page["items"]]
            sizes.append(len(page["items"]))
            if page["next_cursor"] is None:
                break
            path = f"/v1/queue?limit=10&cursor={page['next_cursor']}"
        assert (seen, sizes) == (whole, [10, 10, 5])
        assert whole == sorted(whole), "alike but for their length, the shorter come first"
        running = await get(client, "/v1/jobs?limit=1")
        assert (running["total"], running["next_cursor"]) == (1, None)


async def test_a_waiting_job_shows_factors_forecast_reason_and_expected_start(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a", account="lab/vision"))
        item = (await get(client, "/v1/queue"))["items"][0]
    assert (item["team"], item["workload_class"], item["width"]) == ("lab/vision", "experiment", 8)
    assert item["factors"]
    assert item["forecast"]["q10"] < item["forecast"]["q50"] < item["forecast"]["q90"]
    assert item["reason"]["sentence"]
    now_s = harness.clock.now_s
    assert now_s < item["eta"]["q50_s"] <= item["eta"]["q90_s"] <= now_s + 3600 + 1


async def test_filters_narrow_the_queue(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a", workload_class="background"), job("b", workload_class="production"))
        found = await get(client, "/v1/queue?workload_class=background")
        assert [item["job_id"] for item in found["items"]] == ["a"]
        assert (await get(client, f"/v1/queue?pool={POOL}"))["total"] == 2
        assert (await get(client, "/v1/queue?pool=cpu"))["total"] == 0


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "cursor=%21", "cursor=bzEy%00", "cursor=AAAA", "page=2"]
)
async def test_a_query_that_cannot_be_used_is_refused(harness: Harness, query: str) -> None:
    async with queueing(harness) as (client, _):
        check_problem(await client.get(f"/v1/queue?{query}"), 422, "invalid-request")


VIEWS = ("/v1/queue", "/v1/jobs", "/v1/reservations", "/v1/capacity", "/v1/fair-share", "/v1/policy")


async def test_an_unchanged_view_is_not_sent_again_and_a_changed_one_is(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        for path in VIEWS:
            first = await client.get(path)
            assert first.status_code == 200
            again = await client.get(path, headers={"if-none-match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        tag = (await client.get("/v1/queue")).headers["etag"]
        await submit(client, job("a"))
        assert (await client.get("/v1/queue", headers={"if-none-match": tag})).status_code == 200
        harness.clock.now_s += 60  # waits and ages have changed
        tag = (await client.get("/v1/queue")).headers["etag"]
        assert (await client.get("/v1/queue", headers={"if-none-match": f'"x", {tag}'})).status_code == 304


async def test_an_explanation_names_place_reason_and_what_would_change_it(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a"), job("b", 16, walltime_s=7200))
        waits = await get(client, "/v1/jobs/b/explanation")
        runs = await get(client, "/v1/jobs/whole/explanation")
    assert (waits["state"], waits["position"]) == ("waiting", 2)
    assert waits["reason"]["sentence"]
    assert waits["factors"]
    assert set(waits["eta"]) == {"q10_s", "q50_s", "q90_s"}
    assert any("one job comes before it" in text for text in waits["would_change"])
    assert (runs["state"], runs["position"]) == ("running", None)


async def test_the_first_in_the_queue_has_a_promised_start(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("most", UNITS - 4), job("a"))
        promises = (await get(client, "/v1/reservations"))["items"]
        item = (await get(client, "/v1/queue"))["items"][0]
    assert [(one["job_id"], one["pool"], one["width"]) for one in promises] == [("a", POOL, 8)]
    assert item["promise"] == {name: promises[0][name] for name in ("start_s", "latest_s")}
    assert harness.clock.now_s < promises[0]["start_s"] <= promises[0]["latest_s"]


async def test_capacity_shows_nodes_and_what_comes_free(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a", 24), job("b", 4))
        pool = (await get(client, "/v1/capacity"))["pools"][0]
        teams = await get(client, "/v1/fair-share")
    assert (pool["pool"], pool["total"], pool["free"]) == (POOL, UNITS, UNITS - 28)
    assert sum(node["free"] for node in pool["nodes"]) == UNITS - 28
    assert pool["profile"][-1]["free_q50"] == UNITS
    assert teams["sequence"] > 0


async def test_a_policy_change_counts_at_once_and_interrupts_nothing(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("long", walltime_s=36000))
        harness.clock.now_s += 1
        await submit(client, job("short", walltime_s=600))
        before = await client.get("/v1/policy")
        assert await order_of(client) == ["short", "long"]
        tag = before.headers["etag"]
        answer = await client.patch(
            "/v1/policy", json={**BY_SUBMISSION, "note": "fair"}, headers={"if-match": tag}
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["version"] == before.json()["version"] + 1
        assert answer.headers["etag"] != tag
        assert await order_of(client) == ["long", "short"]
        assert [item["job_id"] for item in (await get(client, "/v1/jobs"))["items"]] == ["whole"]
        late = await client.patch("/v1/policy", json=BY_SUBMISSION, headers={"if-match": tag})
        check_problem(late, 412, "version-conflict")
        audit = (await get(client, "/v1/audit"))["items"]
        assert [(item["action"], item["detail"]["note"]) for item in audit] == [("policy.change", "fair")]
        changed = audit[0]["detail"]["changed"]
        assert changed["order.by"][1] == "submit"
        assert set(changed) == {"order.by", "version"}


async def test_faults_of_a_policy_are_all_named_and_none_of_it_counts(harness: Harness) -> None:
    patch = {"order": {"by": "luck", "ageing_rate": -1}, "colour": "blue", "plan": {"backfill_level": 2}}
    async with queueing(harness) as (client, _):
        before = await get(client, "/v1/policy")
        answer = await client.patch("/v1/policy", json={"patch": patch})
        check_problem(answer, 422, "invalid-request")
        assert len(answer.json()["errors"]) >= 1
        assert set(pointers(answer)) == {"/patch"}
        check_problem(await client.patch("/v1/policy", json={}), 422, "invalid-request")
        whole = await client.patch("/v1/policy", json={"policy": before["policy"], "patch": {}})
        check_problem(whole, 422, "invalid-request")
        assert await get(client, "/v1/policy") == before


async def test_what_if_tells_what_would_happen_and_leaves_everything_as_it_is(harness: Harness) -> None:
    async with queueing(harness) as (client, services):
        await fill(client)
        await submit(client, job("long", walltime_s=36000))
        harness.clock.now_s += 1
        await submit(client, job("short", walltime_s=600))
        before = await state_of(client)
        policy = (await client.post("/v1/what-if", json=BY_SUBMISSION)).json()
        assert [item["job_id"] for item in policy["queue"]] == ["long", "short"]
        assert {(move["job_id"], move["before"], move["after"]) for move in policy["moved"]} == {
            ("short", 1, 2), ("long", 2, 1)
        }  # fmt: skip
        tried = {"jobs": [job("new", walltime_s=60)]}
        body = (await client.post("/v1/what-if", json=tried)).json()
        assert ("new", None) in [(move["job_id"], move["before"]) for move in body["moved"]]
        edit = {"job_id": "long", "change": {"workload_class": "emergency"}}
        assert (await client.post("/v1/what-if", json=edit)).json()["queue"] != policy["queue"]
        drain = {"nodes": [{"pool": POOL, "node": 0, "state": "drain"}]}
        assert (await client.post("/v1/what-if", json=drain)).status_code == 200
        back = {"nodes": [{"pool": POOL, "node": 0, "state": "up"}]}
        assert (await client.post("/v1/what-if", json=back)).json()["moved"] == []
        assert await state_of(client) == before
        assert services.queue is not None
        assert services.queue.engine.sequence == 3


FAULTY = {
    "nothing": ({}, 422),
    "an unknown job": ({"job_id": "x", "change": {}}, 404),
    "a job without change": ({"job_id": "whole"}, 422),
    "an unknown pool": ({"nodes": [{"pool": "cpu"}]}, 422),
    "a node that is not there": ({"nodes": [{"pool": POOL, "node": 99, "state": "down"}]}, 422),
    "a pool with nodes": ({"nodes": [{"pool": POOL, "state": "down"}]}, 422),
    "a faulty job": ({"jobs": [job("a", walltime_s=0)]}, 422),
    "a faulty policy": ({"patch": {"order": {"by": "luck"}}}, 422),
}


@pytest.mark.parametrize("story", FAULTY)
async def test_a_what_if_with_faults_is_refused(harness: Harness, story: str) -> None:
    body, status = FAULTY[story]
    async with queueing(harness) as (client, _):
        await fill(client)
        answer = await client.post("/v1/what-if", json=body)
        check_problem(answer, status, "not-found" if status == 404 else "invalid-request")


async def test_a_snapshot_carries_the_queue_to_an_empty_service(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, job("a", account="x"), job("b", 16, workload_class="background"))
        document = await get(client, "/v1/snapshot")
        order = await order_of(client)
        check_problem(await client.put("/v1/snapshot", json=document), 409, "job-conflict")
    fresh = {"store": f"sqlite:///{harness.root}/fresh.db"}
    async with queueing(harness, **fresh) as (client, _):
        answer = await client.put("/v1/snapshot", json=document)
        assert answer.status_code == 200, answer.text
        assert await order_of(client) == order
        assert await state_of(client) == document["state"]
        assert [item["action"] for item in (await get(client, "/v1/audit"))["items"]] == ["snapshot.import"]
    async with queueing(harness, **fresh) as (client, _):
        assert await state_of(client) == document["state"]


@pytest.mark.parametrize(
    "change", [{"form": "other/9"}, {"state": {}}, {"state": {"x": 1}}, {"sequence": "x"}]
)
async def test_a_snapshot_that_cannot_be_read_is_refused_and_leaves_the_queue_empty(
    harness: Harness, change: dict[str, object]
) -> None:
    async with queueing(harness) as (client, _):
        before = await get(client, "/v1/snapshot")
        answer = await client.put("/v1/snapshot", json={**before, **change})
        check_problem(answer, 422, "invalid-request")
        assert await state_of(client) == before["state"]


async def test_a_restart_on_the_same_store_gives_the_same_state(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        await submit(client, *(job(f"j{n}", n % 5 + 1) for n in range(20)))
        harness.clock.now_s += 100
        await client.post("/v1/jobs/whole/outcome", json={"event": "finished"})
        await client.patch("/v1/policy", json=BY_SUBMISSION)
        await client.post("/v1/nodes", json={"nodes": [{"pool": POOL, "node": 2, "state": "down"}]})
        before = await get(client, "/v1/snapshot")
        policy = await get(client, "/v1/policy")
    async with queueing(harness) as (client, _):
        after = await get(client, "/v1/snapshot")
        assert after == before
        assert await get(client, "/v1/policy") == policy


async def test_time_never_runs_back_even_where_the_clock_does(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await submit(client, job("a"))
        harness.clock.now_s -= 10_000
        await submit(client, job("b"))
        items = (await get(client, "/v1/jobs"))["items"]
        started_s = {item["job_id"]: item["started_s"] for item in items}
        assert started_s["a"] <= started_s["b"] < started_s["a"] + 100  # it goes on slowly
        assert min(item["elapsed_s"] for item in items) >= 0


async def test_alerts_are_empty_at_first_and_tell_of_a_starving_job(harness: Harness) -> None:
    async with queueing(harness) as (client, services):
        assert (await get(client, "/v1/alerts"))["alerts"] == []
        await fill(client)
        await submit(client, job("a"))
        harness.clock.now_s += 30 * 86400
        assert services.queue is not None
        await services.queue.monitor.look()
        alerts = (await get(client, "/v1/alerts"))["alerts"]
        assert alerts
        assert all(alert["sentence"] and alert["fix"] for alert in alerts)
        assert services.queue.hub.sequence >= 3  # watchers are told


async def test_a_ticket_is_for_the_feed_and_each_is_another(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        first, second = [(await client.post("/v1/tickets")).json() for _ in range(2)]
        assert first["ticket"] != second["ticket"]
        assert first["lives_s"] > 0


async def test_the_feed_begins_with_the_sequence_and_refuses_unknown_topics(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        check_problem(await client.get("/v1/events?topics=weather&after=x"), 422, "invalid-request")


async def test_the_page_and_its_parts_come_from_the_service_alone(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        page = await client.get("/dashboard")
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "http://" not in page.text
        assert "https://" not in page.text
        assert (await client.get("/dashboard/main.js")).status_code == 200
        check_problem(await client.get("/dashboard/absent.js"), 404, "not-found")


async def test_wrong_methods_types_and_bodies_are_problems_everywhere(harness: Harness) -> None:
    async with queueing(harness, max_body_bytes=2000) as (client, _):
        check_problem(await client.put("/v1/jobs", json={}), 405, "method-not-allowed")
        check_problem(await client.get("/v1/nothing"), 404, "not-found")
        check_problem(await client.post("/v1/jobs", content=b"a=1"), 415, "unsupported-media-type")
        kind = {"content-type": "application/json"}
        check_problem(await client.post("/v1/jobs", content=b"{", headers=kind), 400, "malformed-json")
        big = b'{"job_id": "' + b"x" * 3000 + b'"}'
        check_problem(await client.post("/v1/jobs", content=big, headers=kind), 413, "body-too-large")


async def test_a_second_instance_on_the_same_store_shows_what_the_first_has(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        await fill(client)
        async with harness.serving(cluster=CLUSTER, outcomes=harness.root / "other") as (reader, services):
            await role_of(services, Role.STANDBY)
            assert await get(reader, "/v1/snapshot") == {**await get(client, "/v1/snapshot")}


async def test_the_description_names_every_operation_of_the_queue(harness: Harness) -> None:
    async with queueing(harness) as (client, services):
        document = await get(client, "/openapi.json")
        assert services.queue is not None
        for operation in services.queue.operations:
            assert document["paths"][operation.path][operation.method.lower()]["responses"]


async def test_what_callers_filter_by_gets_into_no_header_as_it_is(harness: Harness) -> None:
    async with queueing(harness) as (client, _):
        answer = await client.get("/v1/queue", params={"workload_class": "\x02 \u00e9\u4e2d\r\nX-Evil: 1"})
    assert (answer.status_code, answer.json()["total"]) == (200, 0)
    assert answer.headers["etag"].isascii()
    assert answer.headers["etag"].isprintable()
    assert "x-evil" not in answer.headers

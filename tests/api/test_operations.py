"""Health, readiness, metrics, models, the description of the API, and the errors of the framework."""

import re
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from serving.app import create_app
from serving.problems import catalogue
from tests.api.harness import Harness, check_problem

pytestmark = pytest.mark.anyio


async def test_liveness_depends_on_nothing(harness: Harness) -> None:
    bare = Harness(harness.root / "bare")
    async with bare.serving() as (client, _):
        for path in ("/livez", "/healthz"):
            assert (await client.get(path)).json() == {"status": "ok"}


async def test_with_a_champion_the_service_is_ready(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.get("/readyz")
    body = answer.json()
    assert (answer.status_code, body["status"], body["model_origin"], body["reason"]) == (
        200,
        "ready",
        "champion",
        "",
    )
    assert {check["name"]: check["ok"] for check in body["checks"]} == {
        "model": True, "champion": True, "outcome_log": True}  # fmt: skip


async def test_without_a_champion_the_fallback_answers_and_readiness_says_so(harness: Harness) -> None:
    bare = Harness(harness.root / "bare").with_fallback()
    async with bare.serving() as (client, _):
        ready = await client.get("/readyz")
        answer = await client.post("/v1/predictions", json={})
    body = ready.json()
    assert (ready.status_code, body["status"], body["model_origin"]) == (200, "degraded", "fallback")
    assert "bundle-missing" in body["reason"]
    assert answer.json()["model"]["version"] == "fallback-1"


async def test_without_any_bundle_the_service_is_not_ready(harness: Harness) -> None:
    bare = Harness(harness.root / "bare")
    async with bare.serving() as (client, _):
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert (answer.json()["status"], answer.json()["model_origin"]) == ("unavailable", "none")
    assert "champion" in answer.json()["reason"]
    assert "fallback" in answer.json()["reason"]


async def test_a_corrupt_champion_at_the_start_gives_way_to_the_previous_one(harness: Harness) -> None:
    harness.store.publish("v0", alias="previous")
    harness.store.point("champion", "v1", "0" * 64)
    async with harness.serving() as (client, _):
        body = (await client.get("/readyz")).json()
        models = (await client.get("/v1/models")).json()
    assert (body["status"], body["model_origin"]) == ("degraded", "last-good")
    assert "bundle-corrupt" in body["reason"]
    assert models["served"]["version"] == "v0"
    assert [alias["alias"] for alias in models["aliases"]] == ["champion", "previous", "challenger"]
    assert models["aliases"][2]["problem"]


async def test_metrics_name_the_model_and_count_by_route_template(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post("/v1/predictions", json={"user": "ada", "job_id": "481516"})
        await client.post("/v1/predictions", json={"walltime_s": -1})
        await client.get("/nowhere/at/all")
        await client.get("/problems/no-model")
        await client.request("BREW", "/livez")
        answer = await client.get("/metrics")
    text = answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    counted = set(re.findall(r'_count\{method="(\w+)",route="([^"]+)",status="(\d+)"\}', text))
    assert counted == {
        ("POST", "/v1/predictions", "200"), ("POST", "/v1/predictions", "422"), ("GET", "unmatched", "404"),
        ("GET", "/problems/{code}", "200"), ("other", "/livez", "405")}  # fmt: skip
    assert 'predictor_forecasts_total{fallback="no-history-of-this-user"} 1.0' in text
    assert re.search(
        r'predictor_model_info\{digest="\w{64}",.*origin="champion",target="duration",version="v1"\} 1.0',
        text,
    )
    assert "predictor_model_age_seconds" in text
    assert '"ada"' not in text
    assert "481516" not in text


async def test_a_request_id_is_echoed_made_or_taken_from_the_trace(harness: Harness) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with harness.serving() as (client, _):
        given = await client.get("/livez", headers={"X-Request-Id": "abc-1"})
        traced = await client.get("/livez", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        forged = await client.get("/livez", headers={"X-Request-Id": "a b\tc"})
        both = await client.post("/v1/predictions", json={}, headers={"X-Request-Id": "abc-2"})
    assert given.headers["x-request-id"] == "abc-1"
    assert traced.headers["x-request-id"] == trace
    assert re.fullmatch(r"[0-9a-f]{32}", forged.headers["x-request-id"])
    assert both.headers["x-request-id"] == "abc-2"


async def test_failed_requests_are_logged_as_json_with_their_id(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.get("/nowhere", headers={"X-Request-Id": "abc-1"})
        await client.get("/livez", headers={"X-Request-Id": "abc-2"})
    lines = [event for event in harness.log_events() if event["event"] == "request"]
    assert [(line["request_id"], line["status"], line["level"]) for line in lines] == [("abc-1", 404, "info")]


async def test_all_requests_are_logged_when_asked_for(harness: Harness) -> None:
    async with harness.serving(log_requests="all") as (client, _):
        await client.get("/livez")
    assert any(event["event"] == "request" and event["status"] == 200 for event in harness.log_events())


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/predictions/", "/v2/models", "/problems/none"])
async def test_unknown_addresses_are_problems(harness: Harness, path: str) -> None:
    async with harness.serving() as (client, _):
        check_problem(await client.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/predictions"), ("DELETE", "/v1/outcomes"), ("POST", "/livez")]
)
async def test_wrong_methods_are_problems_that_name_the_right_ones(
    harness: Harness, method: str, path: str
) -> None:
    async with harness.serving() as (client, _):
        answer = await client.request(method, path)
    check_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] in answer.json()["detail"]


async def test_every_problem_type_leads_to_its_explanation(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        for code, kind in catalogue().items():
            answer = await client.get(f"/problems/{code}")
            assert (answer.json()["status"], answer.json()["title"]) == (kind.status, kind.title)


async def test_the_documentation_page_needs_nothing_from_outside(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"https?://|//[a-z]", answer.text)
    assert 'fetch("openapi.json")' in answer.text


async def openapi(client: httpx.AsyncClient) -> dict[str, Any]:
    document: dict[str, Any] = (await client.get("/openapi.json")).json()
    return document


async def test_every_operation_is_described_with_stable_ids_and_errors(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        document = await openapi(client)
    operations = {
        operation["operationId"]: operation
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert set(operations) == {
        "create_predictions", "record_outcomes", "issue_ticket", "livez", "healthz", "readyz", "metrics",
        "list_models", "explain_problem",
    }  # fmt: skip
    for operation in operations.values():
        assert operation["summary"]
        for status, response in operation["responses"].items():
            if status >= "400" and operation["operationId"] != "readyz":
                assert list(response["content"]) == ["application/problem+json"]
                assert response["content"]["application/problem+json"]["examples"]
    assert set(operations["create_predictions"]["responses"]) == {
        "200",
        "400",
        "401",
        "403",
        "413",
        "415",
        "422",
        "429",
        "500",
        "503",
    }
    assert set(operations["record_outcomes"]["responses"]) == {
        "200",
        "400",
        "401",
        "403",
        "409",
        "413",
        "415",
        "422",
        "429",
        "500",
        "503",
    }
    for name in ("create_predictions", "record_outcomes"):
        assert operations[name]["requestBody"]["content"]["application/json"]["examples"]
        assert operations[name]["responses"]["200"]["content"]["application/json"]["examples"]


async def test_every_reference_of_the_description_leads_somewhere(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        text = (await client.get("/openapi.json")).text
        schemas = (await openapi(client))["components"]["schemas"]
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names <= set(schemas)
    assert schemas["Job"]["additionalProperties"] is False
    assert schemas["Job"]["properties"]["walltime_s"]["anyOf"][0]["minimum"] == 0


async def test_an_unforeseen_error_is_a_problem_and_a_log_entry(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    async with harness.serving() as (client, services):
        monkeypatch.setattr(services.accuracy, "remember", stumble)
        monkeypatch.setattr(services.accuracy, "coverage", stumble)
        for answer in (await client.post("/v1/predictions", json={}), await client.get("/v1/models")):
            check_problem(answer, 500, "internal-error")
            assert "secret" not in answer.text
    errors = [event for event in harness.log_events() if event["event"] == "request failed"]
    assert [event["level"] for event in errors] == ["error", "error"]
    assert all("a secret of the inside" in event["exception"] for event in errors)


async def test_a_caller_that_hangs_up_leaves_no_trace(harness: Harness) -> None:
    parts = iter([{"type": "http.request", "body": b'{"us', "more_body": True}, {"type": "http.disconnect"}])
    sent: list[object] = []

    async def receive() -> Any:
        return next(parts)

    async def send(message: object) -> None:
        sent.append(message)

    app = create_app(harness.services())
    scope = {
        "type": "http", "method": "POST", "path": "/v1/predictions", "query_string": b"", "root_path": "",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    async with app.router.lifespan_context(app):
        await app(scope, receive, send)
    assert sent == []
    assert not [event for event in harness.log_events() if event["level"] == "error"]


async def test_hot_requests_do_without_the_framework_and_are_measured_all_the_same(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise AssertionError("a hot request entered the framework")

    async with harness.serving() as (client, services):
        monkeypatch.setattr(Starlette, "__call__", refuse)
        answer = await client.post("/v1/predictions", json={"user": "ada"}, headers={"x-request-id": "r-1"})
        broken = await client.post("/v1/predictions", json={"users": "ada"})
        exposition = services.telemetry.exposition().decode()
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "r-1")
    check_problem(broken, 422, "invalid-request")
    assert 'route="/v1/predictions",status="200"' in exposition
    assert 'route="/v1/predictions",status="422"' in exposition

"""Every status of an error, provoked on a real service: each is a problem document of RFC 9457."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from serving.problems import PROBLEM_TYPE, catalogue
from tests.services.live_service import LiveService, live_service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
BURST, MOST_WAITING = 60, 3
JSON = {"content-type": "application/json"}
JOB = {"requested_gpus": 60, "walltime_s": 3600, "forecast": {"duration_s": 60}}


class Caller:
    """Sends requests with keys of several scopes."""

    def __init__(self, service: LiveService, admin: dict[str, str]) -> None:
        self.service = service
        self.admin = admin
        self.predict = service.key("predict")

    def __call__(
        self, method: str, path: str, *, key: dict[str, str] | None = None, **how: Any
    ) -> httpx.Response:
        headers = {**(self.admin if key is None else key), **how.pop("headers", {})}
        return self.service.client.request(method, self.service.url + path, headers=headers, **how)


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    bounds = {
        "PREDICTOR_RATE_BURST": str(BURST), "PREDICTOR_RATE_PER_S": "20", "PREDICTOR_MAX_BODY_BYTES": "4096",
        "PREDICTOR_MAX_WAITING": str(MOST_WAITING), "PREDICTOR_MAX_JOBS": "2",
        "PREDICTOR_KEYS_REFRESH_S": "0.1",
    }  # fmt: skip
    with live_service(tmp_path_factory.mktemp("problems"), secure=True, settings=bounds) as service:
        caller = Caller(service, service.key("admin"))
        service.start()
        yield caller


def conflicting(call: Caller) -> httpx.Response:
    call("POST", "/v1/jobs", json={"job_id": "twice", **JOB})
    answer = call("POST", "/v1/jobs", json={"job_id": "twice", **JOB})
    call("DELETE", "/v1/jobs/twice")
    return answer


def key_used_for_another(call: Caller) -> httpx.Response:
    key = {"idempotency-key": "one"}
    call("POST", "/v1/nodes", json={"nodes": [{"pool": "gpu", "node": 0, "state": "up"}]}, headers=key)
    return call("POST", "/v1/nodes", json={"nodes": [{"pool": "gpu", "node": 1, "state": "up"}]}, headers=key)


def too_often(call: Caller) -> httpx.Response:
    key = call.service.key("predict")
    answers = []
    for _ in range(20):  # the new key is known in a moment
        answers = [call("GET", "/v1/policy", key=key) for _ in range(BURST)]
        if answers[-1].status_code == 429:
            break
    return answers[-1]


def too_many_waiting(call: Caller) -> httpx.Response:
    for number in range(MOST_WAITING + 1):
        call("POST", "/v1/jobs", json={"job_id": f"waits-{number}", **JOB})
    answer = call("POST", "/v1/jobs", json={"job_id": "one-more", **JOB})
    for number in range(MOST_WAITING + 1):  # the next test finds room
        call("DELETE", f"/v1/jobs/waits-{number}")
    return answer


def damaged_store(call: Caller) -> httpx.Response:
    """A row that the service itself would never write."""
    with sqlite3.connect(call.service.store.removeprefix("sqlite:///")) as database:
        database.execute(
            "INSERT INTO audit (moment_s, actor, action, target, detail, request_id) "
            "VALUES (0, '', '', '', '{broken', '')"
        )
    database.close()
    return call("GET", "/v1/audit")


def too_large(call: Caller) -> httpx.Response:
    return call("POST", "/v1/jobs", content=b" " * 5000, headers=JSON)


CASES: dict[str, tuple[int, Callable[[Caller], httpx.Response]]] = {
    "malformed-json": (400, lambda call: call("POST", "/v1/jobs", content=b"{", headers=JSON)),
    "unauthenticated": (401, lambda call: call("GET", "/v1/queue", key={})),
    "forbidden": (403, lambda call: call("PATCH", "/v1/policy", json={}, key=call.predict)),
    "not-found": (404, lambda call: call("GET", "/v1/nothing")),
    "not-found: a job": (404, lambda call: call("GET", "/v1/jobs/none/explanation")),
    "method-not-allowed": (405, lambda call: call("PUT", "/v1/queue")),
    "job-conflict": (409, conflicting),
    "idempotency-conflict": (409, key_used_for_another),
    "version-conflict": (
        412, lambda call: call("PATCH", "/v1/policy", json={"patch": {}}, headers={"if-match": '"99"'}),
    ),
    "body-too-large": (413, too_large),
    "unsupported-media-type": (415, lambda call: call("POST", "/v1/jobs", content=b"{}")),
    "invalid-request": (422, lambda call: call("POST", "/v1/jobs", json={"job_id": "x", "gpus": 1})),
    "invalid-request: a query": (422, lambda call: call("GET", "/v1/queue?limit=0")),
    "job-refused": (
        422, lambda call: call("POST", "/v1/jobs", json={"job_id": "wide", "requested_gpus": 10**6}),
    ),
    "too-many-jobs": (
        422, lambda call: call("POST", "/v1/jobs", json={"jobs": [{"job_id": str(n)} for n in range(3)]}),
    ),
    "too-many-requests": (429, too_often),
    "queue-full": (429, too_many_waiting),
    "internal-error": (500, damaged_store),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_a_problem_document(call: Caller, case: str) -> None:
    status, provoke = CASES[case]
    code = case.partition(":")[0]
    answer = provoke(call)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_TYPE
    body = answer.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, f"/problems/{code}")
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == answer.request.url.path
    assert body["request_id"] == answer.headers["x-request-id"]
    assert catalogue()[code].status == status
    assert "Traceback" not in answer.text


def test_the_statuses_of_the_promise_are_all_among_them() -> None:
    wanted = {401, 403, 404, 405, 409, 413, 415, 422, 429, 500}
    assert wanted <= {status for status, _ in CASES.values()}

"""The service takes and refuses the same texts whatever store it has: one of them cannot keep U+0000."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.harness import Harness, check_problem, pointers
from tests.api.queueing import fill, job, queueing, submit

pytestmark = pytest.mark.anyio
DEADLINE = {"deadline_at": 1893456000}
LONGEST = "j" * 255  # of a job_id
NUL: dict[str, tuple[str, str, dict[str, Any] | None, str]] = {
    "the id of a job": ("POST", "/v1/jobs", job("a\0b"), "/job_id"),
    "a job of a batch": ("POST", "/v1/jobs", {"jobs": [job("a"), job("b", user="x\0")]}, "/jobs/1/user"),
    "a team": ("POST", "/v1/jobs", job("a", account="\0"), "/account"),
    "the name of a job": ("POST", "/v1/jobs", job("a", job_name="x\n\0\n"), "/job_name"),
    "the note of a policy": ("PATCH", "/v1/policy", {"patch": {}, "note": "x\0"}, "/note"),
    "a pool": ("POST", "/v1/nodes", {"nodes": [{"pool": "gpu\0", "node": 0}]}, "/nodes/0/pool"),
    "a job in the path": ("PATCH", "/v1/jobs/a%00b", DEADLINE, "/path/job_id"),
    "a job in the path without a body": ("DELETE", "/v1/jobs/a%00b", None, "/path/job_id"),
    "a job in the path that is read": ("GET", "/v1/jobs/a%00b/explanation", None, "/path/job_id"),
    "a parameter of the query": ("GET", "/v1/queue?pool=%00", None, "/query/pool"),
    "an outcome": ("POST", "/v1/outcomes", {"job_id": "a\0b", "event": "started", "started_at": 1793700000,
                                            "submitted_at": 1793700000}, "/job_id"),
    "a forecast": ("POST", "/v1/predictions", {"user": "a\0"}, "/user"),
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    new_database: Callable[[], str] = request.getfixturevalue("postgres").new_database
    return new_database()


async def test_a_text_with_nul_is_refused_by_the_name_of_its_field(harness: Harness, store: str) -> None:
    async with queueing(harness, store=store) as (client, _):
        for story, (method, path, body, pointer) in NUL.items():
            answer = await client.request(method, path, json=body)
            check_problem(answer, 422, "invalid-request")
            assert pointers(answer) == [pointer], story
            assert "U+0000" in answer.json()["errors"][0]["detail"], story
        await submit(client, job("good"))


async def test_every_store_keeps_the_longest_id_and_odd_texts(harness: Harness, store: str) -> None:
    odd = "é\n\t\x01\x7f\u2028\U0001f600'\"\\"
    async with queueing(harness, store=store) as (client, _):
        await fill(client)
        await submit(client, job(LONGEST), job("a", user=odd, account=odd, job_name=odd))
        too_long = await client.post("/v1/jobs", json=job(LONGEST + "j"))
        check_problem(too_long, 422, "invalid-request")
        assert pointers(too_long) == ["/job_id"]
        assert (await client.patch(f"/v1/jobs/{LONGEST}", json=DEADLINE)).status_code == 200
        note = await client.patch("/v1/policy", json={"patch": {"order": {"guard_s": 60}}, "note": odd})
        assert note.status_code == 200
        assert (await client.get("/v1/policy/history")).json()["items"][0]["note"] == odd
        assert (await client.get("/v1/audit")).json()["items"][1]["target"] == LONGEST

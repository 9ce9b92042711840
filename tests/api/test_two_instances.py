"""This module checks that instances of one queue keep outcome logs of their own, each of them whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from predictor.errors import LockHeldError
from tests.api.harness import Harness
from tests.api.queueing import get, job, queueing, submit

pytestmark = pytest.mark.anyio
SAID: dict[str, Any] = {"user": "ada", "account": "vision", "walltime_s": 7200}  # Any: JSON values


def ends(directory: Path) -> list[dict[str, object]]:
    lines = [line for path in directory.glob("outcomes-*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


async def test_a_second_instance_may_not_write_the_log_of_the_first(harness: Harness) -> None:
    async with queueing(harness) as (client, services):
        with pytest.raises(LockHeldError, match="another service writes outcomes"):
            harness.services(cluster="philly-11cb48")
        await submit(client, job("a"))
        assert services.ledger.fault == ""


async def test_an_end_told_to_another_instance_is_whole_in_the_log_of_that_one(harness: Harness) -> None:
    """The second has never heard of the submission but by the event log of the queue."""
    async with queueing(harness) as (client, _):
        pool = (await get(client, "/v1/capacity"))["pools"][0]
        wanted = {**SAID, "gpu_type": pool["gpu_type"] or None}
        await submit(client, job("a", **wanted))
    harness.clock.now_s += 600
    other = harness.root / "outcomes-of-b"
    async with queueing(harness, outcomes=other) as (client, _):
        answer = await client.post("/v1/jobs/a/outcome", json={"event": "finished", "state": "COMPLETED"})
        assert answer.status_code == 200
    assert ends(harness.root / "outcomes") == []
    [row] = ends(other)
    told = {name: row.get(name) for name in ("user", "account", "walltime_s", "elapsed_s", "state")}
    assert told == {
        "user": "ada", "account": "vision", "walltime_s": 7200, "elapsed_s": 600.0, "state": "COMPLETED",
    }  # fmt: skip


async def test_a_withdrawn_job_is_over_for_the_models_too(harness: Harness) -> None:
    """Else its row would be kept among the open ones, and its end would be unknown to retraining."""
    async with queueing(harness) as (client, services):
        await submit(client, job("whole", 64), job("waits"))
        for name in ("waits", "whole"):
            assert (await client.delete(f"/v1/jobs/{name}")).status_code == 200
        assert list(services.ledger.open_rows()) == []
    told = {
        str(row["job_id"]): (row["state"], row.get("started_at") is None)
        for row in ends(harness.root / "outcomes")
    }
    assert told == {"waits": ("CANCELLED", True), "whole": ("CANCELLED", False)}

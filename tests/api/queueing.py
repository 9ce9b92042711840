"""A service with a queue of 64 GPUs in the test's own process, and short ways to talk to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from serving.engine.steps import Role
from serving.services import Services
from tests.api.harness import Harness

CLUSTER = "philly-11cb48"  # one pool "gpu": eight nodes of eight GPUs
POOL, UNITS = "gpu", 64
Body = dict[str, Any]  # JSON values


@asynccontextmanager
async def queueing(
    harness: Harness, **values: Any  # Any: fields of the settings
) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:  # fmt: skip
    """Run a service that leads, and yield a client for it."""
    async with harness.serving(cluster=CLUSTER, **values) as (client, services):
        await role_of(services, Role.LEADING)
        yield client, services


async def role_of(services: Services, role: Role) -> None:
    """Wait until a service has a role."""
    assert services.queue is not None
    async with asyncio.timeout(20):
        while services.queue.engine.role is not role:
            await asyncio.sleep(0.01)


def job(job_id: str, gpus: int = 8, **fields: Any) -> Body:  # Any: fields of a submission
    """Return a submission."""
    return {"job_id": job_id, "requested_gpus": gpus, "walltime_s": 3600, "user": "ada", **fields}


async def submit(client: httpx.AsyncClient, *jobs: Body) -> Body:
    """Submit a batch, all of which must be taken up."""
    answer = await client.post("/v1/jobs", json={"jobs": list(jobs)})
    body: Body = answer.json()
    assert (answer.status_code, body.get("failed")) == (200, 0), body
    return body


async def fill(client: httpx.AsyncClient) -> None:
    """Let one job hold all units."""
    await submit(client, job("whole", UNITS))


async def get(client: httpx.AsyncClient, path: str) -> Body:
    """Read a view."""
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    body: Body = answer.json()
    return body


async def order_of(client: httpx.AsyncClient) -> list[str]:
    """Return the waiting jobs in their order."""
    return [item["job_id"] for item in (await get(client, "/v1/queue?limit=500"))["items"]]


async def state_of(client: httpx.AsyncClient) -> Body:
    """Return the whole state."""
    state: Body = (await get(client, "/v1/snapshot"))["state"]
    return state

"""This module measures the live service with a long queue: requests, subscribers, policy changes.

::

    python benchmarks/live.py [--waiting 50000] [--watchers 1000] [--seconds 10] [--rate 100] [--json OUT]

Requests leave at a fixed rate, whether earlier ones were answered or not, so that waiting is not hidden.
Client and server share the machine; where it is busy, all figures are too high.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import websockets
from rich.console import Console

CLUSTER = "philly-11cb48"
CHUNK = 2000


def job(number: int) -> dict[str, Any]:  # Any: JSON values
    """Return a submission, of a size and length that differ."""
    return {
        "job_id": f"j{number}", "requested_gpus": 1 + number % 8, "walltime_s": 3600 + 60 * (number % 997),
        "user": f"u{number % 200}", "account": f"t{number % 20}",
        "forecast": {"duration_s": 600 + number % 5000},
    }  # fmt: skip


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile, in the unit of the values."""
    return statistics.quantiles(values, n=100)[98]


async def leads(client: httpx.AsyncClient) -> bool:
    """Whether the service is up and may write."""
    try:
        return '"leading' in (await client.get("/readyz")).text
    except httpx.TransportError:
        return False


@contextmanager
def running_service(**settings: str) -> Iterator[tuple[str, int]]:
    """Start a service with a queue and a store of its own; give its URL and the id of its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "predictor.cli", "serve", "--insecure-dev", "--cluster", CLUSTER]
        command += ["--port", str(port), "--models", str(folder / "none"), "--outcomes", str(folder / "o")]
        environ = {
            **os.environ, "PREDICTOR_STORE": f"sqlite:///{folder}/store.db",
            "PREDICTOR_FALLBACK": str(Path(__file__).parents[1] / "models" / "fallback"), **settings,
        }  # fmt: skip
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        try:
            yield f"http://127.0.0.1:{port}", server.pid
        finally:
            server.kill()
            server.wait()


async def until_ready(client: httpx.AsyncClient) -> None:
    """Wait until the service may write."""
    async with asyncio.timeout(600):  # what is compiled once takes long where it never was
        while not await leads(client):
            await asyncio.sleep(0.2)


async def fill(client: httpx.AsyncClient, waiting: int) -> None:
    """Let one job hold all units, and others wait."""
    whole = {"job_id": "whole", "requested_gpus": 60, "walltime_s": 864000}
    (await client.post("/v1/jobs", json=whole)).raise_for_status()
    for first in range(0, waiting, CHUNK):
        jobs = [job(number) for number in range(first, min(first + CHUNK, waiting))]
        (await client.post("/v1/jobs", json={"jobs": jobs}, timeout=300)).raise_for_status()


async def at_rate(
    client: httpx.AsyncClient, rate: float, seconds: float, first: int
) -> tuple[list[float], list[float]]:
    """Submit and read pages in turn at a fixed rate; return latencies in ms of both."""
    submits: list[float] = []
    pages: list[float] = []
    began = time.perf_counter()

    async def one(number: int) -> None:
        due = began + number / rate
        await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        if number % 2:
            answer = await client.post("/v1/jobs", json=job(first + number))
            submits.append(1e3 * (time.perf_counter() - due))
        else:
            answer = await client.get("/v1/queue?limit=50")
            pages.append(1e3 * (time.perf_counter() - due))
        answer.raise_for_status()

    await asyncio.gather(*(one(number) for number in range(int(rate * seconds))))
    return submits, pages


async def seen_by(client: httpx.AsyncClient, url: str, watchers: int, first: int) -> list[float]:
    """Return after how many ms each watcher saw a submission."""
    address = url.replace("http", "ws") + "/v1/live?topics=queue"
    sockets: list[Any] = []  # Any: connections of websockets
    for start in range(0, watchers, 50):
        sockets += await asyncio.gather(
            *(websockets.connect(address, open_timeout=60) for _ in range(min(50, watchers - start)))
        )
    for each in sockets:
        await each.recv()  # the greeting

    async def wait(feed: Any) -> float:  # Any: as above
        while '"changes"' not in await feed.recv():
            pass
        return time.perf_counter()

    waits = [asyncio.create_task(wait(each)) for each in sockets]
    await asyncio.sleep(0.2)
    began = time.perf_counter()
    (await client.post("/v1/jobs", json=job(first))).raise_for_status()
    seen = await asyncio.gather(*waits)
    await asyncio.gather(*(each.close() for each in sockets))
    return [1e3 * (at - began) for at in seen]


async def policy_change(client: httpx.AsyncClient) -> float:
    """Return after how many ms a policy change was answered and the new order read."""
    before = (await client.get("/v1/queue?limit=1")).json()["items"][0]["job_id"]
    began = time.perf_counter()
    patch = {"patch": {"order": {"by": "submit"}}}
    (await client.patch("/v1/policy", json=patch, timeout=60)).raise_for_status()
    page = (await client.get("/v1/queue?limit=1")).json()
    took_ms = 1e3 * (time.perf_counter() - began)
    if page["items"][0]["job_id"] == before:
        raise RuntimeError(f"the order did not change: {before} is first")
    return took_ms


async def measure(url: str, options: argparse.Namespace) -> dict[str, float]:
    """Return all figures, in milliseconds."""
    limits = httpx.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        await until_ready(client)
        await fill(client, options.waiting)
        await at_rate(client, options.rate, 1.0, 10**7)
        submits, pages = await at_rate(client, options.rate, options.seconds, 2 * 10**7)
        seen = await seen_by(client, url, options.watchers, 3 * 10**7)
        changed = await policy_change(client)
    return {
        "submit_p50_ms": statistics.median(submits), "submit_p99_ms": p99(submits),
        "page_p50_ms": statistics.median(pages), "page_p99_ms": p99(pages),
        "seen_p50_ms": statistics.median(seen), "seen_p99_ms": p99(seen), "policy_ms": changed,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the live service with a long queue.")
    parser.add_argument("--waiting", type=int, default=50_000)
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=100.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    console = Console()
    with running_service() as (url, _):
        figures = asyncio.run(measure(url, options))
    console.print(
        f"{options.waiting:,} waiting, {options.watchers:,} watchers, {options.rate:.0f} requests/s"
    )
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for title, value in figures.items():
        console.print(f"{title:<16}{value:>10.1f}")
    if options.json is not None:
        options.json.write_text(json.dumps({"load": os.getloadavg(), **figures}, indent=2))


if __name__ == "__main__":
    main()

"""This module puts a steady load on the live service for a long time, and tells whether its memory grows.

::

    python benchmarks/soak.py [--minutes 60] [--rate 20] [--waiting 500] [--limit 32] [--json OUT]

Jobs are submitted, started and ended at the same rate, pages and explanations are read, policies and classes
changed and tried, and watchers come and go. After a warm-up, in which caches, history and the ring of the
last changes fill, the slope of the resident memory is fitted; it fails where that grew beyond the limit.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import websockets
from live import job, running_service, until_ready
from rich.console import Console

MIB = 2**20


@dataclass
class Day:
    """What a scheduler and its users do, over and over.

    Attributes:
        waiting, running: jobs in the order in which they came.
        statuses: how many requests were answered with what.
    """

    client: httpx.AsyncClient
    target: int
    waiting: deque[str] = field(default_factory=deque)
    running: deque[str] = field(default_factory=deque)
    statuses: Counter[int] = field(default_factory=Counter)
    number: int = 0

    async def fill(self) -> None:
        """Submit as many jobs as shall wait."""
        jobs = [self._next() for _ in range(self.target)]
        answer = await self.client.post("/v1/jobs", json={"jobs": jobs}, timeout=120)
        answer.raise_for_status()
        for receipt in answer.json()["jobs"]:
            self._take(receipt)

    async def step(self) -> None:
        """Do the next thing: a submission and an end in turns, and now and then something else."""
        number = self.number
        if number % 2:
            await self._end()
        else:
            key = {"idempotency-key": f"k{number}"}
            self._take(await self._send("POST", "/v1/jobs", self._next(), headers=key))
            return
        self.number += 1
        some = self.waiting[number % len(self.waiting)] if self.waiting else ""
        if number % 5 == 0:
            await self._send("GET", "/v1/queue?limit=50")
        elif number % 7 == 0:
            await self._send("GET", f"/v1/jobs/{some}/explanation")
        elif number % 11 == 0:
            await self._send(
                "POST", "/v1/what-if", {"patch": {"order": {"guard_s": 60 * (1 + number % 100)}}}
            )
        elif number % 101 == 0:
            await self._send("PATCH", "/v1/policy", {"patch": {"order": {"guard_s": 3600 + number % 977}}})
        elif number % 13 == 0:
            await self._send("PATCH", f"/v1/jobs/{self.waiting[-1]}", {"workload_class": "production"})
        elif number % 17 == 0:
            await self._send("GET", "/metrics")

    async def _end(self) -> None:
        if len(self.waiting) > self.target:
            await self._send("DELETE", f"/v1/jobs/{self.waiting.popleft()}")
        elif self.running:
            body = {"event": "finished", "state": "COMPLETED", "peak_vram_mib": 1000.0}
            done = await self._send("POST", f"/v1/jobs/{self.running.popleft()}/outcome", body)
            self._started(done)

    def _next(self) -> dict[str, Any]:  # Any: JSON values
        self.number += 1
        made = job(self.number)
        if self.number % 4 == 1:
            made.pop("forecast")  # let the model forecast it
        return made

    def _take(self, receipt: dict[str, Any]) -> None:
        if receipt.get("status") == 200:
            self.waiting.append(receipt["job_id"])
            self._started(receipt)

    def _started(self, receipt: dict[str, Any]) -> None:
        for decision in receipt.get("decisions", ()):
            if decision["kind"] == "started":
                self.running.append(decision["job_id"])
                if decision["job_id"] in self.waiting:
                    self.waiting.remove(decision["job_id"])

    async def _send(self, method: str, path: str, body: object = None, **how: Any) -> dict[str, Any]:
        answer = await self.client.request(method, path, json=body, **how)
        self.statuses[answer.status_code] += 1
        found: dict[str, Any] = answer.json() if "json" in answer.headers.get("content-type", "") else {}
        return found


async def watch(url: str, stay_s: float) -> None:
    """Watch the feed, leave after a while, and come back, for ever."""
    address = url.replace("http", "ws") + "/v1/live"
    while True:
        async with websockets.connect(address) as feed:
            until = time.monotonic() + stay_s
            while time.monotonic() < until:
                await feed.recv()


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


async def soak(url: str, pid: int, options: argparse.Namespace) -> tuple[list[tuple[float, float]], Day]:
    """Return samples of seconds and MiB, and what was done."""
    samples: list[tuple[float, float]] = []
    total_s = 60.0 * options.minutes
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        await until_ready(client)
        day = Day(client, options.waiting)
        await day.fill()
        watchers = [asyncio.create_task(watch(url, stay_s)) for stay_s in (3.0, 20.0, 1e9)]
        began = time.monotonic()
        done = 0
        while (at_s := time.monotonic() - began) < total_s:
            if len(samples) <= 300 * at_s / total_s:
                samples.append((at_s, resident_mib(pid)))
            await day.step()
            done += 1
            await asyncio.sleep(max(began + done / options.rate - time.monotonic(), 0.0))
        for task in watchers:
            task.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
    return samples, day


def judge(samples: list[tuple[float, float]], warm_up: float, per_h: float) -> dict[str, float]:
    """Return first and last memory (MiB) after the warm-up, and the slope by time and by request."""
    from_s = warm_up * samples[-1][0]
    times, sizes = zip(*(sample for sample in samples if sample[0] >= from_s), strict=True)
    part = max(len(sizes) // 5, 1)
    slope = statistics.linear_regression(times, sizes).slope
    return {
        "minutes": samples[-1][0] / 60, "warm_mib": statistics.median(sizes[:part]),
        "last_mib": statistics.median(sizes[-part:]), "slope_mib_per_h": 3600 * slope,
        "slope_byte_per_request": 3600 * slope * MIB / per_h,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Tell whether the memory of the service grows under load.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second, about")
    parser.add_argument("--waiting", type=int, default=500, help="jobs that wait")
    parser.add_argument("--warm-up", type=float, default=0.4, help="share of the time that is not judged")
    parser.add_argument("--limit", type=float, default=32.0, help="growth that is allowed, MiB")
    parser.add_argument("--json", type=Path, help="also write the figures and samples here")
    options = parser.parse_args()
    console = Console()
    with running_service(PREDICTOR_MONITOR_S="2") as (url, pid):
        samples, day = asyncio.run(soak(url, pid, options))
    per_h = 3600 * day.statuses.total() / samples[-1][0]
    figures = judge(samples, options.warm_up, per_h)
    counts = {str(status): count for status, count in sorted(day.statuses.items())}
    console.print(
        f"{sum(counts.values()):,} requests by status {counts}; {len(day.waiting):,} wait at the end"
    )
    for title, value in figures.items():
        console.print(f"{title:<24}{value:>10.2f}")
    if options.json is not None:
        document = {**figures, "statuses": counts, "samples": samples}
        options.json.write_text(json.dumps(document, indent=2), encoding="utf-8")
    grown_mib = figures["last_mib"] - figures["warm_mib"]
    if grown_mib > options.limit or set(counts) - {"200"}:
        console.print(f"grew by {grown_mib:.1f} MiB, allowed are {options.limit:.0f}; statuses {counts}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

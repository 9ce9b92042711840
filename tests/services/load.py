"""Load on a real service that remembers what was acknowledged, and the check that the log has it all once."""

import signal
import threading
import time
from collections import Counter
from typing import Any

import httpx
import msgspec

from predictor.contracts.event_codec import decode_events
from predictor.contracts.events import JobSubmitted
from predictor.data.clusters.example_files import load_cluster
from predictor.scheduling.cluster_pools import cluster_pools
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy import Policy
from predictor.scheduling.snapshot import snapshot
from serving.engine.replay import STEP, rebuild
from serving.store.database import open_database
from serving.store.event_log import StoredEvent
from serving.store.sql_event_log import SqlEventLog
from tests.services.live_service import CLUSTER, LiveService

POOLS = cluster_pools(load_cluster(CLUSTER))


class Load:
    """Submits jobs and ends some of them, and remembers what was acknowledged.

    Requests that broke are repeated with their key at the next instance, as clients should.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.submitted: dict[str, int] = {}  # job id: sequence of its receipt
        self.ended: list[str] = []
        self.open: list[tuple[str, str, dict[str, Any]]] = []
        self.refused: Counter[tuple[int, str, str]] = Counter()  # status, media type, code
        self.number = 0
        self._stopping = threading.Event()

    def run(self, *services: LiveService) -> None:
        with httpx.Client(timeout=5) as client:
            while not self._stopping.is_set():
                if not self.open:
                    self.number += 1
                    job_id = f"{self.name}-{self.number}"
                    body = {"job_id": job_id, "requested_gpus": 1 + self.number % 8, "walltime_s": 3600,
                            "user": f"u{self.number % 5}", "forecast": {"duration_s": 600}}  # fmt: skip
                    self.open.append(("submit", job_id, body))
                    if self.number % 3 == 0 and self.submitted:
                        self.open.append(("cancel", next(reversed(self.submitted)), {}))
                what, job_id, body = self.open[0]
                for service in services:
                    if self._done(client, service, what, job_id, body):
                        self.open.pop(0)
                        break
                else:
                    time.sleep(0.02)

    def _done(
        self, client: httpx.Client, service: LiveService, what: str, job_id: str, body: dict[str, Any]
    ) -> bool:
        key = {"idempotency-key": f"{what}-{job_id}"}
        try:
            if what == "submit":
                answer = client.post(f"{service.url}/v1/jobs", json=body, headers=key)
            else:
                answer = client.delete(f"{service.url}/v1/jobs/{job_id}", headers=key)
        except httpx.TransportError:
            return False
        if answer.status_code == 503:
            media_type, code = answer.headers["content-type"], answer.json()["code"]
            self.refused[(answer.status_code, media_type, code)] += 1
            return False
        assert answer.status_code == 200, answer.text
        if what == "submit":
            self.submitted[job_id] = answer.json()["sequence"]
        else:
            self.ended.append(job_id)
        return True

    def stop(self) -> None:
        self._stopping.set()


def loaded(loads: list[Load], *services: LiveService) -> list[threading.Thread]:
    threads = [threading.Thread(target=load.run, args=services, daemon=True) for load in loads]
    for thread in threads:
        thread.start()
    return threads


def finish(loads: list[Load], threads: list[threading.Thread]) -> None:
    for load in loads:
        load.stop()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def read_events(store: str) -> list[StoredEvent]:
    engine = open_database(store)
    try:
        return list(SqlEventLog(engine).read(limit=10**6))
    finally:
        engine.dispose()


def check(store: str, loads: list[Load], service: LiveService) -> None:
    """Every acknowledged event is in the log at its sequence and once; the log replays to the live state."""
    events = read_events(store)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    epochs = [event.epoch for event in events]
    assert epochs == sorted(epochs)
    where: Counter[tuple[str, str]] = Counter()
    at: dict[str, int] = {}
    for event in events:
        for one in decode_events(event.payload) if event.kind == STEP else ():
            job_id = getattr(one, "job_id", "")
            where[(type(one).__name__, job_id)] += 1
            if isinstance(one, JobSubmitted):
                at[job_id] = event.sequence
    submitted = {job_id: number for load in loads for job_id, number in load.submitted.items()}
    assert submitted
    assert {job_id: at.get(job_id) for job_id in submitted} == submitted
    ended = [job_id for load in loads for job_id in load.ended]
    assert [job_id for job_id in ended if where[("JobCancelled", job_id)] != 1] == []
    doubled = {key: count for key, count in where.items() if key[1] and count > 1}
    assert doubled == {}
    live = service.get("/v1/snapshot")
    assert replayed(store, live["sequence"]) == msgspec.json.encode(live["state"])
    service.stop(signal.SIGKILL)
    service.start()
    again = service.get("/v1/snapshot")
    assert again["sequence"] >= live["sequence"]
    assert replayed(store, again["sequence"]) == msgspec.json.encode(again["state"])


def replayed(store: str, sequence: int) -> bytes:
    """Return the state that the events up to one lead to, however many the clock adds meanwhile."""
    engine = open_database(store)
    log = SqlEventLog(engine)
    try:
        deadline = time.monotonic() + 10
        while log.next_sequence() <= sequence:  # a step of the clock may be on its way to the disk
            assert time.monotonic() < deadline
            time.sleep(0.01)
        built = rebuild(log, lambda: Coordinator(Policy(), POOLS), until=sequence, checkpoints=False)
    finally:
        engine.dispose()
    assert built.sequence == sequence
    return msgspec.json.encode(snapshot(built.coordinator))

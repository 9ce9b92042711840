"""A service in the test's own process: the real app over fakes, reached without a socket."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from serving.app import create_app
from serving.logs import build_logger
from serving.ports import BundleLoader
from serving.services import Services, build_services
from serving.settings import Settings
from tests.api.fakes import FakeStore, ManualClock, load_fake, write_fake_bundle


@dataclass
class Harness:
    """Builds services in a directory; several in turn share its store and its outcome log."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)
    load: BundleLoader = load_fake
    log: io.StringIO = field(default_factory=io.StringIO)

    @property
    def store(self) -> FakeStore:
        return FakeStore(self.root / "store")

    def with_fallback(self) -> "Harness":
        write_fake_bundle(self.root / "fallback", "fallback-1")
        return self

    def settings(self, **values: Any) -> Settings:  # Any: fields of the settings
        paths = {"models": self.root / "store", "fallback": self.root / "fallback"}
        paths["outcomes"] = self.root / "outcomes"
        access = {"insecure_dev": True, "store": f"sqlite:///{self.root}/store.db"}
        return Settings(**{**access, **paths, **values})

    def services(self, **values: Any) -> Services:
        logger = build_logger(self.log, "debug")
        return build_services(
            self.settings(**values), store=self.store, load=self.load, clock=self.clock, logger=logger
        )

    @asynccontextmanager
    async def serving(self, **values: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
        """Run the service and yield a client for it."""
        services = self.services(**values)
        app = create_app(services)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://service") as client,
        ):
            yield client, services

    def log_events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def pointers(answer: httpx.Response) -> list[str]:
    """Return the pointers of all faults of a problem."""
    return [fault["pointer"] for fault in answer.json()["errors"]]


def rows(root: Path, series: str) -> list[dict[str, Any]]:
    """Return the rows of a series of the outcome log."""
    files = sorted((root / "outcomes").glob(f"{series}-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def check_problem(answer: httpx.Response, status: int, code: str) -> None:
    """Assert the shape of a problem."""
    body = answer.json()
    assert answer.status_code == status, body
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "instance", "code", "request_id"} <= set(body)
    assert (body["status"], body["code"], body["type"]) == (status, code, f"/problems/{code}")
    assert body["instance"] == answer.request.url.path
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["detail"]

"""A real `predictor serve` with a queue on a free loopback port, which can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from serving.security.keys import make_key
from serving.store.database import open_database
from serving.store.key_table import KeyTable
from serving.store.schema import migrate

ROOT = Path(__file__).parents[2]
CLUSTER = "philly-11cb48"  # one pool of 64 GPUs
PATIENCE_S = 300.0  # compiling takes long where it was never done before, the more so on a busy machine


@dataclass
class LiveService:
    """One process at a time; its store outlives it."""

    root: Path
    store: str
    port: int
    name: str = "a"
    program: Path = ROOT  # the packages in this folder come before the installed ones
    clock_offset: Path | None = None  # a file with the seconds by which the clock of the process is off
    settings: dict[str, str] = field(default_factory=dict)  # further variables of its environment
    secure: bool = False  # asks for API keys, see `key`
    process: "subprocess.Popen[bytes] | None" = None
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def launch(self) -> "LiveService":
        """Start the process, and do not wait for it."""
        program = ["predictor.cli"]
        if self.clock_offset is not None:
            program = ["tests.services.clocked_service", str(self.clock_offset)]
        command = [sys.executable, "-m", *program, "serve", "--port", str(self.port)]
        command += [] if self.secure else ["--insecure-dev"]
        command += ["--cluster", CLUSTER, "--models", str(self.root / "none")]
        command += ["--outcomes", str(self.root / f"outcomes-{self.name}")]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PREDICTOR_")}
        environ |= {"PREDICTOR_STORE": self.store, "PREDICTOR_FALLBACK": str(ROOT / "models" / "fallback")}
        environ |= self.settings
        with (self.root / f"service-{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=self.program)
        return self

    def start(self) -> "LiveService":
        """Start, and wait until it leads."""
        self.launch()
        self.wait_for_role("leading")
        return self

    def wait_for_role(self, role: str, within_s: float = PATIENCE_S) -> float:
        """Wait until /readyz tells this role; return how long it took."""
        began = time.monotonic()
        while time.monotonic() - began < within_s:
            assert self.process is not None
            assert self.process.poll() is None, self.log()
            try:
                checks = self.client.get(f"{self.url}/readyz").json()["checks"]
            except httpx.TransportError:
                checks = []
            if any(check["name"] == "queue" and check["detail"].startswith(role) for check in checks):
                return time.monotonic() - began
            time.sleep(0.02)
        raise AssertionError(f"not {role} within {within_s} s: {self.log()}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the process."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)

    def key(self, *scopes: str) -> dict[str, str]:
        """Make an API key, and return the header that carries it."""
        engine = open_database(self.store)
        try:
            migrate(engine)
            key, token = make_key("test", scopes, now_s=time.time())
            KeyTable(engine).add(key, actor="user:test")
        finally:
            engine.dispose()
        return {"authorization": f"Bearer {token}"}

    def log(self) -> str:
        return (self.root / f"service-{self.name}.log").read_text()[-5000:]

    def get(self, path: str) -> dict[str, Any]:  # Any: JSON values
        answer = self.client.get(self.url + path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, body: object) -> dict[str, Any]:
        answer = self.client.post(self.url + path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextmanager
def live_service(
    root: Path, *, store: str = "", name: str = "a", clock_offset: Path | None = None, secure: bool = False,
    settings: dict[str, str] | None = None,
) -> Iterator[LiveService]:  # fmt: skip
    """Make a service that is not started yet; it ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = LiveService(
        root, store or f"sqlite:///{root}/store.db", port, name, clock_offset=clock_offset, secure=secure,
        settings=settings or {},
    )  # fmt: skip
    try:
        yield made
    finally:
        made.client.close()
        made.stop(signal.SIGKILL)

"""This module runs ``predictor serve`` as a process of its own on the loopback interface, and talks to it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from predictor.errors import PipelineError

LOOPBACK = "127.0.0.1"
PATIENCE_S = 600.0  # the first start compiles, for minutes on a busy machine; an end is noticed at once
_GRACE_S = 40.0  # longer than the service gives running requests at its end
Body = Mapping[str, Any]  # Any: JSON values


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackService:
    """A service that runs on a free port; ``log`` is what it prints."""

    url: str
    log: Path
    process: "subprocess.Popen[bytes]"

    def wait_until_ready(self) -> None:
        """Wait until the champion answers.

        Raises:
            PipelineError: the service ended, or is not ready in time; says why.
        """
        deadline = time.monotonic() + PATIENCE_S
        state = "it does not listen"
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                found = self.call("/readyz")
                if found["status"] == "ready":
                    return
                state = str(found["reason"])
            except PipelineError as error:
                state = error.message
            except (URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.2)
        raise PipelineError(f"the service is not ready: {state}; its log is '{self.log}'")

    def call(self, path: str, body: Body | None = None) -> dict[str, Any]:
        """Return the JSON that the service answers; POST where there is a body.

        Raises:
            PipelineError: it answers with an error.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self.url + path, data=data, headers=headers)  # noqa: S310  (our own service)
        try:
            with urlopen(request, timeout=10) as answer:  # noqa: S310
                return dict(json.load(answer))
        except HTTPError as error:
            with error:
                told = error.read().decode(errors="replace")
            raise PipelineError(f"the service answered {error.code} to {path}: {told}") from error


@contextmanager
def run_service(
    *, models: Path, outcomes: Path, log: Path, cluster: str = "", store: Path | None = None
) -> Iterator[LoopbackService]:
    """Start a service on a free port, and stop it at the end of the block, however that ends.

    With a cluster it keeps a queue, whose events go to the SQLite file ``store``.

    Variables of the environment that configure a service of the site do not reach this one.
    """
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "predictor.cli", "serve", "--host", LOOPBACK, "--port", str(port),
        "--models", str(models), "--outcomes", str(outcomes), "--insecure-dev",
    ]  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREDICTOR_")}
    if cluster and store is not None:
        command += ["--cluster", cluster]
        environment["PREDICTOR_STORE"] = f"sqlite:///{store.resolve()}"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)  # noqa: S603  (our own)
        try:
            yield LoopbackService(url=f"http://{LOOPBACK}:{port}", log=log, process=process)
        finally:
            process.terminate()
            try:
                process.wait(timeout=_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

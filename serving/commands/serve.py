"""This module is the command ``predictor serve``: answer schedulers over HTTP until told to stop."""

import gc
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from predictor.errors import ArgumentError
from serving.app import create_app
from serving.logs import build_logger, capture_uvicorn
from serving.security.keys import KeyRing
from serving.services import Services, build_services
from serving.settings import Settings, read_settings
from serving.store.database import open_database
from serving.store.key_table import KeyTable
from serving.store.schema import migrate

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
EXAMPLES = """
Examples:

  predictor serve --insecure-dev

  predictor keys create scheduler --scope predict --scope outcome

  predictor serve --insecure-dev --cluster hgx-h100-8nic

  predictor serve --port 9000 --models models/store/duration --outcomes runs/outcomes

  PREDICTOR_LOG_REQUESTS=all predictor serve --host 0.0.0.0

  curl -s localhost:8000/v1/predictions --json '{"user": "ada"}' -H "Authorization: Bearer $KEY"
"""


@app.command(epilog=EXAMPLES)
def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    models: Annotated[
        Path | None,
        typer.Option(help="Store of model bundles, with aliases.json. [default: models/store/duration]"),
    ] = None,
    outcomes: Annotated[
        Path | None, typer.Option(help="Directory of the outcome log. [default: runs/outcomes]")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Cluster to schedule: a TOML file or an example's name; none = no queue."),
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="First policy of the queue (TOML).")] = None,
    insecure_dev: Annotated[
        bool,
        typer.Option("--insecure-dev", help="Ask nobody for an API key; on a loopback address only."),
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Only 1: the history of jobs and the outcome log have one writer.")
    ] = 1,
) -> None:
    """Answer schedulers over HTTP.

    A new champion is taken up while requests go on, within seconds of its promotion. Without a trained model
    the small fallback bundle answers, and /readyz says so. SIGTERM lets running requests finish. Further
    settings are PREDICTOR_* variables.
    """
    if workers != 1:
        raise ArgumentError(
            f"workers={workers} is not possible: the outcome log has one writer; run one service per cluster"
        )
    settings = read_settings(
        models=models, outcomes=outcomes, cluster=cluster, policy=policy, insecure_dev=insecure_dev or None
    )
    check_queue_settings(settings)
    check_address(host, port)
    check_access(settings, host)
    logger = build_logger(sys.stderr, settings.log_level)
    capture_uvicorn(sys.stderr, settings.log_level)
    services = build_services(settings, logger=logger)
    config = uvicorn.Config(
        create_app(services), host=host, port=port, access_log=False, log_config=None,
        timeout_graceful_shutdown=settings.grace_s, server_header=False,
        ws_per_message_deflate=False,  # compressing each frame once per watcher would cost a whole core
    )  # fmt: skip
    # uvicorn raises the signal that stopped it once more at its end; by then all is closed
    signal.signal(signal.SIGTERM, lambda *_: None)
    server = _Server(config, services)
    _calm_collector()
    try:
        server.run()
    except KeyboardInterrupt:
        logger.debug("interrupted")
    if not server.started:
        raise typer.Exit(1)


class _Server(uvicorn.Server):
    """Sends the watchers of the feed home before it waits for running requests: theirs never end."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._services.queue is not None:
            self._services.queue.hub.close()
        await super().shutdown(sockets)


def check_queue_settings(settings: Settings) -> None:
    """Refuse settings that would have no effect.

    Raises:
        ArgumentError: they ask for what only a service with a queue does.
    """
    idle = {"PREDICTOR_POLICY": settings.policy, "PREDICTOR_RETRAIN_REQUEST": settings.retrain_request}
    faults = [f"{name}={value} has no effect without a queue" for name, value in idle.items() if value]
    if settings.cluster is None and faults:
        raise ArgumentError(
            "a service without a cluster keeps no queue and raises no alert; name one with --cluster or "
            "PREDICTOR_CLUSTER, or leave these settings out", faults=faults,
        )  # fmt: skip


def check_address(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before anything is read.

    Raises:
        ArgumentError: says why.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise ArgumentError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; does another service run "
            f"there? Name another address with --host and --port"
        ) from error


def check_access(settings: Settings, host: str) -> None:
    """Bring the store up to date, and refuse to start where nobody could or everybody could get in.

    Raises:
        ArgumentError: development mode on an address that others reach, or no key in force.
        StoreError: the store cannot be used.
    """
    if settings.insecure_dev:
        if host not in _LOOPBACK:
            raise ArgumentError(
                f"--insecure-dev lets everybody in who reaches '{host}'; listen on 127.0.0.1, or leave it "
                f"out and make API keys with 'predictor keys create'"
            )
        return
    engine = open_database(settings.store)
    try:
        migrate(engine)
        ring = KeyRing(KeyTable(engine), time.time)
        ring.refresh()
    finally:
        engine.dispose()
    if ring.is_empty():
        raise ArgumentError(
            "no API key is in force, so nobody could use the service; make one with 'predictor keys create "
            "NAME --scope predict', or try things out with 'predictor serve --insecure-dev' on loopback"
        )


def _calm_collector() -> None:
    """Spare requests the pauses of the garbage collector: imports stay for ever, requests leave no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

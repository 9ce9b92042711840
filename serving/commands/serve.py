"""This module is the command ``predictor serve``: answer schedulers over HTTP until told to stop."""

import gc
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from predictor.errors import ArgumentError
from serving.app import create_app
from serving.logs import build_logger, capture_uvicorn
from serving.services import build_services
from serving.settings import read_settings

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor serve

  predictor serve --port 9000 --models models/store/duration --outcomes runs/outcomes

  PREDICTOR_LOG_REQUESTS=all predictor serve --host 0.0.0.0

  curl -s localhost:8000/v1/predictions -H 'content-type: application/json' -d '{"user": "ada"}'
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
    settings = read_settings(models=models, outcomes=outcomes)
    logger = build_logger(sys.stderr, settings.log_level)
    capture_uvicorn(sys.stderr, settings.log_level)
    services = build_services(settings, logger=logger)
    config = uvicorn.Config(
        create_app(services), host=host, port=port, access_log=False, log_config=None,
        timeout_graceful_shutdown=settings.grace_s, server_header=False,
    )  # fmt: skip
    # uvicorn raises the signal that stopped it once more at its end; by then all is closed
    signal.signal(signal.SIGTERM, lambda *_: None)
    server = uvicorn.Server(config)
    _calm_collector()
    try:
        server.run()
    except KeyboardInterrupt:
        logger.debug("interrupted")
    if not server.started:
        raise typer.Exit(1)


def _calm_collector() -> None:
    """Spare requests the pauses of the garbage collector: imports stay for ever, requests leave no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

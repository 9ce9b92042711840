"""This module is the command ``predictor review``: it opens the MLflow UI on our store."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipelines.settings import PipelineSettings, load_settings
from pipelines.tracking_access import silence_telemetry
from predictor.errors import ArgumentError, EmptyInputError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor review

  predictor review --port 5001 --config site.toml

Stop it with Ctrl-C. It listens on the loopback interface only; reach it from afar through ssh -L.
"""
LOOPBACK = "127.0.0.1"


@app.command(epilog=EXAMPLES)
def review(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on the loopback interface.")] = 5000,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
) -> None:
    """Open the MLflow UI: runs, scores, plots, cards, versions and aliases of our models."""
    settings = load_settings(config)
    uri = settings.tracking_uri
    if uri.startswith(("http:", "https:")):
        typer.echo(f"the runs lie on a tracking server: open {uri}")
        return
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists():
        raise EmptyInputError(f"there is no run to review at '{uri}'; make one with 'predictor retrain'")
    _check_free(port)
    print(f"http://{LOOPBACK}:{port}   (ready in about half a minute; stop with Ctrl-C)", flush=True)
    silence_telemetry()
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # nothing here runs jobs
    command = server_command(settings, port)
    os.execve(command[0], command, environment)  # noqa: S606  (signals must reach the server itself)


def server_command(settings: PipelineSettings, port: int) -> list[str]:
    """Return the command that serves the UI; the store and the artifacts are named, never ambient."""
    root = settings.artifact_root
    artifacts = [] if root is None else ["--default-artifact-root", root.as_uri()]
    return [
        sys.executable, "-m", "mlflow", "server", "--backend-store-uri", settings.tracking_uri,
        *artifacts, "--host", LOOPBACK, "--port", str(port), "--workers", "1",
    ]  # fmt: skip


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise ArgumentError(
                f"port {port} of {LOOPBACK} is not free ({error.strerror}); choose another with --port"
            ) from error

"""This module is the command ``predictor demo``: the whole loop on the embedded sample, offline."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console

from pipelines.commands import backtest as backtest_command
from pipelines.commands import retrain as retrain_command
from pipelines.demo_day import CLUSTER, UNITS, SimulatedDay, busy_day
from pipelines.duration_domain import duration_domain, report_document
from pipelines.ingest import ingest
from pipelines.loopback_service import LoopbackService, run_service
from pipelines.reports import read_report
from pipelines.retrain import Retraining, RetrainOutcome
from pipelines.settings import PipelineSettings, load_settings
from pipelines.tracking_access import open_tracker
from predictor.data.table import read_table
from predictor.errors import ArgumentError, EmptyInputError, GateRefusedError, PipelineError
from predictor.evaluation.backtest import backtest_duration, default_test_from
from predictor.evaluation.report import OURS
from predictor.forecasting.store import CHAMPION, FileModelStore
from predictor.units import format_duration

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

EXAMPLES = """
Examples:

  predictor demo

  DEMO_NO_WAIT=1 predictor demo --directory demo
"""
SAMPLE = Path("training_data/sample/jobs.psv.gz")
STEPS = 6
TOOK_S = 1200.0  # how long the job of the newcomer takes
_MARK = ".predictor-demo"
_REQUEST = (
    "cluster", "user", "account", "queue", "qos", "gpu_type", "job_name", "requested_gpus", "requested_nodes",
    "requested_cpus", "requested_memory_mib", "walltime_s",
)  # fmt: skip


@app.command(epilog=EXAMPLES)
def demo(
    *,
    directory: Annotated[
        Path, typer.Option(help="Working directory; what an earlier demo left in it is made anew.")
    ] = Path("demo"),
    sample: Annotated[Path | None, typer.Option(help="sacct log to use instead of the embedded one.")] = None,
) -> None:
    """Run the whole loop on the embedded sample, offline: ingest, train, backtest, serve, predict.

    It ends with a running service, and the dashboard of a queue that lives through a day; Ctrl-C stops both.
    With DEMO_NO_WAIT=1 in the environment the command checks them, stops them and exits.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # leave by the clean way out
    log = find_sample(sample)
    settings = prepare(directory)
    models = settings.models.root / duration_domain().target
    show = Stage()
    with show.step(f"read the log {log}"):
        read_log(log, settings, show)
    with show.step("train, judge, pass the gate, register in MLflow, publish"):
        retrain(settings, models, show)
    frame = read_table(settings.data.table)
    with show.step("backtest: ours beside the baselines, as it would have been live"):
        backtest(frame, show)
    outcomes, service_log = directory / "outcomes", directory / "service.log"
    with run_service(models=models, outcomes=outcomes, log=service_log) as service:
        with show.step(f"serve the champion on {service.url}"):
            service.wait_until_ready()
            show(f"{service.call('/v1/models')['served']['version']} answers")
        with show.step("ask for forecasts, and report an outcome"):
            converse(service, frame, show)
        with (
            run_service(
                models=models, outcomes=directory / "day", log=directory / "queue.log", cluster=CLUSTER,
                store=directory / "queue.db",
            ) as queue,
            show.step("live through a day at the queue, and where to look next"),
        ):  # fmt: skip
            day = start_day(service, queue, frame, show)
            point_out(service, directory, models, show)
            show(f"{'the queue, live:':<24}{queue.url}/   (a day in {day.lasts_s / 60:.1f} minutes)")
            wait(service, queue, day, show)


@dataclass(slots=True)
class Stage:
    """Prints numbered steps with the time that each took."""

    console: Console = field(default_factory=Console)
    number: int = 0

    def __call__(self, text: str) -> None:
        """Print a line below the current step."""
        self.console.print(f"      {text}", highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print the title now, and the time it took at the end."""
        self.number += 1
        self.console.print(f"\n[{self.number}/{STEPS}] {title}", style="bold", highlight=False, markup=False)
        began = time.monotonic()
        yield
        self(f"({time.monotonic() - began:.1f} s)")


def find_sample(given: Path | None) -> Path:
    """Return the log to use: as given, else that of the working directory or the checkout."""
    if given is not None:
        return given
    for place in (Path(), Path(__file__).resolve().parents[2]):
        if (place / SAMPLE).is_file():
            return place / SAMPLE
    raise EmptyInputError(
        f"there is no '{SAMPLE}' here; run in a checkout, or name a sacct log with --sample"
    )


def prepare(directory: Path) -> PipelineSettings:
    """Return the settings of a fresh working directory; they lie in it for the other commands."""
    if directory.exists() and not (directory / _MARK).is_file() and any(directory.iterdir()):
        raise ArgumentError(f"'{directory}' holds other files; name a new one with --directory")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / _MARK).touch()

    def place(name: str) -> str:
        return json.dumps(str(directory / name))  # a JSON string is a TOML string too

    config = directory / "predictor.toml"
    config.write_text(
        f"runs = {place('runs')}\n\n[data]\ntable = {place('jobs.parquet')}\n"
        f"outcomes = [{place('outcomes/*.jsonl')}]\n\n[models]\nroot = {place('models')}\n",
        encoding="utf-8",
    )
    return load_settings(config)


def read_log(log: Path, settings: PipelineSettings, show: Stage) -> None:
    """Make the job table."""
    report = ingest([log], settings.data.table, format_name="sacct")
    merged = sum(sum(account.merged.values()) for account in report.files)
    show(f"{report.kept:,} attempts of jobs; {merged:,} step records merged, {report.quarantined:,} refused")


def retrain(settings: PipelineSettings, models: Path, show: Stage) -> None:
    """Run the batch job and print what it found."""
    work = Retraining(
        settings=settings, domain=duration_domain(), store=FileModelStore(models),
        tracker=lambda: open_tracker(settings),
    )  # fmt: skip
    result = work.run(now=datetime.now(UTC))
    retrain_command.show(result, show.console)
    if result.outcome is RetrainOutcome.REFUSED:
        raise GateRefusedError("the gate refused the model of the demo; the findings are above")


def backtest(frame: pd.DataFrame, show: Stage) -> None:
    """Play the last fifth of the log and print all models; ``predictor backtest`` shows the slices too."""
    from_s = default_test_from(frame)
    report = read_report(report_document(backtest_duration(frame, test_from_s=from_s), OURS))
    backtest_command.show(replace(report, slices=()), from_s, show.console)


def converse(service: LoopbackService, frame: pd.DataFrame, show: Stage) -> None:
    """Ask for a job with a history, one that runs, and a newcomer's before and after its first outcome."""
    now_s = frame["submitted_at"].max().timestamp() + 60.0
    known = {**habitual_request(frame), "submitted_at": now_s}

    def ask(title: str, body: Mapping[str, object]) -> dict[str, Any]:  # Any: JSON values
        answer = service.call("/v1/predictions", body)
        show(title)
        show(f"  {in_words(answer['quantiles_s'])}; {support(answer)}")
        return answer

    limit = format_duration(known["walltime_s"]) if "walltime_s" in known else "none"
    first = ask(f"'{known['job_name']}' of {known['user']}, limit {limit}:", {**known, "job_id": "demo-1"})
    elapsed_s = first["quantiles_s"]["q50"]
    running = service.call("/v1/predictions", {**known, "job_id": "demo-1", "elapsed_s": elapsed_s})
    show(f"once it has run for {format_duration(elapsed_s)}, there remain:")
    show(f"  {in_words(running['remaining']['quantiles_s'])}")

    newcomer = {**known, "job_id": "demo-2", "user": "newcomer", "job_name": "first_try_1"}
    before = ask("the same request by somebody new:", newcomer)
    began_s = now_s + 30.0
    end = {**newcomer, "started_at": began_s, "ended_at": began_s + TOOK_S, "state": "COMPLETED"}
    result = service.call("/v1/outcomes", end)["result"]
    later = {
        **newcomer, "job_id": "demo-3", "job_name": "first_try_2", "submitted_at": began_s + TOOK_S + 60.0,
    }  # fmt: skip
    after = ask(f"it completed after {format_duration(TOOK_S)} (outcome {result}); the next one:", later)
    if after["quantiles_s"] == before["quantiles_s"]:
        raise PipelineError(f"the outcome did not change the next forecast; see '{service.log}'")


def habitual_request(frame: pd.DataFrame) -> dict[str, Any]:
    """Return what the user with most GPU jobs requested last, as a body for the service."""
    gpu = frame[frame["requested_gpus"].fillna(0.0) > 0]
    last = gpu[gpu["user"] == gpu["user"].value_counts().index[0]].iloc[-1]
    return {name: last[name] for name in _REQUEST if pd.notna(last[name])}


def in_words(quantiles_s: Mapping[str, float]) -> str:
    """Return three quantiles for people."""
    return ", ".join(f"{name} {format_duration(quantiles_s[name])}" for name in ("q10", "q50", "q90"))


def support(answer: Mapping[str, Any]) -> str:
    """Return what a forecast rests on."""
    found, fallback = answer["support"], answer["fallback"]
    return f"rests on {found['count']} jobs of this {found['level']}" + (f" ({fallback})" if fallback else "")


def point_out(service: LoopbackService, directory: Path, models: Path, show: Stage) -> None:
    """Print where everything lies."""
    config = f"--config {directory / 'predictor.toml'}"
    places = {
        "the service": f"{service.url}/docs   (also /readyz, /v1/models, /metrics)",
        "runs in MLflow": f"predictor review {config}",
        "models": f"predictor models list {config}",
        "the bundle": f"{FileModelStore(models).resolve(CHAMPION).directory}   (card.md describes it)",
        "learn the outcome too": f"predictor retrain {config}",
        "your own log": "predictor ingest jobs.psv --out jobs.parquet",
        "is it good on yours": "predictor backtest jobs.parquet --target duration",
    }
    for what, where in places.items():
        show(f"{what + ':':<24}{where}")


def start_day(
    model: LoopbackService, queue: LoopbackService, frame: pd.DataFrame, show: Stage
) -> SimulatedDay:
    """Fill the queue with the jobs of a morning."""
    show("starting a second service, with a queue (the first time it compiles for a minute or more)")
    queue.wait_until_ready()
    day = SimulatedDay(queue, model, busy_day(frame, UNITS))
    day.begin()
    waiting, running = day.counts()
    show(f"{running} jobs run and {waiting} wait on {UNITS} GPUs; a day passes {day.speed:.0f} times as fast")
    return day


def wait(service: LoopbackService, queue: LoopbackService, day: SimulatedDay, show: Stage) -> None:
    """Play the day until Ctrl-C; with DEMO_NO_WAIT=1 only look whether services and page answer."""
    if os.environ.get("DEMO_NO_WAIT") == "1":
        day.check()
        status = service.call("/readyz")["status"]
        show(f"\n      {service.url} is {status}, the queue moves; DEMO_NO_WAIT=1: stopping it")
        return
    show("\n      Ctrl-C stops the services")
    try:
        while service.process.poll() is None and queue.process.poll() is None:
            day.step()
            time.sleep(0.25)
    except KeyboardInterrupt:
        show("stopped")
        return
    raise PipelineError(f"a service ended by itself; the logs are '{service.log}' and '{queue.log}'")

"""This module measures the service beside a bare FastAPI echo and ``mlflow models serve``, on loopback.

::

    python benchmarks/serving.py [--bundle DIR] [--no-mlflow] [--seconds 1.5] [--json OUT]

All servers run at once with one worker each; the rounds are interleaved, so that a busy machine slows all of
them alike. The client is a raw socket with keep-alive, whose own cost is small beside that of the servers.
Figures are medians over the rounds. Without a bundle, a small model is trained on a synthetic log first.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

READY_TIMEOUT_S = 120.0
CONCURRENCIES = (1, 8)
JOB = {
    "job_id": None, "cluster": "alpha", "user": "u07", "account": "vision", "queue": "gpu", "qos": "normal",
    "job_name": "train-resnet50", "gpu_type": "a100", "requested_gpus": 4, "requested_nodes": 1,
    "requested_cpus": 32, "requested_memory_mib": 262144, "walltime_s": 86400,
    "submitted_at": "2026-11-03T09:30:00Z",
}  # fmt: skip

ECHO_APP = """
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Job(BaseModel):
    job_id: str | None = None
    cluster: str | None = None
    user: str | None = None
    account: str | None = None
    queue: str | None = None
    qos: str | None = None
    job_name: str | None = None
    gpu_type: str | None = None
    requested_gpus: float | None = None
    requested_nodes: float | None = None
    requested_cpus: float | None = None
    requested_memory_mib: float | None = None
    walltime_s: float | None = None
    submitted_at: str | None = None


@app.post("/echo")
async def echo(job: Job) -> Job:
    return job
"""
# models-from-code: five boosters behind one pyfunc, the way a team would first serve quantiles with MLflow
PYFUNC = """
import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
import lightgbm as lgb
import mlflow
import pandas as pd


class Quantiles(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        names = sorted(name for name in context.artifacts if name.startswith("q"))
        self.boosters = {name: lgb.Booster(model_file=context.artifacts[name]) for name in names}

    def predict(self, context, model_input, params=None):
        values = model_input.to_numpy()
        return pd.DataFrame({n: b.predict(values, num_threads=1) for n, b in self.boosters.items()})


mlflow.models.set_model(Quantiles())
"""
LOG_MODEL = """
import sys

import lightgbm as lgb
import mlflow
import numpy as np
import pandas as pd

folder = sys.argv[1]
mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
mlflow.create_experiment("serving", artifact_location=f"file://{folder}/artifacts")
rng = np.random.default_rng(0)
x = rng.normal(size=(4000, 40))
y = x[:, 0] * 2 + rng.gamma(2.0, size=4000)
artifacts = {}
for level in (0.05, 0.25, 0.5, 0.75, 0.95):
    params = {"objective": "quantile", "alpha": level, "num_leaves": 63, "num_threads": 1, "verbose": -1}
    booster = lgb.train(params, lgb.Dataset(x, y), num_boost_round=100)
    artifacts[f"q{int(level * 100):02d}"] = f"{folder}/q{int(level * 100):02d}.txt"
    booster.save_model(artifacts[f"q{int(level * 100):02d}"])
frame = pd.DataFrame(x[:5], columns=[f"f{n}" for n in range(40)])
with mlflow.start_run(experiment_id=mlflow.get_experiment_by_name("serving").experiment_id):
    info = mlflow.pyfunc.log_model(
        name="model", python_model=f"{folder}/pyfunc.py", artifacts=artifacts, input_example=frame,
        pip_requirements=["mlflow", "lightgbm"],
    )
print("MODEL_URI", info.model_uri)
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A server under test and the request it gets."""

    name: str
    port: int
    path: str
    body: bytes
    jobs: int = 1

    def request(self) -> bytes:
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of one target at one concurrency; medians over the rounds."""

    target: str
    concurrency: int
    p50_ms: float
    p99_ms: float
    per_s: float
    jobs_per_s: float
    requests: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """Latencies of one target in one round, and how long the round took until its last answer."""

    latencies_s: list[float]
    elapsed_s: float


async def _drive(target: Target, concurrency: int, duration_s: float) -> Round:
    request = target.request()
    latencies: list[float] = []
    start = time.perf_counter()
    deadline = start + duration_s

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=2**26)
        try:
            while time.perf_counter() < deadline:
                began = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_content_length(head))
                if b" 200 " not in head[:16]:
                    raise RuntimeError(f"{target.name} answered {head!r} {body[:500]!r}")
                latencies.append(time.perf_counter() - began)
        finally:
            writer.close()

    await asyncio.gather(*(connection() for _ in range(concurrency)))
    return Round(latencies_s=latencies, elapsed_s=time.perf_counter() - start)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    raise RuntimeError("the answer has no Content-Length")


def measure(targets: Sequence[Target], *, rounds: int, duration_s: float) -> list[Figures]:
    """Drive the targets in turn, round by round."""
    found: dict[tuple[str, int], list[Round]] = {}
    for target in targets:
        asyncio.run(_drive(target, 1, min(0.5, duration_s)))  # warm-up
    for _ in range(rounds):
        for concurrency in CONCURRENCIES:
            for target in targets:
                one = asyncio.run(_drive(target, concurrency, duration_s))
                found.setdefault((target.name, concurrency), []).append(one)
    by_name = {target.name: target for target in targets}
    return [_figures(by_name[name], concurrency, results) for (name, concurrency), results in found.items()]


def _figures(target: Target, concurrency: int, rounds: list[Round]) -> Figures:
    cuts = [statistics.quantiles(r.latencies_s, n=100) for r in rounds if len(r.latencies_s) > 1]
    per_s = statistics.median(len(r.latencies_s) / r.elapsed_s for r in rounds)
    return Figures(
        target=target.name, concurrency=concurrency, requests=sum(len(r.latencies_s) for r in rounds),
        p50_ms=1e3 * statistics.median(cut[49] for cut in cuts),
        p99_ms=1e3 * statistics.median(cut[98] for cut in cuts),
        per_s=per_s, jobs_per_s=per_s * target.jobs,
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def running(command: Sequence[str], log: Path, port: int, **environ: str) -> Iterator[None]:
    """Start a server, wait for its port, and end it with all that it started."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, env={**os.environ, **environ}, start_new_session=True
        )
    try:
        _await_port(process, port, log)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await_port(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError("the server did not start:\n" + log.read_text(errors="replace")[-3000:])


def train_small(directory: Path, jobs: int) -> Path:
    """Train a bundle on a synthetic log."""
    script = f"""
        from pathlib import Path
        from predictor.data.schema import seconds
        from predictor.data.synthetic import WorkloadSpec, generate
        from predictor.forecasting.bundle import write_bundle
        from predictor.forecasting.training import train_duration
        frame = generate(WorkloadSpec(jobs={jobs})).frame
        model = train_duration(frame, cut_s=float(seconds(frame["submitted_at"]).max()))
        write_bundle(Path({str(directory)!r}), model, version="benchmark", card="", metadata={{}})
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    return directory


@contextlib.contextmanager
def our_service(bundle: Path, folder: Path) -> Iterator[list[Target]]:
    port = free_port()
    command = [sys.executable, "-m", "predictor.cli", "serve", "--insecure-dev", "--port", str(port)]
    command += ["--models", str(folder / "none"), "--outcomes", str(folder / "outcomes")]
    batch = {
        "jobs": [{**JOB, "user": f"u{n % 40:02d}", "walltime_s": 3600 + 60 * (n % 90)} for n in range(1000)]
    }
    with running(command, folder / "service.log", port, PREDICTOR_FALLBACK=str(bundle)):
        yield [
            Target(name="predictor", port=port, path="/v1/predictions", body=json.dumps(JOB).encode()),
            Target(
                name="predictor, 1000 jobs", port=port, path="/v1/predictions",
                body=json.dumps(batch).encode(),
                jobs=1000,
            ),
        ]  # fmt: skip


@contextlib.contextmanager
def echo(folder: Path) -> Iterator[list[Target]]:
    port = free_port()
    (folder / "echo_app.py").write_text(ECHO_APP)
    command = [sys.executable, "-m", "uvicorn", "echo_app:app", "--port", str(port), "--no-access-log"]
    with running([*command, "--app-dir", str(folder)], folder / "echo.log", port):
        yield [Target(name="FastAPI echo", port=port, path="/echo", body=json.dumps(JOB).encode())]


@contextlib.contextmanager
def mlflow_serve(folder: Path) -> Iterator[list[Target]]:
    (folder / "pyfunc.py").write_text(PYFUNC)
    done = subprocess.run(
        [sys.executable, "-c", LOG_MODEL, str(folder)], check=True, capture_output=True, text=True, cwd=folder
    )
    uri = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("MODEL_URI"))
    port = free_port()
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", uri, "--port", str(port)]
    command += ["--env-manager", "local", "--workers", "1"]
    columns = [f"f{n}" for n in range(40)]
    body = {"dataframe_split": {"columns": columns, "data": [[0.1 * n for n in range(40)]]}}
    # mlflow calls uvicorn by name
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environ = {"MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "PATH": path}
    with running(command, folder / "mlflow.log", port, **environ):
        yield [
            Target(name="mlflow models serve", port=port, path="/invocations", body=json.dumps(body).encode())
        ]


def show(figures: Sequence[Figures], console: Console) -> None:
    base = {f.concurrency: f for f in figures if f.target == "FastAPI echo"}
    table = Table(title=f"HTTP on loopback, {os.cpu_count()} cores, Python {platform.python_version()}")
    for title in ("server", "c", "p50 ms", "p99 ms", "req/s", "jobs/s", "p99 / echo", "req/s / echo"):
        table.add_column(title, justify="left" if title == "server" else "right")
    for f in sorted(figures, key=lambda f: (f.concurrency, f.p50_ms)):
        echo_of = base[f.concurrency]
        table.add_row(
            f.target, str(f.concurrency), f"{f.p50_ms:.2f}", f"{f.p99_ms:.2f}", f"{f.per_s:,.1f}",
            f"{f.jobs_per_s:,.0f}", f"{f.p99_ms / echo_of.p99_ms:.2f}", f"{f.per_s / echo_of.per_s:.2f}",
        )  # fmt: skip
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the service beside its yardsticks.")
    parser.add_argument("--bundle", type=Path, help="bundle to serve; default: models/fallback, else trained")
    parser.add_argument("--train-jobs", type=int, default=3000, help="size of the synthetic log")
    parser.add_argument("--no-mlflow", action="store_true", help="skip mlflow models serve")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="per target, concurrency and round")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    console = Console()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        bundle = options.bundle or Path("models/fallback")
        if not bundle.is_dir():
            bundle = train_small(folder / "bundle", options.train_jobs)
        targets = stack.enter_context(our_service(bundle.resolve(), folder))
        targets += stack.enter_context(echo(folder))
        if not options.no_mlflow:
            targets += stack.enter_context(mlflow_serve(folder))
        figures = measure(targets, rounds=options.rounds, duration_s=options.seconds)
    show(figures, console)
    if options.json is not None:
        document = {"cpus": os.cpu_count(), "load": os.getloadavg(), "figures": [asdict(f) for f in figures]}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

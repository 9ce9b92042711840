"""The real service in a process of its own, over a real socket, with real bundles."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from predictor.data.schema import seconds
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.forecasting.bundle import write_bundle
from predictor.forecasting.store import FileModelStore
from predictor.forecasting.training import train_duration
from predictor.monitoring.watched import learn_reference
from serving.services import load_live

START_TIMEOUT_S = 60.0
SWAP_TIMEOUT_S = 30.0


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions v1 and v2 of a small model."""
    root = tmp_path_factory.mktemp("bundles")
    frame = generate(WorkloadSpec(jobs=1500, days=20.0, users=10, random_state=5)).frame
    model = train_duration(frame, cut_s=float(seconds(frame["submitted_at"]).max()))
    for version in ("v1", "v2"):
        write_bundle(
            root / version,
            model,
            version=version,
            card="# test",
            metadata={"drift": learn_reference(frame).to_json()},
        )
    return root


def test_a_loaded_bundle_says_what_live_jobs_are_held_against(bundles: Path) -> None:
    evidence = load_live(bundles / "v1", None).evidence
    assert evidence.drift is not None
    assert "walltime_s" in evidence.drift.features


@dataclass
class Service:
    """One `predictor serve` at a time; the directories outlive it."""

    root: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None
    client: httpx.Client = field(default_factory=httpx.Client)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def store(self) -> FileModelStore:
        return FileModelStore(self.root / "store")

    def start(self, *options: str) -> "Service":
        command = [sys.executable, "-m", "predictor.cli", "serve", "--insecure-dev", "--port", str(self.port)]
        command += ["--models", str(self.root / "store"), "--outcomes", str(self.root / "outcomes"), *options]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PREDICTOR_")}
        environ |= {"PREDICTOR_POLL_S": "0.1", "PREDICTOR_FALLBACK": str(self.root / "fallback")}
        with (self.root / "service.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environ, stderr=log)
        self.wait(lambda: self.get("/livez").status_code == 200, START_TIMEOUT_S)
        return self

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, (self.root / "service.log").read_text()
            try:
                if condition():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("timed out: " + (self.root / "service.log").read_text())

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)

    def get(self, path: str) -> httpx.Response:
        return self.client.get(self.url + path)

    def post(self, path: str, body: object) -> httpx.Response:
        return self.client.post(self.url + path, json=body, timeout=60)

    def ready(self) -> dict[str, Any]:
        document: dict[str, Any] = self.get("/readyz").json()
        return document

    def support(self, user: str) -> int:
        count: int = self.post("/v1/predictions", {"user": user, "job_name": "train"}).json()["support"][
            "count"
        ]
        return count

    def publish(self, bundles: Path, version: str) -> None:
        staged = self.store.staging(version)
        shutil.copytree(bundles / version, staged, dirs_exist_ok=True)
        self.store.publish(staged, version)
        self.store.promote(version)


@pytest.fixture
def service(tmp_path: Path, bundles: Path) -> Iterator[Service]:
    """A stopped service with an empty store and a fallback."""
    shutil.copytree(bundles / "v1", tmp_path / "fallback")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Service(tmp_path, port)
    yield made
    made.client.close()
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def an_outcome(job_id: str, user: str = "newcomer") -> dict[str, object]:
    now_s = time.time()
    times = {"submitted_at": now_s - 700, "started_at": now_s - 660, "ended_at": now_s - 60}
    return {"job_id": job_id, "user": user, "job_name": "train", "state": "COMPLETED", **times}


def test_a_hot_swap_under_load_drops_no_request_and_a_corrupt_bundle_changes_nothing(
    service: Service, bundles: Path
) -> None:
    service.publish(bundles, "v1")
    service.start()
    stop = threading.Event()
    seen: list[tuple[int, str]] = []

    def load() -> None:
        with httpx.Client() as client:
            while not stop.is_set():
                answer = client.post(
                    service.url + "/v1/predictions", json={"user": "ada", "walltime_s": 3600}
                )
                version = answer.json()["model"]["version"] if answer.status_code == 200 else answer.text
                seen.append((answer.status_code, version))
                time.sleep(0.002)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        service.wait(lambda: len(seen) > 20, SWAP_TIMEOUT_S)
        service.publish(bundles, "v2")
        service.wait(lambda: seen[-1][1] == "v2", SWAP_TIMEOUT_S)

        shutil.copytree(service.root / "store" / "v2", service.root / "store" / "v3")
        arrays = service.root / "store" / "v3" / "arrays.npz"
        arrays.write_bytes(arrays.read_bytes()[:-7] + b"garbage")
        aliases = json.loads((service.root / "store" / "aliases.json").read_text())
        aliases["champion"] = {"version": "v3", "digest": aliases["champion"]["digest"]}
        (service.root / "fresh.json").write_text(json.dumps(aliases))
        (service.root / "fresh.json").replace(service.root / "store" / "aliases.json")
        service.wait(lambda: service.ready()["model_origin"] == "last-good", SWAP_TIMEOUT_S)
        before = len(seen)
        service.wait(lambda: len(seen) > before + 20, SWAP_TIMEOUT_S)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {status for status, _ in seen} == {200}
    assert [version for _, version in seen if version == "v1"]
    assert {version for _, version in seen} == {"v1", "v2"}
    ready = service.ready()
    assert (ready["status"], seen[-1][1]) == ("degraded", "v2")
    assert "arrays.npz" in ready["reason"]
    assert service.stop() == 0


def test_without_a_store_the_service_boots_on_the_fallback_and_learns_at_once_and_for_good(
    service: Service,
) -> None:
    service.start()
    ready = service.ready()
    assert (ready["status"], ready["model_origin"]) == ("degraded", "fallback")
    assert "bundle-missing" in ready["reason"]

    assert service.support("newcomer") == 0
    assert service.post("/v1/outcomes", an_outcome("1")).json()["result"] == "recorded"
    assert service.support("newcomer") == 1
    batch = {"outcomes": [an_outcome(str(number)) for number in range(2, 6)]}
    assert service.post("/v1/outcomes", batch).json()["failed"] == 0
    assert service.support("newcomer") == 5

    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    service.start()
    assert service.support("newcomer") == 5
    assert service.get("/v1/models").json()["served"]["replayed_events"] == 5


def test_sigterm_lets_a_running_request_finish(service: Service) -> None:
    service.start()
    jobs = [{"user": f"u{number % 50}", "walltime_s": 3600 + number} for number in range(8000)]
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(service.post("/v1/predictions", {"jobs": jobs})))
    thread.start()
    time.sleep(0.15)
    assert service.stop() == 0
    thread.join()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["predictions"]) == 8000


def test_sigterm_does_not_wait_for_those_who_watch(service: Service) -> None:
    service.start("--cluster", "philly-11cb48")
    with service.client.stream("GET", service.url + "/v1/events", timeout=60) as feed:
        next(feed.iter_bytes())
        before = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - before < 20  # uvicorn would give them 30 s
    assert "Traceback" not in (service.root / "service.log").read_text()


def test_a_second_service_on_the_same_outcome_log_is_refused(service: Service) -> None:
    service.start()
    command = [sys.executable, "-m", "predictor.cli", "serve", "--insecure-dev", "--port", "0"]
    command += ["--models", str(service.root / "store"), "--outcomes", str(service.root / "outcomes")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 3
    assert "another service writes outcomes" in second.stderr


@pytest.mark.parametrize(
    ("arguments", "environ", "want"),
    [
        (["--workers", "2"], {}, "one writer"),
        ([], {"PREDICTOR_MAX_JOB": "1"}, "did you mean PREDICTOR_MAX_JOBS?"),
        (["--prot", "1"], {}, "--port"),
    ],
)
def test_a_wrong_call_is_refused_with_a_hint(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], want: str
) -> None:
    command = [sys.executable, "-m", "predictor.cli", "serve", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **environ},
    )
    assert done.returncode == 2
    assert want in done.stderr

"""The commands of the pages on the queue and of the runbook, run as they are written."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.services.live_service import LiveService, live_service
from tests.services.postgres import find_binaries, running_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HOWTO = Path(__file__).parents[2] / "docs" / "howto"
FENCE = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
STREAM_S = 1  # the live feed has no end


def snippets(page: str) -> list[str]:
    return FENCE.findall((HOWTO / page).read_text(encoding="utf-8"))


def calls(page: str) -> list[str]:
    """Return the calls of curl, those over several lines whole."""
    found: list[str] = []
    for snippet in snippets(page):
        for line in snippet.splitlines():
            if line.startswith("curl "):
                found.append(line)
            elif found and found[-1].count("'") % 2:
                found[-1] += "\n" + line
    return found


def run(command: str, where: Path, **variables: str) -> str:
    """Run a command of a page in a folder, with our own programs first on the path."""
    path = f"{Path(sys.executable).parent}:{variables.pop('PATH', os.environ['PATH'])}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=where, env={**os.environ, "PATH": path, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_every_call_of_the_queue_page_does_what_it_says(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    commands = calls("queue.md")
    assert len(commands) > 15
    with live_service(tmp_path) as service:
        service.start()
        for written in commands:
            command = written.replace("localhost:8000", urlsplit(service.url).netloc)
            if "/v1/events" in command:
                told = run(f"{command} --max-time {STREAM_S} || true", tmp_path)
                assert "event: hello" in told
                continue
            told, _, status = run(command + " -w '\\n%{http_code}'", tmp_path).rpartition("\n")
            assert status == "200", f"{command}\n{told}"
            assert json.loads(told).get("failed", 0) == 0, f"{command}\n{told}"
        assert service.get("/v1/policy")["policy"]["order"]["guard_s"] == 3600.0


def run_jobs(service: LiveService, *names: str) -> None:
    for name in names:
        service.post("/v1/jobs", {"job_id": name, "requested_gpus": 40, "walltime_s": 3600})


def waiting(service: LiveService) -> set[str]:
    """Return all jobs, those that run too."""
    items = service.get("/v1/queue")["items"] + service.get("/v1/jobs")["items"]
    return {item["job_id"] for item in items}


def test_a_sqlite_store_is_backed_up_while_it_serves_and_restored_as_the_runbook_says(tmp_path: Path) -> None:
    backup = next(line for text in snippets("runbook.md") for line in text.splitlines() if "VACUUM" in line)
    store = tmp_path / "runs" / "store" / "service.db"
    url = {"PREDICTOR_STORE": f"sqlite:///{store}"}
    with live_service(tmp_path, store=url["PREDICTOR_STORE"]) as service:
        service.start()
        run_jobs(service, "a", "b")
        run(backup, tmp_path)
        run_jobs(service, "late")
        service.stop()
        for name in ("service.db-wal", "service.db-shm"):
            store.with_name(name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "backup.db", store)
        run("predictor store migrate", tmp_path, **url)
        assert "sequence" in run("predictor store status", tmp_path, **url)
        service.start()
        assert waiting(service) == {"a", "b"}
        run_jobs(service, "c")
        for command in ("predictor store export --out events.jsonl", "predictor store prune --days 30"):
            run(command, tmp_path, **url)
        assert len((tmp_path / "events.jsonl").read_text().splitlines()) >= 3
        service.stop()
        service.start()
        assert waiting(service) == {"a", "b", "c"}


def test_a_postgresql_store_is_dumped_while_it_serves_and_restored_as_the_runbook_says(
    tmp_path: Path,
) -> None:
    binaries, reason = find_binaries()
    if binaries is None:
        pytest.skip(reason)
    text = (HOWTO / "runbook.md").read_text(encoding="utf-8")
    commands = re.findall(r"`(pg_(?:dump|restore) [^`]+)`", text)
    assert len(commands) == 2
    with running_postgres(binaries) as server, live_service(tmp_path, store=server.new_database()) as service:
        address = urlsplit(service.store)
        names = {
            "PGHOST": str(address.hostname), "PGPORT": str(address.port), "PGUSER": str(address.username),
            "PATH": f"{binaries}:{os.environ['PATH']}",
        }  # fmt: skip
        dump, restore = (command.replace(" predictor ", f" {address.path[1:]} ") for command in commands)
        service.start()
        run_jobs(service, "a", "b")
        run(dump, tmp_path, **names)
        run_jobs(service, "late")
        service.stop()
        run(restore, tmp_path, **names)
        run("predictor store migrate", tmp_path, PREDICTOR_STORE=service.store)
        service.start()
        assert waiting(service) == {"a", "b"}

"""The commands of the page on the queue, run as they are written."""

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.services.live_service import live_service
from tests.services.pages import run, snippets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
STREAM_S = 1  # the live feed has no end


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

"""The bounded form of the soak: the memory of a real service does not grow with the requests it answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "soak.py"
LEAST_REQUESTS = 500


@pytest.mark.slow
def test_memory_is_stable_after_a_warm_up_under_steady_load(tmp_path: Path) -> None:
    """It fails where more than some 6 KiB of each request stay; about 1 KiB does while caches still fill."""
    out = tmp_path / "soak.json"
    command = [sys.executable, str(SCRIPT), "--minutes", "0.4", "--rate", "100", "--waiting", "200"]
    run = subprocess.run(
        [*command, "--limit", "6", "--json", str(out)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert sum(figures["statuses"].values()) > LEAST_REQUESTS
    assert figures["last_mib"] > 50

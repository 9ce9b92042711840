"""The commands of a page of the documentation, and running them as they are written."""

import os
import re
import subprocess
import sys
from pathlib import Path

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
FENCE = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page: str, section: str = "") -> list[str]:
    """Return the blocks of commands of a page, or of one section of it."""
    text = (HOWTO / page).read_text(encoding="utf-8")
    if section:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return FENCE.findall(text)


def run(command: str, where: Path, **variables: str) -> str:
    """Run commands of a page in a folder, with our own programs first on the path; return what they print."""
    path = f"{Path(sys.executable).parent}:{variables.pop('PATH', os.environ['PATH'])}"
    done = subprocess.run(
        ["bash", "-euc", command], cwd=where, env={**os.environ, "PATH": path, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout

"""Machine code kept on disk follows every source that it was made of."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from predictor.features import compiled
from predictor.features.compiled import source_digest

_CALLER = """
from predictor.callee import twice
from predictor.features.compiled import compiled

@compiled
def answer(x):
    return twice(x)

print(answer(21))
"""
_CALLEE = """
from predictor.features.compiled import compiled

@compiled
def twice(x):
    return {factor} * x
"""

_BOTH_AT_ONCE = """
import os, sys, time
import numpy as np
from predictor.features.compiled import compiled

in_place, late = os.replace, [float(each) for each in sys.argv[2].split(",")]
os.replace = lambda *paths: (time.sleep(late.pop(0) if late else 0), in_place(*paths))

@compiled
def halved(x):
    return x[0] / 2

print(halved(np.array([3], dtype=sys.argv[1])), sum(halved.stats.cache_hits.values()))
"""


def _package(root: Path) -> tuple[Path, dict[str, str]]:
    """Make a package with nothing but the decorator; return its folder and the environment to run it in."""
    package = root / "predictor"
    (package / "features").mkdir(parents=True)
    for folder in (package, package / "features"):
        (folder / "__init__.py").write_text("")
    shutil.copy(compiled.__file__, package / "features" / "compiled.py")
    return package, os.environ | {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(root / "cache")}


def test_a_change_of_a_called_function_in_another_file_counts(tmp_path: Path) -> None:
    package, environment = _package(tmp_path)
    (package / "caller.py").write_text(_CALLER)
    told = []
    for factor in (2, 2, 3):
        (package / "callee.py").write_text(_CALLEE.format(factor=factor))
        ran = subprocess.run(
            [sys.executable, "-m", "predictor.caller"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        told.append((ran.stdout.strip(), len(list((tmp_path / "cache").rglob("*.nbc")))))
    assert told == [("42", 2), ("42", 2), ("63", 4)]


def test_processes_that_compile_two_signatures_at_once_keep_both(tmp_path: Path) -> None:
    package, environment = _package(tmp_path)
    (package / "halves.py").write_text(_BOTH_AT_ONCE)

    def started(dtype: str, late: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "predictor.halves", dtype, late]
        return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    # with numba's own index, the first writes its code last, under the number that the second has noted
    together = [started("float64", "1,3"), started("int64", "2,0")]
    assert [each.communicate()[0].split() for each in together] == [["1.5", "0"], ["1.5", "0"]]
    for dtype in ("int64", "float64"):
        alone = started(dtype, "0")
        assert alone.communicate()[0].split() == ["1.5", "1"], (
            f"{dtype} was compiled again, or ran the other's code"
        )
    kept = list((tmp_path / "cache").rglob("halves*"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:-1])  # as after a loss of power
    again = started("float64", "0")
    assert again.communicate()[0].split() == ["1.5", "0"]


def test_the_digest_sees_names_and_contents_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.py").write_text("x = 1\n")
    first = source_digest(tmp_path)
    (tmp_path / "notes.txt").write_text("no source")
    assert source_digest(tmp_path) == first
    (tmp_path / "deep" / "a.py").rename(tmp_path / "deep" / "b.py")
    second = source_digest(tmp_path)
    (tmp_path / "deep" / "b.py").write_text("x = 2\n")
    assert len({first, second, source_digest(tmp_path)}) == 3

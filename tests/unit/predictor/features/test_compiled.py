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


def test_a_change_of_a_called_function_in_another_file_counts(tmp_path: Path) -> None:
    package = tmp_path / "predictor"
    (package / "features").mkdir(parents=True)
    for folder in (package, package / "features"):
        (folder / "__init__.py").write_text("")
    shutil.copy(compiled.__file__, package / "features" / "compiled.py")
    (package / "caller.py").write_text(_CALLER)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for factor in (2, 2, 3):
        (package / "callee.py").write_text(_CALLEE.format(factor=factor))
        ran = subprocess.run(
            [sys.executable, "-m", "predictor.caller"],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        told.append((ran.stdout.strip(), len(list((tmp_path / "cache").rglob("*.nbc")))))
    assert told == [("42", 2), ("42", 2), ("63", 4)]


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

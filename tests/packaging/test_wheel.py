"""This module builds the wheel and looks into it."""

import configparser
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from predictor import __version__

ROOT = Path(__file__).parents[2]
PACKAGES = ("predictor", "pipelines", "serving")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (path,) = out.glob("*.whl")
    with ZipFile(path) as archive:
        yield archive


def names(wheel: ZipFile) -> list[PurePosixPath]:
    return [PurePosixPath(name) for name in wheel.namelist()]


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: ZipFile) -> None:
    info = f"job_runtime_predictor-{__version__}.dist-info"
    assert {name.parts[0] for name in names(wheel)} == {*PACKAGES, info}
    assert any(name.name == "LICENSE" for name in names(wheel))


def test_the_wheel_holds_every_module_and_map_and_page_of_the_packages(wheel: ZipFile) -> None:
    """What a package reads at run time lies beside its code: maps of log formats, the page of the service."""
    packed = set(wheel.namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for pattern in ("*.py", "*.toml", "*.html")
        for path in (ROOT / package).rglob(pattern)
    }
    assert sum(name.endswith(".toml") for name in wanted) >= 7
    assert wanted <= packed


def test_no_data_is_in_the_wheel(wheel: ZipFile) -> None:
    data = {".parquet", ".gz", ".psv", ".csv", ".npz", ".db", ".swf", ".pyc"}
    assert [name for name in names(wheel) if name.suffix in data] == []


def test_every_entry_point_names_a_module_in_the_wheel(wheel: ZipFile) -> None:
    (path,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(wheel.read(path).decode())
    modules = [target.split(":")[0] for section in points.sections() for target in points[section].values()]
    assert len(modules) >= 9
    assert [name for name in modules if f"{name.replace('.', '/')}.py" not in wheel.namelist()] == []

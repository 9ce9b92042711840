"""The real service under load while its disk is full, its database restarts, or its clock is set."""

import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.services.live_service import LiveService, live_service
from tests.services.load import Load, check, finish, loaded
from tests.services.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PROBLEM = "application/problem+json"
PATIENCE_S = 30.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def acknowledged(loads: list[Load]) -> int:
    return sum(len(load.submitted) + len(load.ended) for load in loads)


def more_than(loads: list[Load], count: int) -> bool:
    return acknowledged(loads) > count


def ride_out(
    service: LiveService, loads: list[Load], begin: Callable[[], None], end: Callable[[], None]
) -> None:
    """Let a disaster begin and end under load; meanwhile writes are refused as problems, reads answered."""
    threads = loaded(loads, service)
    wait_until(lambda: all(load.submitted for load in loads), "the load has begun")
    begin()
    try:
        wait_until(lambda: all(load.refused for load in loads), "writes are refused")
        before = acknowledged(loads)
        assert service.get("/v1/queue")["sequence"] > 0
        assert service.client.get(f"{service.url}/readyz").json()["checks"]
        time.sleep(1.0)
        assert acknowledged(loads) == before
    finally:
        end()
    wait_until(partial(more_than, loads, before + 20), f"writes go on by themselves: {service.log()}")
    finish(loads, threads)
    kinds = {kind for load in loads for kind in load.refused}
    assert {(status, media_type) for status, media_type, _ in kinds} == {(503, PROBLEM)}
    assert {code for _, _, code in kinds} <= {"store-unavailable", "not-the-writer"}


@contextmanager
def small_disk(root: Path) -> Iterator[Path]:
    """A file system of 24 MiB, where the tests may mount one."""
    place = root / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_up(ballast: Path) -> None:
    """Write until the disk is full to the last block."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_full_disk_loses_nothing_and_writes_go_on_when_there_is_room(tmp_path: Path) -> None:
    loads = [Load(f"l{number}") for number in range(3)]
    with small_disk(tmp_path) as disk, live_service(disk) as service:
        service.start()
        ballast = disk / "ballast"
        ride_out(service, loads, lambda: fill_up(ballast), ballast.unlink)
        check(service.store, loads, service)


def test_files_that_cannot_grow_lose_nothing_and_writes_go_on_when_they_can(tmp_path: Path) -> None:
    """The same without privileges: the kernel refuses the process to write beyond a size."""
    loads = [Load(f"l{number}") for number in range(3)]
    with live_service(tmp_path) as service:
        service.start()

        def limit(size: int) -> None:
            assert service.process is not None
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        ride_out(service, loads, lambda: limit(4096), lambda: limit(resource.RLIM_INFINITY))
        check(service.store, loads, service)


def test_a_crash_of_the_database_loses_nothing_and_writes_go_on_when_it_is_back(
    tmp_path: Path, database: Postgres
) -> None:
    loads = [Load(f"l{number}") for number in range(3)]
    store = database.new_database()
    with live_service(tmp_path, store=store) as service:
        service.start()
        ride_out(service, loads, lambda: database.stop(hard=True), database.start)
        check(store, loads, service)


def set_clock(offset: Path, off_s: float) -> None:
    """Set the clock of a service; the file is never seen half written."""
    fresh = offset.with_suffix(".new")
    fresh.write_text(str(off_s))
    fresh.replace(offset)


def test_a_clock_that_jumps_by_hours_loses_nothing(tmp_path: Path) -> None:
    """Ahead, back behind where it began, and a restart there, with a log that ends in the future."""
    offset = tmp_path / "clock-offset"
    set_clock(offset, 0.0)
    loads = [Load(f"l{number}") for number in range(3)]
    with live_service(tmp_path, clock_offset=offset) as service:
        service.start()
        threads = loaded(loads, service)
        at_s = []
        for hours in (0, 6, -6):
            set_clock(offset, 3600.0 * hours)
            wait_until(partial(more_than, loads, acknowledged(loads) + 20), f"writes go on: {service.log()}")
            at_s.append(service.get("/v1/queue")["at_s"])
        finish(loads, threads)
        assert at_s == sorted(at_s)
        assert at_s[1] - at_s[0] > 5 * 3600
        assert not any(load.refused for load in loads)
        check(service.store, loads, service)

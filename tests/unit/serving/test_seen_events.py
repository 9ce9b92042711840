"""The index of recorded events: it finds what was added, forgets old days, and lies on disk, not in RAM."""

import gc
import os
import tracemalloc
from hashlib import blake2b
from pathlib import Path

import pytest

from serving.ledger import OpenJobs
from serving.outcome_rows import OutcomeRow, from_epoch
from serving.seen_events import SeenEvents

NOW_S = 1_793_700_000.0  # 2026-11-03


def a_key(number: int) -> bytes:
    return blake2b(str(number).encode(), digest_size=12).digest()


def test_what_was_added_is_found_and_nothing_else(tmp_path: Path) -> None:
    seen = SeenEvents(tmp_path)
    for number in range(1000):
        seen.add(a_key(number), f"payload{number}", 5)
    assert [seen.payload(a_key(number)) for number in (0, 999, 1000)] == ["payload0", "payload999", None]
    seen.close()


def test_old_days_go_little_by_little_and_all_in_the_end(tmp_path: Path) -> None:
    seen = SeenEvents(tmp_path)
    for number in range(1000):
        seen.add(a_key(number), "p", number // 500)
    for _ in range(10):
        seen.forget(1)
    left = [number for number in range(1000) if seen.payload(a_key(number)) is not None]
    assert left == list(range(500, 1000))
    seen.close()


def test_the_file_has_no_name_so_that_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / ".seen").write_text("of a service that was killed at its start")
    seen = SeenEvents(tmp_path)
    seen.add(a_key(1), "p", 1)
    assert list(tmp_path.iterdir()) == []
    seen.close()


def test_an_index_that_cannot_be_used_is_said_to_be_the_disk(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="index of recorded outcomes"):
        SeenEvents(tmp_path / "none")


def test_the_events_of_many_jobs_that_are_over_take_no_memory(tmp_path: Path) -> None:
    """Some 150 bytes per event stayed when they were kept in dictionaries."""
    jobs = OpenJobs(SeenEvents(tmp_path))

    def live(first: int, count: int) -> int:
        at = from_epoch(NOW_S)
        for number in range(first, first + count):
            for event in ("submitted", "started", "finished"):
                jobs.add(OutcomeRow(
                    event=event, recorded_at=at, payload=f"{number}{event}", job_id=f"j{number}", attempt=0,
                    state="COMPLETED", submitted_at=at, source="service", ended_at=at,
                ))  # fmt: skip
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = live(0, 500)
        after = live(500, 5000)
    finally:
        tracemalloc.stop()
    assert (after - before) / (3 * 5000) < 2.0  # bytes per event
    assert len(jobs) == 0
    assert resident_growth_mib(jobs) < 4.0
    jobs.close()


def resident_growth_mib(jobs: OpenJobs) -> float:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])

    at, before = from_epoch(NOW_S), resident()
    for number in range(20_000):
        jobs.add(OutcomeRow(
            event="finished", recorded_at=at, payload=f"{number}", job_id=f"k{number}", attempt=0,
            state="COMPLETED", submitted_at=at, source="service", ended_at=at,
        ))  # fmt: skip
    return (resident() - before) * os.sysconf("SC_PAGE_SIZE") / 2**20

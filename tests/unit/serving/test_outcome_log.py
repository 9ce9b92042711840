"""The outcome log: whole lines only, one writer, one file per day."""

import resource
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from predictor.data.schema import COLUMNS
from predictor.errors import LockHeldError
from serving.outcome_log import LogAccount, OutcomeLog
from serving.outcome_rows import OutcomeRow, column_names, from_epoch

NOW_S = 1_793_700_000.0  # 2026-11-03


def a_row(job_id: str, *, event: str = "finished", recorded_s: float = NOW_S) -> OutcomeRow:
    at = from_epoch(recorded_s)
    return OutcomeRow(
        event=event, recorded_at=at, payload="p", job_id=job_id, attempt=0, state="COMPLETED",
        submitted_at=at, source="service", ended_at=at,
    )  # fmt: skip


class Opener:
    """Opens logs and closes all of them after the test."""

    def __init__(self) -> None:
        self.logs: list[OutcomeLog] = []

    def __call__(self, directory: Path) -> OutcomeLog:
        self.logs.append(OutcomeLog(directory))
        return self.logs[-1]


@pytest.fixture
def open_log() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    for log in opener.logs:
        log.close()


def ids(log: OutcomeLog, **options: float) -> list[str]:
    return [row.job_id for row in log.read(**options)]  # type: ignore[arg-type]


def test_rows_come_back_in_the_order_in_which_they_came(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([a_row("1", event="submitted"), a_row("2")])
    log.append([a_row("3", event="started", recorded_s=NOW_S + 1)])
    log.append([a_row("4", recorded_s=NOW_S + 2)])
    assert ids(log) == ["1", "2", "3", "4"]


def test_each_day_has_its_files_and_old_days_can_be_skipped(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for day in range(4):
        log.append([a_row(str(day), recorded_s=NOW_S + day * 86400)])
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [
        f"outcomes-2026-11-0{day}.jsonl" for day in (3, 4, 5, 6)
    ]
    assert ids(log, since_s=NOW_S + 3 * 86400) == ["2", "3"]


def test_every_field_of_a_row_is_a_column_of_the_job_table() -> None:
    assert set(column_names()) <= set(COLUMNS)


@pytest.mark.parametrize("torn", [b'{"event":"fin', b'{"event":"finished"}', b"\x00\xff"])
def test_a_torn_last_line_is_set_aside_counted_and_does_not_hurt_what_follows(
    open_log: Opener, tmp_path: Path, torn: bytes
) -> None:
    log = open_log(tmp_path)
    log.append([a_row("1")])
    log.close()
    path = next(tmp_path.glob("outcomes-*.jsonl"))
    path.write_bytes(path.read_bytes() + torn)
    again = open_log(tmp_path)
    again.append([a_row("2")])
    assert again.torn == 1
    assert ids(again) == ["1", "2"]
    assert all(msgspec.json.decode(line) for line in path.read_bytes().splitlines())
    assert path.with_name(path.name + ".torn").read_bytes() == torn + b"\n"


def test_a_damaged_line_in_the_middle_is_skipped_and_counted(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([a_row("1"), a_row("2"), a_row("3")])
    path = next(tmp_path.glob("outcomes-*.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"garbage\n" + b"\n" + lines[2])
    account = LogAccount()
    assert [row.job_id for row in log.read(account=account)] == ["1", "3"]
    assert (account.rows, account.unreadable) == (2, 1)


def test_reading_stops_at_the_given_position(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([a_row("1")])
    position = log.position()
    log.append([a_row("2"), a_row("3", event="started")])
    assert [row.job_id for row in log.read(until=position)] == ["1"]


def test_a_second_service_cannot_write_to_the_same_directory(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(LockHeldError, match="another service"):
        open_log(tmp_path)
    log.close()
    open_log(tmp_path)


def test_a_write_that_fails_leaves_nothing_behind(
    open_log: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append([a_row("1")])
    synced: list[int] = []

    def fail_second(handle: int) -> None:
        synced.append(handle)
        if len(synced) > 1:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("serving.day_files.sync_directory", lambda _: None)
        patch.setattr("serving.day_files.os.fsync", fail_second)
        with pytest.raises(OSError, match="No space"):
            log.append([a_row("2", event="submitted"), a_row("3")])
    assert ids(log) == ["1"]
    log.append([a_row("4")])
    assert ids(log) == ["1", "4"]


def test_lines_that_a_full_disk_takes_in_part_are_not_acknowledged(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([a_row("1")])
    [path] = tmp_path.glob("*.jsonl")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, usual[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            log.append([a_row("2")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    log.append([a_row("3")])
    assert ids(log) == ["1", "3"]
    assert path.read_bytes().count(b"\0") == 0

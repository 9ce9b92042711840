"""This module checks the writer that gathers changes of many requests: order, failures, pressure."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from serving.store.errors import FencedError, StoreError, StoreUnavailableError
from serving.store.event_log import Change, NewEvent
from serving.store.writer import EventWriter
from tests.services.event_log_fake import MemoryEventLog

pytestmark = pytest.mark.anyio


class SlowLog(MemoryEventLog):
    """Holds back transactions, counts them, and can break before or after one."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.transactions: list[int] = []
        self.breaks: list[str] = []

    def append(self, changes: Sequence[Change], *, expected_next: int, epoch: int) -> int:
        self.open.wait(10)
        when = self.breaks.pop(0) if self.breaks else ""
        if when == "before":
            raise StoreUnavailableError("the connection broke")
        end = super().append(changes, expected_next=expected_next, epoch=epoch)
        if when == "after":
            raise StoreUnavailableError("the connection broke")
        self.transactions.append(len(changes))
        return end


@pytest.fixture
def log() -> SlowLog:
    made = SlowLog()
    assert made.take("test", made.view()) == 1
    return made


def a_change(number: int, count: int = 1) -> Change:
    return Change(events=tuple(NewEvent(moment_s=0.0, kind="x", payload=f"{number}") for _ in range(count)))


async def test_a_change_has_its_sequence_at_once_and_is_durable_later(log: SlowLog) -> None:
    log.open.clear()
    writer = EventWriter(log, epoch=1, next_sequence=1)
    first, second = writer.submit(a_change(0, 3)), writer.submit(a_change(1))
    assert (first.first_sequence, second.first_sequence, writer.next_sequence) == (1, 4, 5)
    assert not first.durable.done()
    log.open.set()
    await second.durable
    assert first.durable.done()
    assert [event.payload for event in log.read()] == ["0", "0", "0", "1"]
    await writer.close()


async def test_what_arrives_during_a_commit_shares_the_next_one(log: SlowLog) -> None:
    log.open.clear()
    writer = EventWriter(log, epoch=1, next_sequence=1)
    pending = [writer.submit(a_change(0))]
    await asyncio.sleep(0.05)
    pending += [writer.submit(a_change(number)) for number in range(1, 200)]
    log.open.set()
    await asyncio.gather(*(waiting.durable for waiting in pending))
    assert log.transactions == [1, 199]
    assert [event.payload for event in log.read()] == [str(number) for number in range(200)]
    await writer.close()


@pytest.mark.parametrize("breaks", [["before"], ["after"], ["before", "after"], ["before", "before"]])
async def test_a_connection_that_breaks_loses_and_doubles_nothing(log: SlowLog, breaks: list[str]) -> None:
    log.breaks = breaks
    writer = EventWriter(log, epoch=1, next_sequence=1)
    assert await asyncio.gather(*(writer.append(a_change(number)) for number in range(5))) == [1, 2, 3, 4, 5]
    assert [event.payload for event in log.read()] == ["0", "1", "2", "3", "4"]
    await writer.close()


async def test_after_a_failure_nothing_more_is_written(log: SlowLog) -> None:
    faults: list[StoreError] = []
    log.open.clear()
    writer = EventWriter(log, epoch=1, next_sequence=1, on_failure=faults.append)
    pending = [writer.submit(a_change(number)) for number in range(3)]
    assert log.take("other", log.view()) == 2
    log.open.set()
    results = await asyncio.gather(*(waiting.durable for waiting in pending), return_exceptions=True)
    assert [type(result) for result in results] == [FencedError] * 3
    assert faults == [writer.fault]
    with pytest.raises(FencedError):
        writer.submit(a_change(4))
    assert log.read() == []
    await writer.close()


async def test_a_database_that_stays_away_ends_the_writer(log: SlowLog) -> None:
    log.fault = StoreUnavailableError("away")
    writer = EventWriter(log, epoch=1, next_sequence=1, patience_s=0.1)
    with pytest.raises(StoreUnavailableError, match="away"):
        await writer.append(a_change(0))
    await writer.close()


async def test_too_much_that_waits_is_refused_and_harms_nothing(log: SlowLog) -> None:
    log.open.clear()
    writer = EventWriter(log, epoch=1, next_sequence=1, most_pending=2)
    pending = [writer.submit(a_change(0))]
    await asyncio.sleep(0.05)
    pending += [writer.submit(a_change(number)) for number in (1, 2)]
    with pytest.raises(StoreUnavailableError, match="wait for the disk"):
        writer.submit(a_change(3))
    log.open.set()
    await asyncio.gather(*(waiting.durable for waiting in pending))
    assert await writer.append(a_change(4)) == 4
    await writer.close()


async def test_closing_writes_what_waits(log: SlowLog) -> None:
    writer = EventWriter(log, epoch=1, next_sequence=1)
    for number in range(50):
        writer.submit(a_change(number))
    await writer.close()
    assert log.next_sequence() == 51

"""This module holds every event log to its contract: durable, ordered, atomic, fenced by the lease."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from serving.store.database import open_database, writing
from serving.store.errors import FencedError, SequenceConflictError, StoreError
from serving.store.event_log import (
    Answer,
    AuditEntry,
    Change,
    Checkpoint,
    EventLog,
    LeaseStore,
    NewEvent,
    PolicyVersion,
    StoredEvent,
)
from serving.store.schema import migrate
from serving.store.sql_event_log import SqlEventLog
from tests.services.event_log_fake import MemoryEventLog


class Log(EventLog, LeaseStore, Protocol):
    """Both contracts: the epoch of the one fences the other."""


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reopen(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Log]]:
    """Opens the same log again and again, as restarted processes would."""
    if kind == "memory":
        memory = MemoryEventLog()
        yield lambda: memory
        return
    is_sqlite = kind == "sqlite"
    url = (
        f"sqlite:///{tmp_path}/store.db" if is_sqlite else request.getfixturevalue("postgres").new_database()
    )
    engines = []

    def open_log() -> Log:
        engine = open_database(url)
        engines.append(engine)
        migrate(engine)
        return SqlEventLog(engine)

    yield open_log
    for engine in engines:
        engine.dispose()


@pytest.fixture
def log(reopen: Callable[[], Log]) -> Log:
    return reopen()


def lead(log: Log, holder: str = "a") -> int:
    epoch = log.take(holder, log.view())
    assert epoch is not None
    return epoch


def an_event(number: int = 0, **values: object) -> NewEvent:
    fields = {"moment_s": 100.0 + number, "kind": "submitted", "payload": f'{{"n": {number}}}', "actor": "k1"}
    return NewEvent(**{**fields, **values})  # type: ignore[arg-type]


def some(count: int, first: int = 0) -> list[Change]:
    return [Change(events=(an_event(first + number),)) for number in range(count)]


def an_answer(key: str = "key", moment_s: float = 100.0) -> Answer:
    return Answer(actor="k1", key=key, fingerprint="f" * 32, status=201, body='{"id": 1}', moment_s=moment_s)


def sequences(log: Log) -> list[int]:
    return [event.sequence for event in log.read()]


def test_an_empty_log_begins_with_sequence_one(log: Log) -> None:
    assert (log.next_sequence(), log.read(), log.latest_checkpoint()) == (1, [], None)
    assert log.find_answer("k1", "key") is None


def test_events_come_back_to_the_letter_and_in_order(log: Log) -> None:
    epoch = lead(log)
    odd = an_event(1, payload='{"b":1.0,"a":[1e300,"\\u0000 ü"],  "b":2}', moment_s=1.7e9 + 1 / 3)
    assert log.append([Change(events=(an_event(0), odd)), *some(1, 2)], expected_next=1, epoch=epoch) == 4
    first, second, third = log.read()
    assert second == StoredEvent(
        sequence=2, epoch=epoch, moment_s=odd.moment_s, kind="submitted", payload=odd.payload, actor="k1"
    )
    assert (first.sequence, third.sequence, third.payload) == (1, 3, '{"n": 2}')


def test_reading_goes_on_after_a_sequence_and_ends_at_a_limit(log: Log) -> None:
    log.append(some(10), expected_next=1, epoch=lead(log))
    assert [event.sequence for event in log.read(after=3, limit=4)] == [4, 5, 6, 7]
    assert log.read(after=10) == []


def test_what_was_appended_is_there_when_the_log_is_opened_again(reopen: Callable[[], Log]) -> None:
    log = reopen()
    log.append([Change(events=(an_event(),), answer=an_answer())], expected_next=1, epoch=lead(log))
    again = reopen()
    assert sequences(again) == [1]
    assert again.next_sequence() == 2
    assert again.find_answer("k1", "key") == an_answer()


def test_an_answer_belongs_to_one_actor(log: Log) -> None:
    log.append([Change(answer=an_answer())], expected_next=1, epoch=lead(log))
    assert log.find_answer("k2", "key") is None


def test_a_wrong_sequence_is_refused_and_told_the_right_one(log: Log) -> None:
    epoch = lead(log)
    log.append(some(3), expected_next=1, epoch=epoch)
    for wrong in (1, 3, 5):
        with pytest.raises(SequenceConflictError) as refused:
            log.append(some(2), expected_next=wrong, epoch=epoch)
        assert refused.value.next_sequence == 4
    assert sequences(log) == [1, 2, 3]


def test_appending_again_what_was_recorded_shows_that_it_was(log: Log) -> None:
    """So a writer whose connection broke during a commit learns how that ended."""
    epoch = lead(log)
    log.append(some(3), expected_next=1, epoch=epoch)
    with pytest.raises(SequenceConflictError) as refused:
        log.append(some(3), expected_next=1, epoch=epoch)
    assert refused.value.next_sequence == 1 + 3


def test_changes_are_recorded_all_together_or_not_at_all(log: Log) -> None:
    epoch = lead(log)
    log.append([Change(events=(an_event(),), answer=an_answer())], expected_next=1, epoch=epoch)
    twice = [*some(2), Change(events=(an_event(),), answer=an_answer())]
    with pytest.raises(StoreError):
        log.append(twice, expected_next=2, epoch=epoch)
    assert sequences(log) == [1]
    assert log.append(some(1), expected_next=2, epoch=epoch) == 3


def test_audit_and_policy_are_recorded_with_the_event(log: Log) -> None:
    entry = AuditEntry(moment_s=1.0, actor="k1", action="policy.update", target="policy")
    policy = PolicyVersion(version=1, moment_s=1.0, actor="k1", document="{}")
    change = Change(events=(an_event(),), audits=(entry,), policy=policy)
    epoch = lead(log)
    assert log.append([change], expected_next=1, epoch=epoch) == 2
    with pytest.raises(StoreError):  # a version is given once
        log.append([change], expected_next=2, epoch=epoch)
    assert sequences(log) == [1]


def test_an_earlier_epoch_can_no_longer_write(log: Log) -> None:
    old = lead(log)
    log.append(some(1), expected_next=1, epoch=old)
    new = lead(log, "b")
    with pytest.raises(FencedError):
        log.append(some(1), expected_next=2, epoch=old)
    with pytest.raises(FencedError):
        log.save_checkpoint(Checkpoint(sequence=1, moment_s=1.0, form="x", state=b"old"), epoch=old)
    assert log.append(some(1), expected_next=2, epoch=new) == 3
    assert [event.epoch for event in log.read()] == [old, new]


def test_who_gave_the_lease_back_can_no_longer_write(log: Log) -> None:
    epoch = lead(log)
    assert log.release(epoch)
    assert log.view().holder is None
    assert not log.beat(epoch)
    assert not log.release(epoch)
    with pytest.raises(FencedError):
        log.append(some(1), expected_next=1, epoch=epoch)


def test_a_lease_is_taken_only_as_it_was_seen(log: Log) -> None:
    seen = log.view()
    epoch = lead(log)
    assert log.take("b", seen) is None
    seen = log.view()
    assert log.beat(epoch)
    assert log.take("b", seen) is None, "the holder has shown a beat since"
    assert log.view().holder == "a"


def test_of_many_that_want_the_lease_one_gets_it(log: Log) -> None:
    seen = log.view()
    together = threading.Barrier(6)

    def want(holder: int) -> int | None:
        together.wait()
        return log.take(str(holder), seen)

    with ThreadPoolExecutor(6) as pool:
        taken = [epoch for epoch in pool.map(want, range(6)) if epoch is not None]
    assert taken == [log.view().epoch]


def test_of_two_writers_in_a_race_one_is_refused_and_no_sequence_is_lost(log: Log) -> None:
    epoch = lead(log)
    together = threading.Barrier(4)

    def write(number: int) -> bool:
        together.wait()
        try:
            log.append(some(3, 10 * number), expected_next=1, epoch=epoch)
        except SequenceConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(4))) == 1
    assert sequences(log) == [1, 2, 3]


def test_the_newest_checkpoint_is_the_one_found(log: Log) -> None:
    epoch = lead(log)
    log.append(some(5), expected_next=1, epoch=epoch)
    for sequence in (0, 5, 3):
        log.save_checkpoint(a_checkpoint(sequence), epoch=epoch)
    assert log.latest_checkpoint() == a_checkpoint(5)
    log.save_checkpoint(a_checkpoint(5, b"again"), epoch=epoch)
    found = log.latest_checkpoint()
    assert found is not None
    assert found.state == b"again"


def a_checkpoint(sequence: int, state: bytes = b"state\x00") -> Checkpoint:
    return Checkpoint(sequence=sequence, moment_s=200.0, form="coordinator/1", state=state)


def test_a_checkpoint_beyond_the_end_of_the_log_is_refused(log: Log) -> None:
    epoch = lead(log)
    log.append(some(2), expected_next=1, epoch=epoch)
    with pytest.raises(SequenceConflictError):
        log.save_checkpoint(a_checkpoint(3), epoch=epoch)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path}/store.db")
    migrate(engine)
    log = SqlEventLog(engine)
    epoch = lead(log)
    log.append(some(2), expected_next=1, epoch=epoch)
    for sequence in (1, 2):
        log.save_checkpoint(a_checkpoint(sequence), epoch=epoch)
    with writing(engine) as connection:
        connection.execute(text("UPDATE checkpoints SET state = x'00' WHERE sequence = 2"))
    assert log.latest_checkpoint() == a_checkpoint(1)
    engine.dispose()


def test_nothing_is_pruned_without_a_checkpoint(log: Log) -> None:
    log.append(some(4), expected_next=1, epoch=lead(log))
    assert log.prune(events_before_s=1e12, answers_before_s=0.0).events == 0
    assert sequences(log) == [1, 2, 3, 4]


def test_pruning_keeps_what_the_kept_checkpoints_need(log: Log) -> None:
    epoch = lead(log)
    log.append(some(9), expected_next=1, epoch=epoch)
    for sequence in (2, 4, 7):
        log.save_checkpoint(a_checkpoint(sequence), epoch=epoch)
    gone = log.prune(events_before_s=1e12, answers_before_s=0.0)
    assert (gone.events, gone.checkpoints) == (4, 1)
    assert sequences(log) == [5, 6, 7, 8, 9]
    assert log.append(some(1), expected_next=10, epoch=epoch) == 11


def test_pruning_keeps_young_events_and_leaves_no_gap(log: Log) -> None:
    """The third event is older than the second, as after a clock that jumped."""
    epoch = lead(log)
    moments = (100.0, 300.0, 50.0, 400.0)
    changes = [Change(events=(an_event(moment_s=moment),)) for moment in moments]
    log.append(changes, expected_next=1, epoch=epoch)
    log.save_checkpoint(a_checkpoint(4), epoch=epoch)
    assert log.prune(events_before_s=200.0, answers_before_s=0.0).events == 1
    assert sequences(log) == [2, 3, 4]


def test_a_log_pruned_to_its_end_goes_on_counting(log: Log) -> None:
    epoch = lead(log)
    log.append(some(3), expected_next=1, epoch=epoch)
    log.save_checkpoint(a_checkpoint(3), epoch=epoch)
    log.prune(events_before_s=1e12, answers_before_s=0.0)
    assert (sequences(log), log.next_sequence()) == ([], 4)


def test_old_answers_are_forgotten(log: Log) -> None:
    changes = [Change(answer=an_answer("old", 10.0)), Change(answer=an_answer("new", 20.0))]
    log.append(changes, expected_next=1, epoch=lead(log))
    assert log.prune(events_before_s=0.0, answers_before_s=15.0).answers == 1
    assert log.find_answer("k1", "old") is None
    assert log.find_answer("k1", "new") is not None


_BATCHES = st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=_BATCHES)
def test_sequences_have_no_gap_whatever_is_appended(log: Log, batches: list[list[int]]) -> None:
    epoch, start = lead(log), log.next_sequence()
    end = start
    for batch in batches:
        changes = [Change(events=tuple(an_event(n) for n in range(count))) for count in batch]
        end = log.append(changes, expected_next=end, epoch=epoch)
    assert end == start + sum(sum(batch) for batch in batches)
    assert [event.sequence for event in log.read(after=start - 1)] == list(range(start, end))

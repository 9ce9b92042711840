"""Copies of an SQLite store: whole while somebody writes, never half or in place of another file."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from predictor.errors import ArgumentError
from serving.store.backup import back_up
from serving.store.database import open_database, writing
from serving.store.errors import StoreUnavailableError
from serving.store.event_log import Change, NewEvent
from serving.store.schema import migrate
from serving.store.sql_event_log import SqlEventLog


@pytest.fixture
def store(tmp_path: Path) -> Engine:
    engine = open_database(f"sqlite:///{tmp_path}/service.db")
    migrate(engine)
    return engine


def record(engine: Engine, payload: str) -> None:
    log = SqlEventLog(engine)
    epoch = log.take("test", log.view())
    assert epoch is not None
    change = Change(events=(NewEvent(moment_s=0.0, kind="x", payload=payload),))
    log.append([change], expected_next=log.next_sequence(), epoch=epoch)


def payloads(path: Path) -> list[str]:
    engine = open_database(f"sqlite:///{path}")
    try:
        return [event.payload for event in SqlEventLog(engine).read()]
    finally:
        engine.dispose()


def test_a_copy_holds_what_is_committed_while_another_transaction_is_open(
    store: Engine, tmp_path: Path
) -> None:
    record(store, '"first"')
    with writing(store) as connection:
        connection.exec_driver_sql("UPDATE events SET payload = 'half'")
        size = back_up(store, tmp_path / "copy" / "service.db")
    record(store, '"later"')
    store.dispose()
    assert size == (tmp_path / "copy" / "service.db").stat().st_size
    assert payloads(tmp_path / "copy" / "service.db") == ['"first"']


def test_a_copy_never_takes_the_place_of_another_file(store: Engine, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("the last good one")
    with pytest.raises(ArgumentError, match="not overwritten"):
        back_up(store, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "the last good one"
    store.dispose()


def test_a_copy_that_cannot_be_written_does_not_appear(store: Engine, tmp_path: Path) -> None:
    (tmp_path / "copy.db.part").mkdir()
    with pytest.raises(StoreUnavailableError, match=r"copy\.db"):
        back_up(store, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    store.dispose()


def test_another_database_is_sent_to_its_own_tool(tmp_path: Path) -> None:
    engine = open_database("postgresql://predictor@127.0.0.1:1/none")
    with pytest.raises(ArgumentError, match="pg_dump"):
        back_up(engine, tmp_path / "copy.db")


def test_looking_at_a_store_does_not_make_one(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="working directory"):
        open_database(f"sqlite:///{tmp_path}/wrong/service.db", must_exist=True)
    assert list(tmp_path.iterdir()) == []

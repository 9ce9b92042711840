"""This module copies an SQLite database whole while a service writes to it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from predictor.errors import ArgumentError
from serving.store.errors import StoreError, StoreUnavailableError


def back_up(engine: Engine, path: Path) -> int:
    """Write a copy, check it, and return its size in bytes; the file appears when it is complete.

    Raises:
        ArgumentError: there is such a file, or the database is no SQLite file.
        StoreUnavailableError: the copy cannot be written.
        StoreError: the copy is not whole.
    """
    if engine.dialect.name != "sqlite":
        raise ArgumentError(
            f"the store is of the kind '{engine.dialect.name}', not sqlite; use the tool of that database, "
            f"such as 'pg_dump --format=custom --file FILE NAME'"
        )
    if path.exists():
        raise ArgumentError(f"'{path}' exists, and a back-up is not overwritten; name another file")
    unfinished = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with closing(engine.raw_connection()) as source:
            # one snapshot, the newest events in the -wal file included; the writer goes on meanwhile
            source.cursor().execute("VACUUM INTO ?", (str(unfinished),))
        with closing(sqlite3.connect(unfinished)) as copy:
            (verdict,) = copy.execute("PRAGMA integrity_check").fetchone()
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailableError(f"the database cannot be copied to '{path}': {error}") from error
    if verdict != "ok":
        raise StoreError(f"the copy '{unfinished}' is not whole: {verdict}")
    unfinished.replace(path)
    return path.stat().st_size

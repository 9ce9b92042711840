"""This module remembers which events were recorded, on disk: a busy site sends millions in days that count.

It is an index of the outcome log, which alone is the truth: it is built anew at each start, never synced, and
its file has no name, so that it goes with the process that made it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CACHE_KIB = 2048  # of the index in memory, whatever its size
_FAST = "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF"
_FORGET = "DELETE FROM seen WHERE key IN (SELECT key FROM seen WHERE day < ? LIMIT 200)"
_TABLES = """
CREATE TABLE seen (key BLOB PRIMARY KEY, payload TEXT NOT NULL, day INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX by_day ON seen (day);"""


class SeenEvents:
    """Digests of recorded events.

    Args:
        directory: where the index lies; None = wherever temporary files do.

    Raises:
        OSError: from all methods, where the disk is full or gone.
    """

    def __init__(self, directory: Path | None = None) -> None:
        with _as_os_error():
            path = None if directory is None else directory / ".seen"
            if path is not None:
                path.unlink(missing_ok=True)
            self._connection = sqlite3.connect(
                "" if path is None else path, check_same_thread=False, isolation_level=None
            )
            self._connection.executescript(f"{_FAST}; PRAGMA cache_size=-{_CACHE_KIB};{_TABLES}")
            if path is not None:
                path.unlink()

    def payload(self, key: bytes) -> str | None:
        """Return the digest of what an event said; None = it was not recorded."""
        with _as_os_error():
            row = self._connection.execute("SELECT payload FROM seen WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def add(self, key: bytes, payload: str, day: int) -> None:
        """Remember an event that was recorded on a day, counted from 1970 on."""
        with _as_os_error():
            self._connection.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", (key, payload, day))

    def forget(self, before_day: int) -> None:
        """Let go of some events of the days before, so few that nobody waits; call it often."""
        with _as_os_error():
            self._connection.execute(_FORGET, (before_day,))

    def close(self) -> None:
        """Let go of everything."""
        self._connection.close()


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(f"the index of recorded outcomes cannot be used: {error}") from error

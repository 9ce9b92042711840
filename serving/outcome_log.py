"""This module keeps outcomes on disk: append-only JSON lines, one file per UTC day, synced before the answer.

::

    <directory>/outcomes-2026-11-03.jsonl   finished attempts: rows of the job table for the next retraining
    <directory>/announced-2026-11-03.jsonl  submissions and starts: rows of jobs that were still alive
    <directory>/.lock                       held by the one service that writes here
"""

import fcntl
import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from predictor.errors import LockHeldError
from serving.day_files import DayFiles
from serving.outcome_rows import FINISHED, OutcomeRow, from_epoch

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The end of the log at some moment: sizes of the files that were there, by name."""

    announced: dict[str, int]
    finished: dict[str, int]


@dataclass(slots=True, kw_only=True)
class LogAccount:
    """What a reading of the log met."""

    rows: int = 0
    unreadable: int = 0


class OutcomeLog:
    """Append-only log of outcome rows; one writer per directory.

    Args:
        directory: where the files lie; made when absent.

    Raises:
        LockHeldError: another service writes there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock: IO[str] = (directory / ".lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            message = f"another service writes outcomes to '{directory}'; stop it, or give --outcomes"
            raise LockHeldError(message) from error
        self._announced = DayFiles(directory, "announced")
        self._finished = DayFiles(directory, "outcomes")
        self._encoder = msgspec.json.Encoder()

    @property
    def torn(self) -> int:
        """How many lines a crash had cut short, as found at the start."""
        return self._announced.torn + self._finished.torn

    def append(self, rows: Sequence[OutcomeRow]) -> None:
        """Write rows and force them to disk; all of them, or on an error none.

        Raises:
            OSError: the disk is full or gone.
        """
        if not rows:
            return
        day = rows[-1].recorded_at.date().isoformat()
        written: list[tuple[DayFiles, bytes]] = []
        try:
            for files, is_end in ((self._announced, False), (self._finished, True)):
                chosen = [row for row in rows if (row.event == FINISHED) == is_end]
                if chosen:
                    data = self._encoder.encode_lines(chosen)
                    written.append((files, data))
                    files.append(day, data)
        except OSError:
            for files, _ in written:
                files.withdraw()
            raise
        for files, data in written:
            files.acknowledge(data)

    def position(self) -> LogPosition:
        """Return the present end of the log; do not call while a thread appends."""
        return LogPosition(announced=self._announced.sizes(), finished=self._finished.sizes())

    def read(
        self, *, since_s: float = 0.0, until: LogPosition | None = None, account: LogAccount | None = None
    ) -> Iterator[OutcomeRow]:
        """Yield the rows of all files from the day of ``since_s`` on, in the order in which they came.

        Args:
            since_s: files of earlier days are skipped (a day of slack is left for clocks).
            until: stop there; None = read to the end.
            account: is told what was met.
        """
        first_day = from_epoch(max(since_s - DAY_S, 0.0)).date().isoformat()
        end = until or self.position()
        counts = LogAccount() if account is None else account
        announced = self._rows(self._announced, end.announced, first_day, counts)
        finished = self._rows(self._finished, end.finished, first_day, counts)
        yield from heapq.merge(announced, finished, key=lambda row: row.recorded_at)

    def writable_fault(self) -> str:
        """Return why the directory cannot be written to, empty = it can."""
        try:
            (self.directory / ".lock").touch()
        except OSError as error:
            return f"'{self.directory}' cannot be written: {error.strerror}"
        return ""

    def close(self) -> None:
        """Close the files and let another service write here."""
        self._announced.close()
        self._finished.close()
        self._lock.close()

    def _rows(
        self, files: DayFiles, sizes: dict[str, int], first_day: str, account: LogAccount
    ) -> Iterator[OutcomeRow]:
        decoder = msgspec.json.Decoder(OutcomeRow)
        for line in files.lines(sizes, first_day):
            try:
                row = decoder.decode(line)
            except msgspec.DecodeError:  # also what is JSON, but no row
                account.unreadable += 1
                continue
            account.rows += 1
            yield row

"""This module appends to the event log from an event loop: many requests share one transaction.

A forced write to disk costs the same for one event as for a thousand. While one transaction is being
committed, what arrives is gathered for the next one, so that throughput grows with load and an idle service
answers after a single write. The loop itself never waits for the disk.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from serving.store.errors import SequenceConflictError, StoreError, StoreUnavailableError
from serving.store.event_log import Change, EventLog

MOST_PENDING = 50_000
_MOST_PER_COMMIT = 1000
_PAUSE_S = 0.05  # between two attempts while the database is away


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A change on its way to the disk: its first sequence is known at once.

    Attributes:
        durable: done once the change is on disk; fails with a StoreError where it is not.
    """

    first_sequence: int
    durable: "asyncio.Future[None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    change: Change
    durable: "asyncio.Future[None]"


class EventWriter:
    """Appends changes in the order of the calls; for one epoch, from one event loop.

    After the first failure everything that waits fails too, and so does every later call: the state in
    memory has then run ahead of the log. Rebuild it from the log, and go on with a new writer.

    Args:
        next_sequence: where the log ends.
        patience_s: how long a database that is away (restarts) is waited for.
        on_failure: is told on the loop what ended this writer.
    """

    def __init__(
        self, log: EventLog, *, epoch: int, next_sequence: int, patience_s: float = 5.0,
        most_pending: int = MOST_PENDING, on_failure: Callable[[StoreError], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._log = log
        self._epoch = epoch
        self._next = next_sequence  # of the next call
        self._written = next_sequence  # of the next transaction
        self._patience_s = patience_s
        self._most_pending = most_pending
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self.fault: StoreError | None = None
        self._thread = threading.Thread(target=self._run, name="event-writer", daemon=True)
        self._thread.start()

    @property
    def next_sequence(self) -> int:
        """The sequence that the next event will get."""
        return self._next

    def submit(self, change: Change) -> Pending:
        """Queue a change; call on the event loop, and await ``durable`` before the answer leaves.

        Raises:
            StoreError: this writer has failed before.
            StoreUnavailableError: too much is waiting already.
        """
        if self.fault is not None:
            raise self.fault
        with self._wake:
            if len(self._waiting) >= self._most_pending:
                raise StoreUnavailableError(
                    f"{len(self._waiting)} changes wait for the disk; try again in a moment"
                )
            first = self._next
            self._next += len(change.events)
            pending = Pending(first_sequence=first, durable=self._loop.create_future())
            self._waiting.append(_Waiting(change=change, durable=pending.durable))
            self._wake.notify()
        return pending

    async def append(self, change: Change) -> int:
        """Record a change and return its first sequence once it is on disk.

        Raises:
            StoreError: it is not recorded, or this is not known.
        """
        pending = self.submit(change)
        await pending.durable
        return pending.first_sequence

    async def close(self) -> None:
        """Write what waits, and end."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while batch := self._take():
            try:
                self._commit([waiting.change for waiting in batch])
            except StoreError as error:
                self._tell(self._fail, batch, error)
                return
            except Exception as error:
                self._tell(self._fail, batch, StoreError(f"the writer failed: {error!r}"))
                return
            self._tell(self._finish, batch)

    def _take(self) -> list[_Waiting]:
        with self._wake:
            while not self._waiting and not self._closing:
                self._wake.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_PER_COMMIT))]

    def _commit(self, changes: list[Change]) -> None:
        count = sum(len(change.events) for change in changes)
        deadline = time.monotonic() + self._patience_s
        tries = 0
        while True:
            try:
                self._log.append(changes, expected_next=self._written, epoch=self._epoch)
                break
            except SequenceConflictError as error:
                # Nobody else writes in our epoch: the try whose connection broke had been committed.
                if tries and count and error.next_sequence == self._written + count:
                    break
                raise
            except StoreUnavailableError:
                if time.monotonic() >= deadline:
                    raise
                tries += 1
                time.sleep(_PAUSE_S)
        self._written += count

    def _tell(self, report: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(report, *arguments)
        except RuntimeError:  # the loop is closed: nobody listens any more
            return

    @staticmethod
    def _finish(batch: list[_Waiting]) -> None:
        for waiting in batch:
            if not waiting.durable.done():  # its caller may have gone
                waiting.durable.set_result(None)

    def _fail(self, batch: list[_Waiting], error: StoreError) -> None:
        with self._wake:
            batch = [*batch, *self._waiting]
            self._waiting.clear()
        self.fault = error
        for waiting in batch:
            if not waiting.durable.done():
                waiting.durable.set_exception(error)
                waiting.durable.exception()  # it is told by on_failure too: no caller needs to collect it
        self._on_failure(error)

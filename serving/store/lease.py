"""This module holds the lease that makes this instance the only writer, or waits for it as hot standby.

No clock of another machine is ever read. The holder counts a beat up in the database; whoever waits watches
that number by its own monotonic clock, and takes over when it has stood still for as long as a lease lasts.
That a slow or paused holder may wake later is harmless: its epoch is over, and its appends are refused.
"""

import threading
import time
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from serving.store.errors import StoreError
from serving.store.event_log import LeaseStore, LeaseView
from serving.store.holder import is_gone

LEASE_S = 4.0
BEAT_S = 1.0


class LeaseKeeper:
    """Beats while it holds the lease and watches while another does; a thread of its own, see ``start``.

    Args:
        holder: name of this instance, see :func:`serving.store.holder.this_process`.
        on_change: is told each new state from the keeper's thread: the epoch in which this instance
            may write, or None = it may not.
        lease_s: a holder that shows no beat for so long has lost the lease.
        gone: whether a holder is known to have ended, so that nobody needs to wait.
        monotonic: a clock that only goes forward, in seconds.
    """

    def __init__(
        self, store: LeaseStore, *, holder: str, on_change: Callable[[int | None], None],
        logger: FilteringBoundLogger, lease_s: float = LEASE_S, beat_s: float = BEAT_S,
        gone: Callable[[str], bool] = is_gone, monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._store = store
        self._holder = holder
        self._on_change = on_change
        self._logger = logger
        self._lease_s = lease_s
        self._beat_s = beat_s
        self._gone = gone
        self._monotonic = monotonic
        self._epoch: int | None = None
        self._since = monotonic()  # leading: last beat that arrived; waiting: when the lease last changed
        self._seen: LeaseView | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def epoch(self) -> int | None:
        """The epoch in which this instance may write, None = it may not."""
        return self._epoch

    def start(self) -> None:
        """Begin to beat or to watch."""
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and give the lease back where it is held; blocks for at most one step."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._epoch is not None:
            try:
                self._store.release(self._epoch)
            except StoreError as error:
                self._logger.warning("the lease could not be given back", reason=str(error))
            self._epoch = None

    def step(self) -> None:
        """Beat or look once."""
        now = self._monotonic()
        try:
            if self._epoch is not None:
                self._lead(self._epoch, now)
            else:
                self._wait(now)
        except StoreError as error:
            if self._epoch is None:
                self._seen = None  # nobody could beat meanwhile: the watch begins anew
            elif now - self._since >= self._lease_s:
                self._lose(f"no beat could be shown for {now - self._since:.1f} s: {error}")

    def _lead(self, epoch: int, now: float) -> None:
        if self._store.beat(epoch):
            self._since = now
        else:
            self._lose("another instance has taken over")

    def _wait(self, now: float) -> None:
        view = self._store.view()
        if view != self._seen:
            self._seen, self._since = view, now
        waited = now - self._since
        if view.holder is not None and waited < self._lease_s and not self._gone(view.holder):
            return
        epoch = self._store.take(self._holder, view)
        if epoch is not None:
            self._epoch, self._since, self._seen = epoch, now, None
            self._logger.info("this instance is the writer", epoch=epoch, after=view.holder or "nobody")
            self._on_change(epoch)

    def _lose(self, reason: str) -> None:
        self._logger.error("this instance is no longer the writer", epoch=self._epoch, reason=reason)
        self._epoch, self._seen = None, None
        self._on_change(None)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.step()
            self._stopping.wait(self._beat_s)

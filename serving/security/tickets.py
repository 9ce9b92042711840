"""This module gives tickets for the live feed: browsers send no headers there, and keys in URLs leak."""

import secrets
import time
from collections.abc import Callable

from serving.security.keys import Grant

TICKET_S = 30.0
_MOST = 10_000


class Tickets:
    """Tickets that each let one connection in, soon; kept in the memory of the instance that gave them."""

    def __init__(self, *, lives_s: float = TICKET_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lives_s = lives_s
        self._monotonic = monotonic
        self._open: dict[str, tuple[Grant, float]] = {}  # oldest first

    def issue(self, grant: Grant) -> str:
        """Return a ticket that is worth as much as the grant."""
        now = self._monotonic()
        while self._open:
            oldest = next(iter(self._open))
            if self._open[oldest][1] > now and len(self._open) < _MOST:
                break
            del self._open[oldest]
        ticket = secrets.token_urlsafe(24)
        self._open[ticket] = (grant, now + self._lives_s)
        return ticket

    def redeem(self, ticket: str) -> Grant | None:
        """Return the grant of a ticket, once; None where it is unknown, used or too old."""
        grant, until = self._open.pop(ticket, (None, 0.0))
        return grant if self._monotonic() < until else None

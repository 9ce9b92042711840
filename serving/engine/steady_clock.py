"""This module is the queue's clock: the machine's own while that goes forward, and never a step back.

A machine's clock that was hours ahead and is set right would leave the queue with a last event in the future.
Standing still until then would keep every timer from firing, so this clock goes on at half speed, and
meets the machine's after twice the jump.
"""

import math
import time
from collections.abc import Callable

SLOW = 0.5  # seconds told per true second while the machine's clock is behind


class SteadyClock:
    """Tells UTC epoch seconds that never fall.

    Args:
        wall: the machine's clock, which may be set at any moment.
        monotonic: a clock that only goes forward, in seconds.
    """

    def __init__(self, wall: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._told_s = -math.inf
        self._at = monotonic()

    def __call__(self) -> float:
        """Return the present instant."""
        wall_s, at = self._wall(), self._monotonic()
        slow_s = self._told_s + SLOW * (at - self._at) if wall_s < self._told_s else wall_s
        self._told_s, self._at = max(wall_s, slow_s), at
        return self._told_s

    def reach(self, moment_s: float) -> None:
        """Tell no earlier moment from now on: an event of that moment is recorded."""
        if moment_s > self():
            self._told_s = moment_s

    def until_s(self, due_s: float) -> float:
        """Return how long it takes until this clock tells a moment; 0 where it has."""
        ahead_s = due_s - self()
        if ahead_s <= 0:
            return 0.0
        return min(ahead_s / SLOW, due_s - self._wall()) if self._told_s > self._wall() else ahead_s

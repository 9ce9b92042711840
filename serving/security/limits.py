"""This module limits how often one caller may ask: a bucket of tokens that refills at a steady rate."""

import time
from collections.abc import Callable


class RateLimiter:
    """Token buckets by actor.

    Args:
        per_s: requests per second that a caller may make in the long run.
        burst: requests that it may make at once after a pause.
    """

    def __init__(
        self, *, per_s: float, burst: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}  # actor: tokens left, and when that was so

    def wait_s(self, actor: str) -> float:
        """Take a token and return 0, or return how long the caller should wait."""
        now = self._monotonic()
        left, at = self._buckets.get(actor, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_s)
        if left < 1.0:
            self._buckets[actor] = (left, now)
            return (1.0 - left) / self._per_s
        self._buckets[actor] = (left - 1.0, now)
        return 0.0

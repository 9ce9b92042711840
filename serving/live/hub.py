"""This module spreads changes to watchers without ever waiting for one of them.

All watchers share one ring of the last changes and each has a place in it. Publishing appends to the ring
and wakes those who wait; a watcher that is slow falls behind, and once its place has left the ring it is told
to fetch the state anew. So memory does not grow with watchers, and a stuck one harms nobody.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

_FRAMES_PER_S = 4000  # to all watchers together: writing one costs some tens of microseconds
_SLOWEST_S = 0.5
_FRAMES = 64  # encoded frames kept for watchers that read the same stretch of the same topics


class Topic(StrEnum):
    """What one can watch."""

    QUEUE = "queue"
    JOBS = "jobs"
    RESERVATIONS = "reservations"
    MODEL = "model"
    ALERTS = "alerts"


ALL_TOPICS = frozenset(Topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change; ``body`` is its JSON object without the sequence."""

    topic: Topic
    kind: str
    body: bytes

    @classmethod
    def of(cls, topic: Topic, kind: str, data: object) -> "Change":
        """Return a change with its data encoded once for all watchers."""
        return cls(topic=topic, kind=kind, body=msgspec.json.encode(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a watcher gets next: changes up to ``sequence``, or the advice to fetch the state anew.

    Attributes:
        text: JSON array of the changes; empty for a heartbeat and a resync.
        resync: the watcher has missed changes that nobody has any more.
    """

    sequence: int
    text: bytes = b""
    resync: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    sequence: int
    changes: tuple[Change, ...]


class Hub:
    """The ring of the last changes; belongs to the event loop.

    Args:
        groups: how many changed sequences are kept for those who fall behind or come back.
    """

    def __init__(self, *, groups: int = 4096) -> None:
        self._ring: deque[_Group] = deque(maxlen=groups)
        self._oldest = 0  # changes after this sequence are all in the ring
        self._wake = asyncio.Event()
        self._frames: OrderedDict[tuple[int, int, frozenset[Topic]], bytes] = OrderedDict()
        self.sequence = 0
        self.closed = False
        self.watchers = 0
        self.resyncs = 0

    def start(self, sequence: int) -> None:
        """Say up to which sequence the state is that watchers can fetch; nothing older is in the ring."""
        self._ring.clear()
        self.sequence = self._oldest = sequence
        self._ring_changed()

    def publish(self, sequence: int, changes: Iterable[Change]) -> None:
        """Add the changes of one sequence; sequences only ever grow."""
        found = tuple(changes)
        if sequence <= self.sequence or not found:
            self.sequence = max(self.sequence, sequence)
            return
        if len(self._ring) == self._ring.maxlen:
            self._oldest = self._ring[0].sequence
        self._ring.append(_Group(sequence, found))
        self.sequence = sequence
        self._ring_changed()

    def close(self) -> None:
        """Send all watchers home."""
        self.closed = True
        self._wake.set()

    def watch(self, topics: frozenset[Topic], after: int | None) -> "Watch":
        """Return a place in the ring: after a sequence that was seen before, or at the end."""
        return Watch(self, topics, self.sequence if after is None else after)

    @property
    def pace_s(self) -> float:
        """Shortest time between two frames to one watcher, so that many watchers do not stop the queue."""
        return min(self.watchers / _FRAMES_PER_S, _SLOWEST_S)

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._wake.wait()

    def frame(self, after: int, topics: frozenset[Topic]) -> Frame | None:
        """Return what follows a sequence; None = nothing yet."""
        if after < self._oldest or after > self.sequence:
            return Frame(sequence=self.sequence, resync=True)
        if after == self.sequence:
            return None
        key = (after, self.sequence, topics)
        text = self._frames.get(key)
        if text is None:
            text = _encode(self._since(after), topics)
            self._frames[key] = text
            if len(self._frames) > _FRAMES:
                self._frames.popitem(last=False)
        return Frame(sequence=self.sequence, text=text)

    def _since(self, after: int) -> list[_Group]:
        groups = []
        for group in reversed(self._ring):
            if group.sequence <= after:
                break
            groups.append(group)
        groups.reverse()
        return groups

    def _ring_changed(self) -> None:
        self._frames.clear()
        self._wake.set()
        self._wake = asyncio.Event()


class Watch:
    """The place of one watcher."""

    def __init__(self, hub: Hub, topics: frozenset[Topic], after: int) -> None:
        self._hub = hub
        self.topics = topics
        self.after = after
        self._told_s = -math.inf

    def __enter__(self) -> "Watch":
        self._hub.watchers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._hub.watchers -= 1

    async def next(self, heartbeat_s: float) -> Frame | None:
        """Return the next frame; one without text where nothing came in time, None after the end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + heartbeat_s
        rest_s = self._told_s + self._hub.pace_s - loop.time()
        if rest_s > 0:  # what comes meanwhile goes into the same frame
            await asyncio.sleep(rest_s)
        while not self._hub.closed:
            frame = self._hub.frame(self.after, self.topics)
            if frame is not None:
                self.after = frame.sequence
                if frame.resync:
                    self._hub.resyncs += 1
                if frame.resync or frame.text:
                    self._told_s = loop.time()
                    return frame
                continue  # changes of other topics only
            try:
                async with asyncio.timeout_at(until):
                    await self._hub.changed()
            except TimeoutError:
                return Frame(sequence=self.after)
        return None


def _encode(groups: Sequence[_Group], topics: frozenset[Topic]) -> bytes:
    parts = [
        b'{"sequence":%d,"topic":"%s","kind":"%s","data":%s}'
        % (group.sequence, change.topic.value.encode(), change.kind.encode(), change.body)
        for group in groups
        for change in group.changes
        if change.topic in topics
    ]
    return b"[" + b",".join(parts) + b"]" if parts else b""

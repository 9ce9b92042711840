"""This module writes the log as JSON lines: all that is known of events, or the job rows that they make."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from predictor.contracts.events import Event
from predictor.data.sources.event_log import job_rows
from serving.store.event_log import EventLog, StoredEvent

STEP = "step"  # the kind of what holds events of the queue
_PAGE = 5000


def all_events(log: EventLog, *, after: int = 0) -> Iterator[StoredEvent]:
    """Yield the events of the log in order, a page at a time."""
    while events := log.read(after=after, limit=_PAGE):
        yield from events
        after = events[-1].sequence


def export_events(log: EventLog, path: Path, *, after: int = 0) -> int:
    """Write events with all that is known of them; return their count."""
    return _write(
        path,
        (
            {"sequence": event.sequence, "epoch": event.epoch, "moment_s": event.moment_s,
             "kind": event.kind, "actor": event.actor, "payload": msgspec.Raw(event.payload.encode())}
            for event in all_events(log, after=after)
        ),
    )  # fmt: skip


def export_rows(log: EventLog, path: Path, decode: Callable[[str], Iterable[Event]]) -> int:
    """Write rows of the job table, in the form of the outcome log, for retraining; return their count.

    Args:
        decode: returns the queue's events of a payload.
    """
    steps = (event.payload for event in all_events(log) if event.kind == STEP)
    return _write(path, job_rows(event for payload in steps for event in decode(payload)))


def _write(path: Path, documents: Iterable[object]) -> int:
    """Write one line per document; the file appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    count = 0
    with unfinished.open("wb") as file:
        for document in documents:
            file.write(msgspec.json.encode(document) + b"\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    return count

"""This module writes the log as JSON lines, whole or as rows of the job table that retraining reads.

TODO
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from serving.store.event_log import EventLog, StoredEvent

_PAGE = 5000


def all_events(log: EventLog, *, after: int = 0) -> Iterator[StoredEvent]:
    """Yield the events of the log in order, a page at a time."""
    while events := log.read(after=after, limit=_PAGE):
        yield from events
        after = events[-1].sequence


def export_events(log: EventLog, path: Path, *, after: int = 0) -> int:
    """Write events with all that is known of them; return their count. The file appears at the end."""

    def lines() -> Iterator[bytes]:
        for event in all_events(log, after=after):
            yield msgspec.json.encode(
                {"sequence": event.sequence, "epoch": event.epoch, "moment_s": event.moment_s,
                 "kind": event.kind, "actor": event.actor, "payload": msgspec.Raw(event.payload.encode())}
            )  # fmt: skip

    return _write(path, lines())


def export_rows(log: EventLog, path: Path) -> int:
    """Write the job-table rows that events carry, for the retraining; return their count."""

    def lines() -> Iterator[bytes]:
        for event in all_events(log):
            payload = json.loads(event.payload)
            row = payload.get("row") if isinstance(payload, dict) else None
            if isinstance(row, dict):
                yield msgspec.json.encode(row)

    return _write(path, lines())


def _write(path: Path, lines: Iterator[bytes]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    count = 0
    with unfinished.open("wb") as file:
        for line in lines:
            file.write(line + b"\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    return count

"""This module builds the state of the queue from the event log, as a restart, a standby or a check does."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from predictor.contracts.event_codec import decode_events
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.snapshot import restore
from serving.engine.changes import changes_of
from serving.live.hub import Change, Topic
from serving.store.event_log import EventLog, StoredEvent

STEP, RESTORED, NOTE = "step", "restored", "note"
FORM = "coordinator/3"
READ = 1000  # events of the log in one read


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A Coordinator as it is after the event ``sequence`` (0 = before the first)."""

    coordinator: Coordinator
    sequence: int
    last_s: float


def rebuild(
    log: EventLog, build: Callable[[], Coordinator], *, until: int | None = None, checkpoints: bool = True
) -> Rebuilt:
    """Return the state that the log tells.

    Args:
        build: makes the Coordinator as it is before the first event.
        until: last event to apply, None = to the end.
        checkpoints: begin at the latest checkpoint; False = apply every event from the first on.

    Raises:
        StoreError: the log cannot be read.
    """
    coordinator, sequence, last_s = build(), 0, -math.inf
    checkpoint = log.latest_checkpoint() if checkpoints else None
    if checkpoint is not None and checkpoint.form == FORM and (until is None or checkpoint.sequence <= until):
        coordinator = restore(msgspec.json.decode(checkpoint.state))
        sequence, last_s = checkpoint.sequence, checkpoint.moment_s
    while events := log.read(after=sequence, limit=READ):
        for event in events:
            if until is not None and event.sequence > until:
                return Rebuilt(coordinator=coordinator, sequence=sequence, last_s=last_s)
            coordinator, _ = replay(coordinator, event)
            sequence, last_s = event.sequence, event.moment_s
    return Rebuilt(coordinator=coordinator, sequence=sequence, last_s=last_s)


def replay(coordinator: Coordinator, event: StoredEvent) -> tuple[Coordinator, list[Change] | None]:
    """Return the Coordinator after a recorded event, and what watchers are told of it (None = start anew)."""
    if event.kind == RESTORED:
        return restore(msgspec.json.decode(event.payload)), None
    if event.kind == NOTE:
        note = msgspec.json.decode(event.payload)
        return coordinator, [Change.of(Topic(note["topic"]), note["kind"], note["data"])]
    if event.kind != STEP:
        return coordinator, []
    events = decode_events(event.payload)
    return coordinator, changes_of(events, coordinator.apply_all(events))

"""An event log in memory, held to the same contract as the real ones; for tests that need no disk."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from serving.store.errors import FencedError, SequenceConflictError, StoreError
from serving.store.event_log import (
    Answer,
    Change,
    Checkpoint,
    LeaseView,
    Pruned,
    StoredEvent,
)


class MemoryEventLog:
    """What the SQL log does, with lists; ``fault`` makes every method fail."""

    def __init__(self) -> None:
        self.fault: StoreError | None = None
        self.changes: list[Change] = []
        self._events: list[StoredEvent] = []
        self._answers: dict[tuple[str, str], Answer] = {}
        self._checkpoints: dict[int, Checkpoint] = {}
        self._policies: set[int] = set()
        self._next = 1
        self._lease = LeaseView(epoch=0, beat=0, holder=None)
        self._lock = threading.RLock()

    def append(self, changes: Sequence[Change], *, expected_next: int, epoch: int) -> int:
        with self._lock:
            self._check(epoch)
            if expected_next != self._next:
                raise SequenceConflictError("the log ends elsewhere", next_sequence=self._next)
            told = [change.answer for change in changes if change.answer is not None]
            keys = [(answer.actor, answer.key) for answer in told]
            if len({*keys}) < len(keys) or any(key in self._answers for key in keys):
                raise StoreError("the key has an answer")
            decided = [change.policy.version for change in changes if change.policy is not None]
            if self._policies & {*decided}:
                raise StoreError("the policy has this version")
            self._policies |= {*decided}
            for event in (event for change in changes for event in change.events):
                self._events.append(
                    StoredEvent(sequence=self._next, epoch=epoch, moment_s=event.moment_s, kind=event.kind,
                                payload=event.payload, actor=event.actor)
                )  # fmt: skip
                self._next += 1
            self._answers.update(zip(keys, told, strict=True))
            self.changes += changes
            return self._next

    def next_sequence(self) -> int:
        self._check()
        return self._next

    def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        with self._lock:
            self._check()
            return [event for event in self._events if event.sequence > after][:limit]

    def find_answer(self, actor: str, key: str) -> Answer | None:
        self._check()
        return self._answers.get((actor, key))

    def save_checkpoint(self, checkpoint: Checkpoint, *, epoch: int) -> None:
        with self._lock:
            self._check(epoch)
            if checkpoint.sequence >= self._next:
                raise SequenceConflictError("the log ends before", next_sequence=self._next)
            self._checkpoints[checkpoint.sequence] = checkpoint

    def latest_checkpoint(self) -> Checkpoint | None:
        with self._lock:
            self._check()
            return self._checkpoints[max(self._checkpoints)] if self._checkpoints else None

    def prune(self, *, events_before_s: float, answers_before_s: float, keep_checkpoints: int = 2) -> Pruned:
        with self._lock:
            self._check()
            before = (len(self._events), len(self._answers), len(self._checkpoints))
            kept = sorted(self._checkpoints)[-max(keep_checkpoints, 1) :]
            while kept and self._events:
                first = self._events[0]
                if first.sequence > kept[0] or first.moment_s >= events_before_s:
                    break
                del self._events[0]
            self._checkpoints = {sequence: self._checkpoints[sequence] for sequence in kept}
            self._answers = {
                key: answer for key, answer in self._answers.items() if answer.moment_s >= answers_before_s
            }
            after = (len(self._events), len(self._answers), len(self._checkpoints))
        return Pruned(events=before[0] - after[0], answers=before[1] - after[1],
                      checkpoints=before[2] - after[2])  # fmt: skip

    def view(self) -> LeaseView:
        self._check()
        return self._lease

    def take(self, holder: str, seen: LeaseView) -> int | None:
        with self._lock:
            self._check()
            if (seen.epoch, seen.beat) != (self._lease.epoch, self._lease.beat):
                return None
            self._lease = LeaseView(epoch=seen.epoch + 1, beat=seen.beat + 1, holder=holder)
            return self._lease.epoch

    def beat(self, epoch: int) -> bool:
        with self._lock:
            self._check()
            if epoch != self._lease.epoch:
                return False
            self._lease = replace(self._lease, beat=self._lease.beat + 1)
            return True

    def release(self, epoch: int) -> bool:
        with self._lock:
            self._check()
            if epoch != self._lease.epoch:
                return False
            self._lease = replace(self._lease, epoch=epoch + 1, holder=None)
            return True

    def _check(self, epoch: int | None = None) -> None:
        if self.fault is not None:
            raise self.fault
        if epoch is not None and epoch != self._lease.epoch:
            raise FencedError(f"the epoch {epoch} is over")

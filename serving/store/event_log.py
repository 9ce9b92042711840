"""This module says what the service expects of its event log, and names the values that go in and out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

FIRST_SEQUENCE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """Something that happened and is about to be recorded.

    Attributes:
        moment_s: when it happened for the Coordinator, UTC epoch seconds.
        payload: one JSON document, kept to the letter so that a replay sees what the first run saw.
        actor: who caused it: the id of an API key, or the name of a part of the service.
    """

    moment_s: float
    kind: str
    payload: str
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A recorded event; ``sequence`` counts from 1 without gaps, ``epoch`` tells the writer's term."""

    sequence: int
    epoch: int
    moment_s: float
    kind: str
    payload: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered to a request with an ``Idempotency-Key``, to be given again when it is repeated.

    Attributes:
        fingerprint: digest of the request, to refuse the key for another one.
    """

    actor: str
    key: str
    fingerprint: str
    status: int
    body: str
    moment_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Who changed what, when; ``detail`` is a JSON document with what was before and after."""

    moment_s: float
    actor: str
    action: str
    target: str
    detail: str = "{}"
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A policy in force from ``moment_s`` on; ``document`` is its JSON."""

    version: int
    moment_s: float
    actor: str
    document: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """All that one request records: whole, or not at all."""

    events: tuple[NewEvent, ...] = ()
    answer: Answer | None = None
    audits: tuple[AuditEntry, ...] = ()
    policy: PolicyVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The Coordinator's state after the event ``sequence`` (0 = before the first).

    Attributes:
        form: name and version of the encoding of ``state``; who reads another form replays instead.
    """

    sequence: int
    moment_s: float
    form: str
    state: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What retention deleted."""

    events: int
    answers: int
    checkpoints: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseView:
    """The right to write, as found: holder None = nobody's; ``beat`` grows while its holder lives."""

    epoch: int
    beat: int
    holder: str | None


class EventLog(Protocol):
    """An append-only log with one writer at a time.

    Guarantees, which ``tests/contract/test_event_log.py`` holds every implementation to:

    - *Atomic*: the changes of one ``append`` are recorded all together or not at all.
    - *Durable*: once ``append`` returns, a crash of process or database loses nothing of it.
    - *Ordered*: sequences count from 1 without gaps or repetition, in the order of the arguments.
    - *Fenced*: an epoch that is not the latest cannot append. This is checked in the transaction that
      writes, so a writer that was paused during a take-over cannot add anything on waking.
    - *Ambiguity can be settled*: where the connection broke during ``append``, appending the same again
      either records it or raises SequenceConflictError whose ``next_sequence`` shows that it was recorded.
    - *Retained*: events after the oldest kept checkpoint are never deleted; without checkpoint, none is.
    - *Threads*: all methods may be called from any thread. Values are immutable.

    Every method raises StoreUnavailableError where the storage fails.
    """

    def append(self, changes: Sequence[Change], *, expected_next: int, epoch: int) -> int:
        """Record changes as of sequence ``expected_next``, and return the sequence that follows.

        Raises:
            FencedError: a later epoch has begun.
            SequenceConflictError: the next sequence is another one.
        """

    def next_sequence(self) -> int:
        """Return the sequence that the next event will get."""

    def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """Return up to ``limit`` events with sequences above ``after``, in order."""

    def find_answer(self, actor: str, key: str) -> Answer | None:
        """Return what was answered to an earlier request with this key."""

    def save_checkpoint(self, checkpoint: Checkpoint, *, epoch: int) -> None:
        """Keep a state, in place of an earlier one at the same sequence.

        Raises:
            FencedError: a later epoch has begun.
            SequenceConflictError: the log does not reach that far.
        """

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest state that is intact, None = replay from the first event."""

    def prune(self, *, events_before_s: float, answers_before_s: float, keep_checkpoints: int = 2) -> Pruned:
        """Delete what is older than a moment and not needed to restore the present state."""


class LeaseStore(Protocol):
    """Keeps who may write. No method compares clocks, so a clock that jumps changes nothing."""

    def view(self) -> LeaseView:
        """Return the lease as it is."""

    def take(self, holder: str, seen: LeaseView) -> int | None:
        """Take the lease and return the new epoch; None where it is no longer as ``seen``."""

    def beat(self, epoch: int) -> bool:
        """Show that the holder lives; False where the epoch is over."""

    def release(self, epoch: int) -> bool:
        """End the epoch so that another can take the lease at once; False where it is over already."""

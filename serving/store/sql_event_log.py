"""This module keeps the event log and the lease in a database; ``EventLog`` says what it guarantees."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from serving.store.database import reading, writing
from serving.store.errors import FencedError, SequenceConflictError
from serving.store.event_log import (
    Answer,
    Change,
    Checkpoint,
    LeaseView,
    Pruned,
    StoredEvent,
)
from serving.store.tables import WRITER, answers, audit, checkpoints, events, lease, policies

_COLUMNS = (events.c.sequence, events.c.epoch, events.c.moment_s, events.c.kind, events.c.payload,
            events.c.actor)  # fmt: skip
_OURS = lease.c.name == WRITER


class SqlEventLog:
    """Event log and lease in one database; the engine belongs to the caller."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def append(self, changes: Sequence[Change], *, expected_next: int, epoch: int) -> int:
        """Record changes in one transaction, and return the sequence that follows."""
        count = sum(len(change.events) for change in changes)
        with writing(self._engine) as connection:
            head = (
                update(lease)
                .where(_OURS, lease.c.epoch == epoch, lease.c.next_sequence == expected_next)
                .values(next_sequence=expected_next + count)
            )
            if connection.execute(head).rowcount != 1:
                _refuse(connection, expected_next, epoch)
            _insert(connection, changes, expected_next, epoch)
        return expected_next + count

    def next_sequence(self) -> int:
        """Return the sequence that the next event will get."""
        with reading(self._engine) as connection:
            return int(connection.execute(select(lease.c.next_sequence).where(_OURS)).scalar_one())

    def read(self, *, after: int = 0, limit: int = 1000) -> Sequence[StoredEvent]:
        """Return up to ``limit`` events with sequences above ``after``, in order."""
        wanted = select(*_COLUMNS).where(events.c.sequence > after).order_by(events.c.sequence).limit(limit)
        with reading(self._engine) as connection:
            rows = connection.execute(wanted).all()
        return [
            StoredEvent(sequence=row[0], epoch=row[1], moment_s=row[2], kind=row[3], payload=row[4],
                        actor=row[5])
            for row in rows
        ]  # fmt: skip

    def find_answer(self, actor: str, key: str) -> Answer | None:
        """Return what was answered to an earlier request with this key."""
        wanted = select(answers).where(answers.c.actor == actor, answers.c.key == key)
        with reading(self._engine) as connection:
            row = connection.execute(wanted).one_or_none()
        return None if row is None else Answer(**row._mapping)

    def save_checkpoint(self, checkpoint: Checkpoint, *, epoch: int) -> None:
        """Keep a state, in place of an earlier one at the same sequence."""
        packed = zlib.compress(checkpoint.state, 1)
        with writing(self._engine) as connection:
            # The update changes nothing; it holds the lease in place until the state is written.
            held = update(lease).where(_OURS, lease.c.epoch == epoch).values(epoch=epoch)
            if connection.execute(held).rowcount != 1:
                _refuse(connection, 0, epoch)
            reached = connection.execute(select(lease.c.next_sequence).where(_OURS)).scalar_one()
            if checkpoint.sequence >= reached:
                raise SequenceConflictError(
                    f"a checkpoint after event {checkpoint.sequence} is not possible; the log ends before "
                    f"{reached}", next_sequence=reached,
                )  # fmt: skip
            connection.execute(delete(checkpoints).where(checkpoints.c.sequence == checkpoint.sequence))
            connection.execute(
                insert(checkpoints).values(
                    sequence=checkpoint.sequence, moment_s=checkpoint.moment_s, form=checkpoint.form,
                    digest=hashlib.sha256(packed).hexdigest(), state=packed,
                )
            )  # fmt: skip

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest state that is intact, None = replay from the first event."""
        newest_first = select(checkpoints).order_by(checkpoints.c.sequence.desc())
        with reading(self._engine) as connection:
            for row in connection.execute(newest_first):
                if hashlib.sha256(row.state).hexdigest() == row.digest:
                    return Checkpoint(
                        sequence=row.sequence, moment_s=row.moment_s, form=row.form,
                        state=zlib.decompress(row.state),
                    )  # fmt: skip
        return None

    def prune(self, *, events_before_s: float, answers_before_s: float, keep_checkpoints: int = 2) -> Pruned:
        """Delete what is older than a moment and not needed to restore the present state."""
        newest = select(checkpoints.c.sequence).order_by(checkpoints.c.sequence.desc())
        with writing(self._engine) as connection:
            kept = list(connection.execute(newest.limit(max(keep_checkpoints, 1))).scalars())
            gone_events = gone_checkpoints = 0
            if kept:
                # Events go as a prefix, whatever their moments, so that no gap can arise.
                first_kept = connection.execute(
                    select(func.min(events.c.sequence)).where(events.c.moment_s >= events_before_s)
                ).scalar()
                last = kept[-1] if first_kept is None else min(kept[-1], first_kept - 1)
                gone_events = connection.execute(delete(events).where(events.c.sequence <= last)).rowcount
                gone_checkpoints = connection.execute(
                    delete(checkpoints).where(checkpoints.c.sequence < kept[-1])
                ).rowcount
            stale = delete(answers).where(answers.c.moment_s < answers_before_s)
            gone_answers = connection.execute(stale).rowcount
        return Pruned(events=gone_events, answers=gone_answers, checkpoints=gone_checkpoints)

    def view(self) -> LeaseView:
        """Return the lease as it is."""
        with reading(self._engine) as connection:
            row = connection.execute(select(lease).where(_OURS)).one()
        return LeaseView(epoch=row.epoch, beat=row.beat, holder=row.holder)

    def take(self, holder: str, seen: LeaseView) -> int | None:
        """Take the lease and return the new epoch; None where it is no longer as ``seen``."""
        epoch = seen.epoch + 1
        taken = (
            update(lease)
            .where(_OURS, lease.c.epoch == seen.epoch, lease.c.beat == seen.beat)
            .values(epoch=epoch, beat=seen.beat + 1, holder=holder)
        )
        with writing(self._engine) as connection:
            return epoch if connection.execute(taken).rowcount == 1 else None

    def beat(self, epoch: int) -> bool:
        """Show that the holder lives; False where the epoch is over."""
        shown = update(lease).where(_OURS, lease.c.epoch == epoch).values(beat=lease.c.beat + 1)
        with writing(self._engine) as connection:
            return connection.execute(shown).rowcount == 1

    def release(self, epoch: int) -> bool:
        """End the epoch so that another can take the lease at once; False where it is over already."""
        # The epoch moves on as well: whoever gave the lease back can no longer append.
        given = update(lease).where(_OURS, lease.c.epoch == epoch).values(holder=None, epoch=epoch + 1)
        with writing(self._engine) as connection:
            return connection.execute(given).rowcount == 1


def _refuse(connection: Connection, expected_next: int, epoch: int) -> None:
    row = connection.execute(select(lease).where(_OURS)).one()
    if row.epoch != epoch:
        raise FencedError(
            f"the epoch {epoch} of this writer is over; '{row.holder or 'nobody'}' has the epoch {row.epoch}"
        )
    raise SequenceConflictError(
        f"the log goes on at sequence {row.next_sequence}, not {expected_next}; "
        f"read it again from the last checkpoint",
        next_sequence=row.next_sequence,
    )


def _insert(connection: Connection, changes: Sequence[Change], first: int, epoch: int) -> None:
    new = [event for change in changes for event in change.events]
    rows = [
        {"sequence": sequence, "epoch": epoch, "moment_s": event.moment_s, "kind": event.kind,
         "actor": event.actor, "payload": event.payload}
        for sequence, event in enumerate(new, first)
    ]  # fmt: skip
    if rows:
        connection.execute(insert(events), rows)
    told = [change.answer for change in changes if change.answer is not None]
    if told:
        connection.execute(insert(answers), [asdict(answer) for answer in told])
    noted = [entry for change in changes for entry in change.audits]
    if noted:
        connection.execute(insert(audit), [asdict(entry) for entry in noted])
    decided = [change.policy for change in changes if change.policy is not None]
    if decided:
        connection.execute(insert(policies), [asdict(policy) for policy in decided])

"""This module is the engine: the one place where the queue changes, and only by recorded events.

A step is a list of events of one instant. It is applied to the Coordinator in memory, which is deterministic,
and written to the event log; its answer leaves when the log has it on disk. Restart, take-over and standby
all run the same recorded steps through the same Coordinator, so they arrive at the same state.

::

    STARTING ──> STANDBY ──(lease)──> LEADING ──(lease lost)──> STANDBY
                                        │  ^
                                (log fails) (rebuilt from the log)
                                        v  │
                                     RECOVERING
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import msgspec
from structlog.typing import FilteringBoundLogger

from predictor.contracts.decisions import Decision
from predictor.contracts.event_codec import encode_events
from predictor.contracts.events import Event, Tick
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.snapshot import snapshot
from serving.engine.changes import changes_of
from serving.engine.replay import FORM, NOTE, READ, RESTORED, STEP, rebuild, replay
from serving.engine.steady_clock import SteadyClock
from serving.engine.steps import NOTHING_BESIDE, Applied, Record, Role, Unpublished
from serving.live.hub import Change, Hub, Topic
from serving.ports import Clock
from serving.problems import Problem, ProblemError, problem
from serving.store.errors import FencedError, StoreError
from serving.store.event_log import Change as LogChange
from serving.store.event_log import (
    Checkpoint,
    EventLog,
    NewEvent,
)
from serving.store.writer import EventWriter

_RETRY = (("Retry-After", "2"),)
_ELSEWHERE = (
    *_RETRY,
    ("Connection", "close"),
)  # behind one address, the next connection may reach the writer
_LONGEST_SLEEP_S = 60.0  # then the clock is asked again: it may have been set


class Engine:
    """The Coordinator with its log; all methods belong to the event loop.

    Args:
        build: makes the Coordinator as it is before the first event.
        checkpoint_every: steps between two checkpoints of the state.
        follow_s: seconds between two looks of a standby at the log.
    """

    def __init__(
        self, *, log: EventLog, build: Callable[[], Coordinator], hub: Hub, clock: Clock,
        logger: FilteringBoundLogger, checkpoint_every: int = 2000, follow_s: float = 0.5,
    ) -> None:  # fmt: skip
        self._log = log
        self._build = build
        self._hub = hub
        self._clock = SteadyClock(clock)
        self._logger = logger
        self._checkpoint_every = checkpoint_every
        self._follow_s = follow_s
        self._writer: EventWriter | None = None
        self._epoch: int | None = None
        self._unpublished: deque[Unpublished] = deque()
        self._wakeup: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._since_checkpoint = 0
        self._last_s = -math.inf
        self.role = Role.STARTING
        self.fault = ""
        self.sequence = 0
        self.coordinator = build()
        self.loop: asyncio.AbstractEventLoop

    def now_s(self) -> float:
        """Return the instant of the next step: the clock's, but never before that of an earlier step."""
        return self._clock()

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Restore the state from the log; this instance is a standby then."""
        self.loop = asyncio.get_running_loop()
        await self._rebuild()
        self.role = Role.STANDBY
        self._spawn(self._follow())

    async def stop(self) -> None:
        """Write what waits, keep a checkpoint, and end."""
        for task in tuple(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self._stop_timer()
        if self._writer is not None:
            await self._writer.close()
            self._publish_durable()
            if self._writer.fault is None and self._since_checkpoint and self._epoch is not None:
                with contextlib.suppress(StoreError):
                    await asyncio.to_thread(self._save, self._checkpoint(), self._epoch)
        self._hub.close()

    def lease_changed(self, epoch: int | None) -> None:
        """Lead from now on, in this epoch; None = another instance may."""
        self._epoch = epoch
        self._spawn(self._lead(epoch) if epoch is not None else self._yield_lead())

    async def _lead(self, epoch: int) -> None:
        while self._epoch == epoch and self.role is not Role.LEADING:
            try:
                await self._catch_up()
                if self._epoch != epoch:
                    return
                self._writer = EventWriter(
                    self._log, epoch=epoch, next_sequence=self.sequence + 1, on_failure=self._log_failed
                )
                self.role, self.fault = Role.LEADING, ""
                self._logger.info("leading", epoch=epoch, sequence=self.sequence)
                self._set_timer()
            except StoreError as error:
                self.fault = str(error)
                await asyncio.sleep(self._follow_s)

    async def _yield_lead(self) -> None:
        self.role = Role.STANDBY
        self._stop_timer()
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()
            await self._recover(Role.STANDBY)  # what was applied may not have reached the log

    def _log_failed(self, error: StoreError) -> None:
        """Take note that the state has run ahead of the log, and build it anew."""
        self.role, self.fault = Role.RECOVERING, str(error)
        writer, self._writer = self._writer, None
        self._stop_timer()
        self._logger.error("the event log failed; rebuilding the state from it", reason=str(error))
        if isinstance(error, FencedError):
            self._epoch = None
        self._spawn(self._recover_and_lead(writer))

    async def _recover_and_lead(self, writer: EventWriter | None) -> None:
        if writer is not None:  # what it was given before is acknowledged when it is on disk
            await writer.close()
        await self._recover(Role.STANDBY)
        if self._epoch is not None:
            await self._lead(self._epoch)

    async def _recover(self, role: Role) -> None:
        while True:
            try:
                await self._rebuild()
                self.role = role
                return
            except StoreError as error:
                self.fault = str(error)
                await asyncio.sleep(self._follow_s)

    async def _rebuild(self) -> None:
        self._unpublished.clear()
        built = await asyncio.to_thread(rebuild, self._log, self._build)
        self.coordinator, self.sequence, self._last_s = built.coordinator, built.sequence, built.last_s
        self._clock.reach(built.last_s)
        self._since_checkpoint = 0
        self._hub.start(self.sequence)

    async def _follow(self) -> None:
        """As standby, apply what the leader records."""
        while True:
            await asyncio.sleep(self._follow_s)
            if self.role is not Role.STANDBY:
                continue
            try:
                await self._catch_up()
                self.fault = ""
            except StoreError as error:
                self.fault = str(error)

    async def _catch_up(self) -> None:
        while events := await asyncio.to_thread(self._log.read, after=self.sequence, limit=READ):
            for event in events:
                if event.sequence != self.sequence + 1:  # another catch-up was faster
                    continue
                self.coordinator, changes = replay(self.coordinator, event)
                self.sequence, self._last_s = event.sequence, event.moment_s
                self._clock.reach(event.moment_s)
                self._tell(event.sequence, changes)

    # --- steps ------------------------------------------------------------------------------------

    def require_lead(self) -> None:
        """Check that this instance may write.

        Raises:
            ProblemError: it may not, for now.
        """
        if self.role is not Role.LEADING or self._writer is None:
            detail = f"this instance is {self.role.value}" + (f": {self.fault}" if self.fault else "")
            raise ProblemError(problem("not-the-writer", detail, headers=_ELSEWHERE))

    async def apply(self, events: Sequence[Event], beside: Record = NOTHING_BESIDE) -> Applied:
        """Apply events of one instant, and return once they are on disk.

        Raises:
            ProblemError: this instance may not write, or the log failed; the state is as before.
        """
        self.require_lead()
        now_s = events[0].now_s
        with self._whole():
            decisions = self.coordinator.apply_all(events)
            step = NewEvent(moment_s=now_s, kind=STEP, payload=encode_events(events), actor=beside.actor)
            return await self._record(step, decisions, changes_of(events, decisions), beside)

    async def replace(self, coordinator: Coordinator, beside: Record) -> Applied:
        """Take over another state, and return once it is on disk.

        Raises:
            ProblemError: as :meth:`apply`.
        """
        self.require_lead()
        with self._whole():
            self.coordinator = coordinator
            state = msgspec.json.encode(snapshot(coordinator)).decode()
            step = NewEvent(moment_s=self.now_s(), kind=RESTORED, payload=state, actor=beside.actor)
            return await self._record(step, (), None, beside)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Build the state anew where a step fails between its effect in memory and its place in the log."""
        try:
            yield
        except ProblemError:  # told by _record, which has seen to it
            raise
        except Exception as error:
            self._log_failed(StoreError(f"a step failed half-way: {error!r}"))
            raise

    async def note(self, topic: Topic, kind: str, data: object) -> None:
        """Record and tell something that does not change the queue, such as an alert.

        Raises:
            ProblemError: as :meth:`apply`.
        """
        self.require_lead()
        payload = msgspec.json.encode({"topic": topic.value, "kind": kind, "data": data}).decode()
        event = NewEvent(moment_s=self.now_s(), kind=NOTE, payload=payload, actor="monitor")
        await self._record(event, (), [Change.of(topic, kind, data)], NOTHING_BESIDE)

    async def _record(
        self, step: NewEvent, decisions: tuple[Decision, ...], changes: list[Change] | None, beside: Record
    ) -> Applied:
        writer = self._writer
        assert writer is not None  # noqa: S101  (whoever calls has checked that we lead)
        self._last_s = max(self._last_s, step.moment_s)
        self.sequence += 1
        applied = Applied(sequence=self.sequence, now_s=step.moment_s, decisions=decisions)
        answer = None if beside.answer is None else beside.answer(applied)
        try:
            pending = writer.submit(
                LogChange(events=(step,), answer=answer, audits=beside.audits, policy=beside.policy)
            )
        except StoreError as error:
            if writer.fault is None:  # too much waits: the step was applied but never submitted
                self._log_failed(error)
            raise ProblemError(_unavailable(error)) from error
        self._unpublished.append(
            Unpublished(durable=pending.durable, sequence=applied.sequence, changes=changes)
        )
        pending.durable.add_done_callback(self._publish_durable)
        self._set_timer()
        try:
            await asyncio.shield(pending.durable)  # a caller that hangs up takes nothing back
        except StoreError as error:
            raise ProblemError(_unavailable(error)) from error
        return applied

    def _publish_durable(self, _: object = None) -> None:
        """Tell watchers of the steps that are on disk, in their order."""
        while self._unpublished and self._unpublished[0].durable.done():
            step = self._unpublished.popleft()
            if step.durable.exception() is None:
                self._tell(step.sequence, step.changes)
                self._since_checkpoint += 1
        if self._since_checkpoint >= self._checkpoint_every:
            self._begin_checkpoint()

    def _tell(self, sequence: int, changes: list[Change] | None) -> None:
        if changes is not None:
            self._hub.publish(sequence, changes)
        else:  # another state was taken over: nothing that watchers know holds any more
            self._hub.start(sequence)

    def _begin_checkpoint(self) -> None:
        if self._unpublished or self._epoch is None:
            return  # the state is ahead of the disk; the next step tries again
        self._since_checkpoint = 0
        self._spawn(self._keep(self._checkpoint(), self._epoch))

    def _checkpoint(self) -> Checkpoint:
        state = msgspec.json.encode(snapshot(self.coordinator))
        return Checkpoint(sequence=self.sequence, moment_s=self._last_s, form=FORM, state=state)

    async def _keep(self, checkpoint: Checkpoint, epoch: int) -> None:
        try:
            await asyncio.to_thread(self._save, checkpoint, epoch)
        except StoreError as error:
            self._logger.warning("a checkpoint could not be kept", reason=str(error))

    def _save(self, checkpoint: Checkpoint, epoch: int) -> None:
        self._log.save_checkpoint(checkpoint, epoch=epoch)

    def _set_timer(self) -> None:
        """Wake the Coordinator when it asked to be woken."""
        self._stop_timer()
        due_s = self.coordinator.next_wakeup_s()
        if self.role is Role.LEADING and math.isfinite(due_s):
            delay_s = min(max(self._clock.until_s(due_s), 0.01), _LONGEST_SLEEP_S)
            self._wakeup = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _stop_timer(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None

    def _tick(self) -> None:
        self._wakeup = None
        if self.role is not Role.LEADING:
            return
        if self.now_s() < self.coordinator.next_wakeup_s():
            self._set_timer()
            return
        self._spawn(self._apply_tick())

    async def _apply_tick(self) -> None:
        with contextlib.suppress(ProblemError):  # recovery has begun, or another instance leads
            await self.apply((Tick(now_s=self.now_s()),), Record(actor="clock"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:  # Any: what a task sends and takes
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _unavailable(error: StoreError) -> Problem:
    detail = f"nothing is known to be recorded: {error}; repeat with the same Idempotency-Key"
    if isinstance(error, FencedError):
        return problem("not-the-writer", detail, headers=_ELSEWHERE)
    return problem("store-unavailable", detail, headers=_RETRY)

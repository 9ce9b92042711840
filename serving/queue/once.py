"""This module gives one answer to one Idempotency-Key, however often the request is repeated."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from serving.engine.engine import Engine
from serving.engine.steps import Applied, Record
from serving.problems import ProblemError, problem, problem_of
from serving.queue.dispatch import InFlight
from serving.queue.operation import Call, Reply
from serving.schemas import ProblemView
from serving.store.errors import StoreError
from serving.store.event_log import Answer, AuditEntry, EventLog, PolicyVersion

Work = Callable[[], Awaitable[Reply]]


class Once:
    """Looks answers up before work is done; the work itself records its answer with its events."""

    def __init__(self, log: EventLog, engine: Engine) -> None:
        self._log = log
        self._engine = engine
        self._in_flight = InFlight()

    async def run(self, call: Call, work: Work) -> Reply:
        """Return the recorded answer of the call's key, or do the work.

        Raises:
            ProblemError: the key was used for another request, or the log cannot be read.
        """
        if call.idempotency_key is None:
            return await work()
        async with self._in_flight.lock(call.actor, call.idempotency_key):
            try:
                known = await asyncio.to_thread(self._log.find_answer, call.actor, call.idempotency_key)
            except StoreError as error:
                raise ProblemError(problem("store-unavailable", str(error))) from error
            if known is None:
                return await work()
            if known.fingerprint != call.fingerprint:
                detail = f"Idempotency-Key '{call.idempotency_key}' was used for another request"
                raise ProblemError(problem("idempotency-conflict", detail))
            if known.status >= 400:
                raise ProblemError(problem_of(msgspec.json.decode(known.body, type=ProblemView)))
            return Reply(body=known.body.encode(), status=known.status)

    def beside(
        self, call: Call, reply: Callable[[Applied], msgspec.Struct], *, audits: tuple[AuditEntry, ...] = (),
        policy: PolicyVersion | None = None,
    ) -> Record:  # fmt: skip
        """Return what is recorded with the events of a call: who, and the answer where it has a key."""
        key = call.idempotency_key
        if key is None:
            return Record(actor=call.actor, audits=audits, policy=policy)

        def answer(applied: Applied) -> Answer:
            try:
                body, status = msgspec.json.encode(reply(applied)), 200
            except (
                ProblemError
            ) as error:  # a refusal is recorded as such: a repetition must not look like success
                body, status = error.problem.encode(), error.problem.status
            return Answer(
                actor=call.actor, key=key, fingerprint=call.fingerprint, status=status, body=body.decode(),
                moment_s=applied.now_s,
            )  # fmt: skip

        return Record(actor=call.actor, audits=audits, policy=policy, answer=answer)


def audit_of(call: Call, detail: object, *, now_s: float, action: str, target: str) -> AuditEntry:
    """Return the entry of the audit trail for a change that somebody asked for.

    Args:
        detail: what was changed, for people; anything that has a form in JSON.
    """
    return AuditEntry(
        moment_s=now_s, actor=call.actor, action=action, target=target,
        detail=msgspec.json.encode(detail).decode(), request_id=call.request_id,
    )  # fmt: skip

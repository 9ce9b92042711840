"""This module answers with alerts and the audit trail, and hands whole states out and in."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from predictor.errors import InputError
from predictor.monitoring.board import AlertBoard
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.snapshot import restore, snapshot
from serving.engine.engine import Engine
from serving.engine.replay import FORM
from serving.engine.steps import Applied
from serving.names import Names
from serving.problems import Fault, ProblemError, invalid_request, problem
from serving.queue.once import Once, audit_of
from serving.queue.operation import Call, Reply
from serving.queue.policies import policy_records
from serving.queue.schemas import ChangeReceipt, SnapshotDocument
from serving.queue.view_schemas import AlertsView, AlertView, AuditItem, AuditPage
from serving.store.errors import StoreError
from serving.store.event_log import AuditEntry, PolicyVersion

# what values of another type or size than a state has come to, wherever they are first used
_UNREADABLE = (InputError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError)


class QueueExchange:
    """Alerts, audit and snapshots.

    Args:
        audits: returns the latest entries of the audit trail, newest first.
    """

    def __init__(
        self, *, engine: Engine, once: Once, board: AlertBoard,
        audits: Callable[[int], Sequence[AuditEntry]], names: Names,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._once = once
        self._board = board
        self._audits = audits
        self._names = names

    async def alerts(self, call: Call) -> Reply:
        """Return the alerts that stand."""
        del call
        alerts = [
            AlertView(
                key=one.alert.key, code=one.alert.code.value, severity=one.alert.severity.value,
                subject=one.alert.subject, sentence=one.alert.sentence, fix=one.alert.fix,
                numbers=dict(one.alert.numbers), retrain=one.alert.retrain, since_s=one.since_s,
            )
            for one in self._board.standing()
        ]  # fmt: skip
        return Reply(body=AlertsView(at_s=self._engine.now_s(), alerts=alerts))

    async def audit(self, call: Call) -> Reply:
        """Return the latest changes."""
        try:
            entries = await asyncio.to_thread(self._audits, call.number("limit"))
        except StoreError as error:
            raise ProblemError(problem("store-unavailable", str(error))) from error
        items = [
            AuditItem(
                moment_s=entry.moment_s, actor=entry.actor, action=entry.action, target=entry.target,
                detail=msgspec.json.decode(entry.detail), request_id=entry.request_id,
            )
            for entry in entries
        ]  # fmt: skip
        return Reply(body=AuditPage(items=items))

    async def export(self, call: Call) -> Reply:
        """Return the whole state."""
        del call
        return Reply(body=SnapshotDocument(
            form=FORM, sequence=self._engine.sequence, at_s=self._engine.now_s(),
            state=snapshot(self._engine.coordinator),
        ))  # fmt: skip

    async def restore(self, call: Call) -> Reply:
        """Take over a state."""
        self._engine.require_lead()
        document = call.body
        assert isinstance(document, SnapshotDocument)  # noqa: S101  (as the operation declares)
        return await self._once.run(call, lambda: self._restore(call, document))

    async def _restore(self, call: Call, document: SnapshotDocument) -> Reply:
        if self._engine.coordinator.waiting or self._engine.coordinator.running:
            detail = "jobs wait or run here; a snapshot is taken over by an empty queue only"
            raise ProblemError(problem("job-conflict", detail))
        if document.form != FORM:
            detail = f"the snapshot has the form '{document.form[:40]}'; this service reads '{FORM}'"
            raise ProblemError(invalid_request([Fault(pointer="/form", code="invalid", detail=detail)]))
        try:
            coordinator = self._renumbered(restore(self._names.hide_in_state(document.state)))
        except _UNREADABLE as error:
            detail = f"the state cannot be read: {str(error)[:300]}"
            fault = Fault(pointer="/state", code="invalid", detail=detail)
            raise ProblemError(invalid_request([fault])) from error
        now_s, before, policy = self._engine.now_s(), self._engine.coordinator.policy, coordinator.policy
        audit = audit_of(
            call, {"sequence": document.sequence, "at_s": document.at_s}, now_s=now_s,
            action="snapshot.import", target="queue",
        )  # fmt: skip
        audits: tuple[AuditEntry, ...] = (audit,)
        version: PolicyVersion | None = None
        if policy != before:
            changed, version = policy_records(before, policy, call, now_s=now_s, note="import of a snapshot")
            audits = (audit, changed)

        def receipt(applied: Applied) -> ChangeReceipt:
            return ChangeReceipt(sequence=applied.sequence)

        record = self._once.beside(call, receipt, audits=audits, policy=version)
        applied = await self._engine.replace(coordinator, record)
        return Reply(body=receipt(applied))

    def _renumbered(self, coordinator: Coordinator) -> Coordinator:
        """Return a Coordinator with a version that is new here, unless its policy is the present one."""
        present, policy = self._engine.coordinator.policy, coordinator.policy
        if policy == present or policy.version > present.version:
            return coordinator
        state = snapshot(coordinator)
        state["policy"] = policy_document(replace(policy, version=present.version + 1))
        return restore(state)

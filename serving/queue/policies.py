"""This module reads and changes the policy: validated whole, versioned, audited, effective at once."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from predictor.contracts.events import PolicyChanged
from predictor.errors import InputError
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document, policy_from_document
from serving.engine.changes import decision_view
from serving.engine.engine import Engine
from serving.engine.steps import Applied
from serving.names import Names
from serving.problems import Fault, ProblemError, invalid_request, problem
from serving.queue.dispatch import check_if_match
from serving.queue.once import Once, audit_of
from serving.queue.operation import Call, Reply
from serving.queue.schemas import PolicyUpdate
from serving.queue.view_schemas import (
    EditableField,
    PolicyHistory,
    PolicyHistoryItem,
    PolicyReceipt,
    PolicyView,
)
from serving.store.errors import StoreError
from serving.store.event_log import AuditEntry, PolicyVersion
from serving.store.policy_history import TARGET, PolicyChange

Document = dict[str, object]
# the numbers that a person turns on the dashboard; the file and the API can change all of them
_EDITABLE = (
    ("order.ageing_rate", "Ageing: seconds of size forgiven per second of waiting", 0.0, None),
    ("order.guard_s", "Longest wait before a job goes first (s)", 0.0, None),
    ("order.width_exponent", "Weight of the width in the order", 0.0, 2.0),
    ("order.deadline_weight", "Weight of deadlines", 0.0, None),
    ("reserve.heads", "Promised starts for the first", 0.0, 1000.0),
    ("reserve.eldest", "Promised starts for the longest waiting", 0.0, 1000.0),
    ("plan.backfill_level", "Confidence of backfilling", 0.01, 0.99),
)
_MOST_DEPTH = 12


class QueuePolicies:
    """The operations on the policy."""

    def __init__(
        self, engine: Engine, once: Once, names: Names, history: Callable[[int], Sequence[PolicyChange]]
    ) -> None:
        self._history = history
        self._engine = engine
        self._names = names
        self._once = once

    async def read(self, call: Call) -> Reply:
        """Return the policy in force."""
        del call
        policy = self._engine.coordinator.policy
        document = policy_document(policy)
        body = PolicyView(
            version=policy.version, policy=document, classes=[each.name for each in policy.classes],
            editable=editable(document),
        )  # fmt: skip
        return Reply(body=body, etag=str(policy.version))

    async def history(self, call: Call) -> Reply:
        """Return who changed the policy when, and what of it."""
        try:
            found = await asyncio.to_thread(self._history, call.number("limit"))
        except StoreError as error:
            raise ProblemError(problem("store-unavailable", str(error))) from error
        items = [
            PolicyHistoryItem(
                version=one.version, moment_s=one.moment_s, actor=one.actor, actor_name=one.actor_name,
                note=one.note, changed=msgspec.json.decode(one.detail).get("changed", {}),
                policy=msgspec.json.decode(one.document),
            )
            for one in found
        ]  # fmt: skip
        return Reply(body=PolicyHistory(items=items))

    async def change(self, call: Call) -> Reply:
        """Put a policy, or a patch of it, in force."""
        self._engine.require_lead()
        update = call.body
        assert isinstance(update, PolicyUpdate)  # noqa: S101  (as the operation declares)
        return await self._once.run(call, lambda: self._change(call, update))

    async def _change(self, call: Call, update: PolicyUpdate) -> Reply:
        before = self._engine.coordinator.policy
        check_if_match(call, str(before.version))
        policy = self._names.hide_in_policy(changed_policy(before, update))
        now_s, document = self._engine.now_s(), policy_document(policy)
        audit, version = policy_records(before, policy, call, now_s=now_s, note=update.note)

        def receipt(applied: Applied) -> PolicyReceipt:
            return PolicyReceipt(
                version=policy.version, sequence=applied.sequence,
                decisions=[decision_view(decision) for decision in applied.decisions[:1000]],
            )  # fmt: skip

        record = self._once.beside(call, receipt, audits=(audit,), policy=version)
        applied = await self._engine.apply((PolicyChanged(now_s=now_s, policy=document),), record)
        return Reply(body=receipt(applied), etag=str(policy.version))


def policy_records(
    before: Policy, policy: Policy, call: Call, *, now_s: float, note: str
) -> tuple[AuditEntry, PolicyVersion]:
    """Return what is recorded of a new version: in the audit trail, and the policy itself."""
    document = policy_document(policy)
    changed = difference(policy_document(before), document)
    audit = audit_of(
        call, {"note": note, "changed": changed}, now_s=now_s, action="policy.change",
        target=f"{TARGET}{policy.version}",
    )  # fmt: skip
    version = PolicyVersion(
        version=policy.version, moment_s=now_s, actor=call.actor,
        document=msgspec.json.encode(document).decode(), note=note,
    )  # fmt: skip
    return audit, version


def changed_policy(before: Policy, update: PolicyUpdate) -> Policy:
    """Return the policy after an update, one version later.

    Raises:
        ProblemError: the update is none, or the policy that results has faults; all are named.
    """
    if (update.policy is None) == (update.patch is None):
        detail = "give either 'policy' (a whole one) or 'patch' (the keys that change)"
        raise ProblemError(invalid_request([Fault(pointer="", code="invalid", detail=detail)]))
    if update.patch is not None:
        document = merge(policy_document(before), update.patch)
    else:
        document = dict(update.policy or {})
    document["version"] = before.version + 1
    try:
        return policy_from_document(document)
    except InputError as error:
        where = "/policy" if update.policy is not None else "/patch"
        texts = error.faults or (error.message,)
        faults = [Fault(pointer=where, code="invalid-policy", detail=text) for text in texts]
        raise ProblemError(invalid_request(faults)) from error


def merge(document: Mapping[str, object], patch: Mapping[str, object], depth: int = 0) -> Document:
    """Return a document after a JSON merge patch (RFC 7396); null restores the default of a key."""
    merged: Document = dict(document)
    for name, value in patch.items():
        known = merged.get(name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping) and depth < _MOST_DEPTH:
            merged[name] = merge(known if isinstance(known, Mapping) else {}, value, depth + 1)
        else:
            merged[name] = value
    return merged


def difference(old: Mapping[str, object], new: Mapping[str, object], prefix: str = "") -> Document:
    """Return what differs, by dotted path, each as [before, after]."""
    found: Document = {}
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found |= difference(before, after, f"{prefix}{name}.")
        elif before != after:
            found[f"{prefix}{name}"] = [before, after]
    return found


def editable(document: Mapping[str, object]) -> list[EditableField]:
    """Return the numbers of a policy that people turn; those that are not finite are left to files."""
    fields = []
    for path, label, minimum, maximum in _EDITABLE:
        value: object = document
        for step in path.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, int | float):
            fields.append(
                EditableField(path=path, label=label, value=float(value), minimum=minimum, maximum=maximum)
            )
    return fields

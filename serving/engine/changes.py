"""This module says what watchers of the live feed are told of a step."""

from collections.abc import Sequence

from predictor.contracts.decisions import Decision, Preempted, Promised, PromiseMoved, Refused, Started
from predictor.contracts.events import (
    Event,
    ForecastUpdated,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobProgressed,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    NodesChanged,
    PolicyChanged,
)
from predictor.contracts.reasons import Reason
from serving.live.hub import Change, Topic
from serving.queue.schemas import DecisionView, ReasonView

_OF_EVENT: dict[type, tuple[Topic, str]] = {
    JobSubmitted: (Topic.QUEUE, "submitted"),
    JobCancelled: (Topic.QUEUE, "cancelled"),
    JobChanged: (Topic.QUEUE, "edited"),
    JobRequeued: (Topic.QUEUE, "requeued"),
    ForecastUpdated: (Topic.JOBS, "forecast"),
    JobStarted: (Topic.JOBS, "confirmed"),
    JobProgressed: (Topic.JOBS, "progress"),
    JobFinished: (Topic.JOBS, "finished"),
}
_OF_DECISION: dict[type, tuple[Topic, str]] = {
    Started: (Topic.JOBS, "started"),
    Preempted: (Topic.JOBS, "preempted"),
    Refused: (Topic.QUEUE, "refused"),
    Promised: (Topic.RESERVATIONS, "promised"),
    PromiseMoved: (Topic.RESERVATIONS, "moved"),
}


def changes_of(events: Sequence[Event], decisions: Sequence[Decision]) -> list[Change]:
    """Return the changes that a step brings, events before decisions, and last that the order changed."""
    changes = []
    for event in events:
        if isinstance(event, PolicyChanged):
            changes.append(Change.of(Topic.QUEUE, "policy", {"at_s": event.now_s}))
        elif isinstance(event, NodesChanged):
            changes.append(Change.of(Topic.JOBS, "nodes", {"at_s": event.now_s, "pool": event.pool}))
        elif type(event) in _OF_EVENT:
            topic, kind = _OF_EVENT[type(event)]
            changes.append(Change.of(topic, kind, {"at_s": event.now_s, "job_id": event.job_id}))  # type: ignore[union-attr]  # all but ticks, policies and nodes name a job
    for decision in decisions:
        topic, kind = _OF_DECISION[type(decision)]
        changes.append(Change.of(topic, kind, decision_data(decision)))
    if changes:
        at_s = events[0].now_s
        changes.append(Change.of(Topic.QUEUE, "order", {"at_s": at_s}))
    return changes


def decision_kind(decision: Decision) -> str:
    """Return the word for a decision, as in the feed."""
    return _OF_DECISION[type(decision)][1]


def reason_view(reason: Reason) -> ReasonView:
    """Return a reason as it is answered."""
    return ReasonView(code=reason.code.name, sentence=reason.sentence, numbers=dict(reason.numbers))


def decision_view(decision: Decision) -> DecisionView:
    """Return a decision as it is answered."""
    details = decision_data(decision)
    details.pop("reason", None)
    reason = decision.reasons[0] if isinstance(decision, Refused) and decision.reasons else None
    if not isinstance(decision, Refused | Promised):
        reason = decision.reason
    return DecisionView(
        kind=decision_kind(decision), job_id=decision.job_id, at_s=decision.now_s, details=details,
        reason=None if reason is None else reason_view(reason),
    )  # fmt: skip


def decision_data(decision: Decision) -> dict[str, object]:
    """Return a decision as JSON-able values, its reasons with their sentences."""
    data: dict[str, object] = {"at_s": decision.now_s, "job_id": decision.job_id}
    if isinstance(decision, Refused):
        data["reasons"] = [reason.document() for reason in decision.reasons]
        return data
    if isinstance(decision, Started):
        data |= {"pool": decision.pool, "nodes": [list(place) for place in decision.nodes],
                 "resume_s": decision.resume_s, "reason": decision.reason.document()}  # fmt: skip
    elif isinstance(decision, Promised):
        data |= {"pool": decision.pool, "start_s": decision.start_s,
                 "expected_s": decision.expected_s, "latest_s": decision.latest_s}  # fmt: skip
    elif isinstance(decision, PromiseMoved):
        data |= {"old_start_s": decision.old_start_s, "start_s": decision.start_s,
                 "reason": decision.reason.document()}  # fmt: skip
    else:
        data |= {"for_job": decision.for_job, "outcome": decision.outcome, "saved_s": decision.saved_s,
                 "lost_s": decision.lost_s, "grace_s": decision.grace_s,
                 "reason": decision.reason.document()}  # fmt: skip
    return data

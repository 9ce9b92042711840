"""This module says why a job was not taken up or not changed, and what would be allowed."""

from collections.abc import Sequence

from predictor.contracts.decisions import Refused
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling.coordinator import Coordinator
from serving.engine.changes import decision_kind, reason_view
from serving.problems import Fault, Problem, problem


def refused(decision: Refused, coordinator: Coordinator, pointer: str) -> Problem:
    """Return the problem of a submission that can never run."""
    faults = _faults(decision.reasons, coordinator, pointer)
    return problem("job-refused", faults[0].detail if faults else "", faults=faults)


def conflict(decision: Refused, coordinator: Coordinator) -> Problem:
    """Return the problem of an event that does not fit its job."""
    faults = _faults(decision.reasons, coordinator, "")
    return problem("job-conflict", faults[0].detail if faults else decision_kind(decision), faults=faults)


def duplicate(job_id: str) -> Problem:
    """Return the problem of a job that is known already."""
    detail = f"job '{job_id[:100]}' is in the queue already; a repeated request needs an Idempotency-Key"
    return problem("job-conflict", detail)


def _faults(reasons: Sequence[Reason], coordinator: Coordinator, pointer: str) -> list[Fault]:
    faults = []
    for reason in reasons:
        view = reason_view(reason)
        field, choices = _choices(reason.code, coordinator)
        known = f" Known are: {', '.join(choices)}." if choices else ""
        faults.append(Fault(pointer=pointer + field, code=view.code, detail=view.sentence + known))
    return faults


def _choices(code: ReasonCode, coordinator: Coordinator) -> tuple[str, list[str]]:
    """Return the field that a reason is about, and the values that it could have."""
    if code is ReasonCode.NO_SUCH_CLASS:
        return "/workload_class", [each.name for each in coordinator.policy.classes]
    if code is ReasonCode.NO_SUCH_POOL:
        return "/pool", [pool.name for pool in coordinator.pools]
    if code is ReasonCode.NO_DEVICE_OF_TYPE:
        return "/gpu_type", sorted({pool.gpu_type for pool in coordinator.pools if pool.gpu_type})
    return "", []

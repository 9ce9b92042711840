"""This module checks what types cannot: times in range and in order, and fields that fit the event."""

from datetime import datetime
from itertools import pairwise

from predictor.contracts.job import JobState
from serving.decoding import moment_faults
from serving.outcome_rows import FINISHED, STARTED, SUBMITTED, OutcomeRow
from serving.problems import Fault
from serving.schemas import OutcomeEvent, as_epoch_s

CLOCK_SLACK_S = 1.0  # the two ends of a span may be rounded differently
MOST_AHEAD_S = 900.0  # clocks of machines differ by less, time zones by no less

FINAL_STATES = tuple(state.value for state in JobState if state.is_final)
_RAN_STATES = frozenset({"COMPLETED", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED", "NODE_FAIL"})
_NEEDED = {SUBMITTED: "submitted_at", STARTED: "started_at", FINISHED: "ended_at"}
_FOREIGN = {
    SUBMITTED: ("started_at", "ended_at", "elapsed_s", "state", "exit_code", "peak_vram_mib",
                "peak_host_memory_mib", "gpu_utilisation_ratio"),
    STARTED: ("ended_at", "elapsed_s", "state", "exit_code", "peak_vram_mib", "peak_host_memory_mib",
              "gpu_utilisation_ratio"),
    FINISHED: (),
}  # fmt: skip


def event_faults(event: OutcomeEvent, known: OutcomeRow | None, *, now_s: float) -> list[Fault]:
    """Return all faults of an event, given the job's earlier row and the present instant."""
    faults: list[Fault] = []
    for name in ("submitted_at", "started_at", "ended_at"):
        moment = getattr(event, name)
        if moment is not None:
            faults += moment_faults(name, moment) or future_faults(name, moment, now_s)
    needed = _NEEDED[event.event]
    if getattr(event, needed) is None:
        faults.append(_missing(needed, f"a '{event.event}' event needs '{needed}'"))
    if event.submitted_at is None and known is None and needed != "submitted_at":
        detail = "the job was never announced; give 'submitted_at' (and what was requested)"
        faults.append(_missing("submitted_at", detail))
    for name in _FOREIGN[event.event]:
        if getattr(event, name) is not None:
            detail = f"'{name}' is not known when a job has just {event.event}; leave it out"
            faults.append(Fault(pointer=f"/{name}", code="not-applicable", detail=detail))
    if event.event == FINISHED:
        faults += _end_faults(event, known)
    return faults or _order_faults(event, known)


def future_faults(name: str, moment: datetime | float, now_s: float) -> list[Fault]:
    """Return the fault of a moment that has yet to come; none = it has come, but for a skew of clocks."""
    ahead_s = as_epoch_s(moment) - now_s
    if ahead_s <= MOST_AHEAD_S:
        return []
    detail = (
        f"'{name}' is {ahead_s:.0f} s ahead of this service's clock; at most {MOST_AHEAD_S:.0f} s are taken: "
        f"correct clock or time zone, or send it once it has happened"
    )
    return [Fault(pointer=f"/{name}", code="in-the-future", detail=detail)]


def state_faults(state: str) -> list[Fault]:
    """Return the fault of a state in which no job ends."""
    if state in FINAL_STATES:
        return []
    detail = f"'{state[:60]}' is no final state; allowed are {', '.join(FINAL_STATES)}"
    return [Fault(pointer="/state", code="not-allowed", detail=detail)]


def _end_faults(event: OutcomeEvent, known: OutcomeRow | None) -> list[Fault]:
    if event.state is None:
        return [_missing("state", f"a 'finished' event needs 'state', one of {', '.join(FINAL_STATES)}")]
    faults = state_faults(event.state)
    if faults:
        return faults
    started = event.started_at is not None or (known is not None and known.started_at is not None)
    if event.state in _RAN_STATES and event.elapsed_s is None and not started:
        return [_missing("elapsed_s", f"a {event.state} job has run; give 'started_at' or 'elapsed_s'")]
    return []


def _order_faults(event: OutcomeEvent, known: OutcomeRow | None) -> list[Fault]:
    moments = []
    for name in ("submitted_at", "started_at", "ended_at"):
        moment = getattr(event, name)
        if moment is not None:
            moments.append((name, as_epoch_s(moment)))
        elif known is not None and getattr(known, name) is not None:
            moments.append((name, getattr(known, name).timestamp()))
    return [
        Fault(pointer=f"/{later}", code="out-of-order", detail=f"'{later}' is before '{earlier}'")
        for (earlier, first_s), (later, then_s) in pairwise(moments)
        if then_s < first_s - CLOCK_SLACK_S
    ]


def _missing(name: str, detail: str) -> Fault:
    return Fault(pointer=f"/{name}", code="missing", detail=detail)

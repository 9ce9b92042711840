"""This module names why a job waits, starts, moves, is refused or evicted: code, numbers, sentence.

The code and the numbers are data that tests and alerts rely on; the sentence is made from them on
request and may change its words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from types import MappingProxyType


class ReasonCode(IntEnum):
    """Why a job is where it is; the number is what scheduling passes store."""

    UNSEEN = 0
    IN_ORDER = 1
    BACKFILLED = 2
    PREEMPTED_OTHERS = 3
    CAPACITY_SHORT = 10
    BEHIND_OTHERS = 11
    WOULD_DELAY_PROMISE = 12
    QUOTA_EXCEEDED = 13
    HEADROOM_HELD = 14
    FRAGMENTED = 15
    BEYOND_DEPTH = 16
    BACKING_OFF = 17
    OVERTAKEN = 20
    FORECAST_EXCEEDED = 21
    EARLIER_END = 22
    CAPACITY_CHANGED = 23
    POLICY_CHANGED = 24
    TOO_WIDE = 30
    NO_SUCH_POOL = 31
    NO_SUCH_CLASS = 32
    NO_DEVICE_OF_TYPE = 33
    MEMORY_TOO_SMALL = 34
    REGION_FORBIDDEN = 35
    SCARCE_DEVICE_KEPT = 36
    CLASS_NOT_ADMITTED = 37
    DUPLICATE_JOB = 38
    UNKNOWN_JOB = 39
    WRONG_STATE = 40
    INVALID_REQUEST = 41
    OVER_QUOTA_ALWAYS = 42
    ISLAND_TOO_SMALL = 43
    CHEAPEST_VICTIM = 50
    RECLAIMED = 51
    OUTRANKED = 52


_SENTENCES: Mapping[ReasonCode, str] = MappingProxyType(
    {
        ReasonCode.UNSEEN: "It was submitted and no scheduling pass has looked at it yet.",
        ReasonCode.IN_ORDER: "It was next in order and {free:.0f} units were free for its {needed:.0f}.",
        ReasonCode.BACKFILLED: (
            "It fits beside {promises:.0f} promised start(s): with the chosen confidence it ends within"
            " {plan_s:.0f} s."
        ),
        ReasonCode.PREEMPTED_OTHERS: "{victims:.0f} running job(s) gave up {freed:.0f} units for it.",
        ReasonCode.CAPACITY_SHORT: "It needs {needed:.0f} units together and {free:.0f} are free.",
        ReasonCode.BEHIND_OTHERS: (
            "It needs {needed:.0f} units, {free:.0f} are free, and {ahead:.0f} job(s) come first."
        ),
        ReasonCode.WOULD_DELAY_PROMISE: (
            "Its {needed:.0f} units are free, but it may run {plan_s:.0f} s and so delay the start promised"
            " for {promise_s}."
        ),
        ReasonCode.QUOTA_EXCEEDED: "Its team uses {used:.0f} of {limit:.0f} units; it needs {needed:.0f}.",
        ReasonCode.HEADROOM_HELD: (
            "{held:.0f} of {free:.0f} free units are held for urgent arrivals; it needs {needed:.0f}."
        ),
        ReasonCode.FRAGMENTED: (
            "{free:.0f} units are free, but not {needed:.0f} on the nodes that it must have together."
        ),
        ReasonCode.BEYOND_DEPTH: "{ahead:.0f} jobs come first and a pass looks at {depth:.0f}.",
        ReasonCode.BACKING_OFF: "It was evicted {evictions:.0f} time(s) and waits until {until_s}.",
        ReasonCode.OVERTAKEN: "A job that comes before it in order took the earlier start.",
        ReasonCode.FORECAST_EXCEEDED: "A running job runs longer than was forecast.",
        ReasonCode.EARLIER_END: "Running jobs ended, or are now expected to end, earlier.",
        ReasonCode.CAPACITY_CHANGED: "The number of usable units has changed.",
        ReasonCode.POLICY_CHANGED: "The policy has changed.",
        ReasonCode.TOO_WIDE: "It asks for {needed:.0f} units; the widest pool has {total:.0f}.",
        ReasonCode.NO_SUCH_POOL: "There is no pool of that name.",
        ReasonCode.NO_SUCH_CLASS: "The policy has no workload class of that name.",
        ReasonCode.NO_DEVICE_OF_TYPE: "No pool has devices of the type that it asks for.",
        ReasonCode.MEMORY_TOO_SMALL: (
            "It needs {needed_mib:.0f} MiB on each device; the largest that it may use has {device_mib:.0f}."
        ),
        ReasonCode.REGION_FORBIDDEN: "Its data must stay in a region where no suitable pool is.",
        ReasonCode.SCARCE_DEVICE_KEPT: (
            "Jobs of its class below {least_width:.0f} units stay off scarce devices unless they name them."
        ),
        ReasonCode.CLASS_NOT_ADMITTED: "The pool is kept for other workload classes.",
        ReasonCode.DUPLICATE_JOB: "A job of that id is already waiting or running.",
        ReasonCode.UNKNOWN_JOB: "No job of that id is waiting or running.",
        ReasonCode.WRONG_STATE: "The event does not fit the state that the job is in.",
        ReasonCode.INVALID_REQUEST: "The request is not valid: {value:.0f}.",
        ReasonCode.OVER_QUOTA_ALWAYS: (
            "It asks for {needed:.0f} units; its team may never hold more than {limit:.0f}."
        ),
        ReasonCode.ISLAND_TOO_SMALL: (
            "It must lie inside one island and needs {needed:.0f} units; the largest has {total:.0f}."
        ),
        ReasonCode.CHEAPEST_VICTIM: (
            "Evicting it loses least: {lost_s:.0f} s of work, restart included; it is expected to run"
            " {remaining_s:.0f} s more."
        ),
        ReasonCode.RECLAIMED: "Its team borrowed {borrowed:.0f} units; they are claimed back.",
        ReasonCode.OUTRANKED: "A job with a better claim needs its units.",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: a stable code, its numbers by name, and a sentence made of both."""

    code: ReasonCode
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """Return the reason in words."""
        moments = {name: _moment(value) for name, value in self.numbers.items() if name in _MOMENTS}
        return _SENTENCES[self.code].format_map({**self.numbers, **moments})

    def document(self) -> dict[str, object]:
        """Return code, numbers and sentence as a JSON-able mapping."""
        return {"code": self.code.name, "numbers": dict(self.numbers), "sentence": self.sentence}


_MOMENTS = frozenset({"start_s", "promise_s", "until_s"})  # UTC epoch seconds; other numbers are spans
_LAST_MOMENT_S = 253_402_300_799.0  # the end of the year 9999, the last that can be written


def _moment(value_s: float) -> str:
    """Return an instant as people read it."""
    if not abs(value_s) < _LAST_MOMENT_S:
        return "not foreseen yet"
    return datetime.fromtimestamp(value_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")

"""This module names what the Coordinator decides, each decision with the reason as data."""

from dataclasses import dataclass
from typing import TypeAlias

from predictor.contracts.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A waiting job holds its units from now on and is to be started.

    Attributes:
        nodes: (node index, units) where the pool has nodes, else empty.
        resume_s: seconds of its work that are already done (after an eviction), 0 = from the beginning.
        reason: why now: in order, backfilled, or by evicting others.
    """

    now_s: float
    job_id: str
    pool: str
    nodes: tuple[tuple[int, int], ...] = ()
    resume_s: float = 0.0
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """A waiting job is given a start.

    Attributes:
        start_s: until when its units are kept together; what goes ahead ends before it, by the plan.
        expected_s: as likely earlier as later.
        latest_s: kept with the confidence of the policy.
    """

    now_s: float
    job_id: str
    pool: str
    start_s: float
    expected_s: float
    latest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseMoved:
    """A promised start has moved, and why."""

    now_s: float
    job_id: str
    old_start_s: float
    start_s: float
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempted:
    """A running job gives its units up.

    Attributes:
        for_job: who needs them.
        outcome: ``requeue`` (from its last checkpoint), ``suspend`` (all work kept) or ``cancel``.
        saved_s: seconds of its work that survive.
        lost_s: seconds of its work that are to be repeated, the cost of a restart included.
        grace_s: until then it may write a final checkpoint; its units are free after that.
    """

    now_s: float
    job_id: str
    for_job: str
    outcome: str
    saved_s: float
    lost_s: float
    grace_s: float
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A job can never run as it was asked for, or the event cannot be applied to it."""

    now_s: float
    job_id: str
    reasons: tuple[Reason, ...]


Decision: TypeAlias = Started | Promised | PromiseMoved | Preempted | Refused

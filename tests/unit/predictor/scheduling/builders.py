"""This module builds events and coordinators for stories about the queue."""

from typing import Any

from predictor.contracts.decisions import Decision, Preempted, Promised, PromiseMoved, Refused, Started
from predictor.contracts.events import JobFinished, JobSubmitted
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy import Policy
from predictor.scheduling.presets import preset

NOW = 1_800_000_000.0


def a_job(
    job_id: str, width: int = 1, at_s: float = 0.0, takes_s: float = 3600.0, **more: Any
) -> JobSubmitted:
    """A submission ``at_s`` seconds after NOW that is estimated, and limited, to so many seconds."""
    more.setdefault("limit_s", takes_s)
    return JobSubmitted(now_s=NOW + at_s, job_id=job_id, width=width, estimate_s=takes_s, **more)


def ended(job_id: str, at_s: float) -> JobFinished:
    return JobFinished(now_s=NOW + at_s, job_id=job_id)


def a_cluster(policy: str | Policy = "easy", *pools: Pool) -> Coordinator:
    chosen = preset(policy) if isinstance(policy, str) else policy
    return Coordinator(chosen, pools or (Pool(name="gpu", total=8),))


def eight_by_eight() -> Pool:
    return Pool(name="gpu", node_units=(8,) * 8)


def started(decisions: tuple[Decision, ...]) -> list[str]:
    return [each.job_id for each in decisions if isinstance(each, Started)]


def promised(decisions: tuple[Decision, ...]) -> dict[str, float]:
    """Promised starts in seconds after NOW."""
    return {
        each.job_id: each.start_s - NOW for each in decisions if isinstance(each, Promised | PromiseMoved)
    }


def preempted(decisions: tuple[Decision, ...]) -> dict[str, Preempted]:
    return {each.job_id: each for each in decisions if isinstance(each, Preempted)}


def refused(decisions: tuple[Decision, ...]) -> list[str]:
    """Codes of the reasons of all refusals."""
    return [reason.code.name for each in decisions if isinstance(each, Refused) for reason in each.reasons]

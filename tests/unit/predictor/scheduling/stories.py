"""This module tells one short story per policy dimension and writes down what the Coordinator says.

``python -m tests.unit.predictor.scheduling.stories`` rewrites ``docs/explanation/decisions.md``; a test holds
the page equal to it.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from predictor.contracts.decisions import Decision, Preempted, Promised, PromiseMoved, Refused, Started
from predictor.contracts.events import Event, Tick
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.fair_share import FairShare
from predictor.scheduling.headroom import Headroom
from predictor.scheduling.order import Order
from predictor.scheduling.policy import Policy
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.quota import Quota
from predictor.scheduling.reasons import waiting_reason
from tests.unit.predictor.scheduling.builders import NOW, a_cluster, a_job, ended

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "decisions.md"
_WEEK_S = 7 * 86_400.0


def priority() -> list[str]:
    """Short work first, made safe by ageing."""
    cluster = a_cluster("ours")
    told = tell(cluster, a_job("running", 8, takes_s=7200))
    told += tell(cluster, a_job("long", 4, 10, 36_000))
    told += tell(cluster, a_job("short", 4, 20, 600))
    told += tell(cluster, ended("running", 3600))
    cluster = a_cluster("ours")
    told.append("The same, but the long job has waited for a day and a half:")
    told += tell(cluster, a_job("running", 8, takes_s=200_000))
    told += tell(cluster, a_job("long", 8, 10, 36_000))
    told += tell(cluster, a_job("short", 8, 130_000, 600))
    told += tell(cluster, ended("running", 130_010))
    return told


def reservation() -> list[str]:
    """A wide job is promised a start; others go ahead only where they do not delay it."""
    cluster = a_cluster("easy")
    told = tell(cluster, a_job("running", 6, takes_s=3600))
    told += tell(cluster, a_job("wide", 8, 60, 3600))
    told += tell(cluster, a_job("brief", 2, 120, 1800))
    told += tell(cluster, ended("brief", 1500))
    told += tell(cluster, a_job("longer", 2, 1600, 7200))
    return told


def quota() -> list[str]:
    """A team holds no more than its own units and what it may borrow."""
    policy = Policy(quotas=(Quota(team="vision", units=2, borrow=2),))
    cluster = a_cluster(policy)
    told = tell(cluster, a_job("first", 3, team="vision"))
    told += tell(cluster, a_job("second", 2, 10, team="vision"))
    told += tell(cluster, a_job("never", 6, 20, team="vision"))
    told += tell(cluster, a_job("other", 5, 30, team="speech"))
    return told


def reclaim() -> list[str]:
    """What a team has borrowed is claimed back by one that is within its own."""
    policy = Policy(
        quotas=(Quota(team="vision", units=2, borrow=6), Quota(team="speech", units=6)),
        preemption=Preemption(least_runtime_s=60.0),
    )
    cluster = a_cluster(policy)
    told = tell(cluster, a_job("borrower", 8, takes_s=36_000, team="vision", checkpoint="system"))
    told += tell(cluster, a_job("owner", 4, 600, team="speech"))
    return told


def placement() -> list[str]:
    """Device memory, scarce devices and whole gangs decide where a job may run."""
    small = Pool(name="a10", node_units=(4, 4), gpu_type="A10", vram_mib=24_000)
    large = Pool(name="h100", node_units=(8, 8), gpu_type="H100", vram_mib=80_000, scarcity=2.0, scarce=True)
    cluster = a_cluster("ours", small, large)
    told = tell(cluster, a_job("tiny", 1, vram_mib=10_000))
    told += tell(cluster, a_job("tiny but hungry", 1, 10, vram_mib=40_000))
    told += tell(cluster, a_job("tiny, asks for it", 1, 20, vram_mib=40_000, gpu_type="H100"))
    told += tell(cluster, a_job("gang", 12, 30))
    told += tell(cluster, a_job("too hungry", 8, 40, vram_mib=100_000))
    return told


def preemption() -> list[str]:
    """An emergency evicts whoever loses least."""
    cluster = a_cluster(Policy(preemption=Preemption(least_runtime_s=60.0)))
    told = tell(cluster, a_job("no checkpoint", 4, takes_s=36_000))
    told += tell(
        cluster,
        a_job("checkpointed", 4, 10, 36_000, checkpoint="application", checkpoint_interval_s=600.0),
    )
    told += tell(cluster, a_job("urgent", 4, 3600, 600, workload_class="emergency"))
    told += tell(cluster, Tick(now_s=NOW + 3630))
    return told


def checkpoint() -> list[str]:
    """An evicted job comes back after its back-off and goes on from what it saved."""
    cluster = a_cluster(Policy(preemption=Preemption(least_runtime_s=60.0)))
    told = tell(cluster, a_job("training", 8, takes_s=36_000, checkpoint="system", restart_cost_s=120.0))
    told += tell(cluster, a_job("urgent", 8, 3600, 600, workload_class="emergency"))
    told += tell(cluster, ended("urgent", 3700))
    told += tell(cluster, Tick(now_s=NOW + 3900))
    return told


def fair_share() -> list[str]:
    """Of two equal jobs, that of the team that has used less comes first."""
    policy = Policy(fair_share=FairShare(strength=1.0, refresh_s=0.0), order=Order(ageing="none"))
    cluster = a_cluster(policy)
    told = tell(cluster, a_job("past", 8, takes_s=86_400, team="vision"))
    told += tell(cluster, a_job("of vision", 8, 3600, 3600, team="vision"))
    told += tell(cluster, a_job("of speech", 8, 3610, 3600, team="speech"))
    told += tell(cluster, ended("past", 7200))
    return told


def headroom() -> list[str]:
    """Units are held in hours in which emergencies came in the weeks before."""
    policy = Policy(headroom=Headroom(most_ratio=0.5))
    cluster = a_cluster(policy)
    told = []
    for week in range(3):
        at_s = week * _WEEK_S
        cluster.apply(a_job(f"urgent {week}", 2, at_s, 600, workload_class="emergency"))
        cluster.apply(ended(f"urgent {week}", at_s + 600))
    told.append("For three weeks, an emergency of 2 units came at this hour.")
    told += tell(cluster, a_job("eager", 8, 3 * _WEEK_S))
    told += tell(cluster, a_job("modest", 6, 3 * _WEEK_S + 1))
    return told


STORIES: dict[str, Callable[[], list[str]]] = {
    "Priority": priority,
    "Reservation and backfill": reservation,
    "Quota": quota,
    "Borrowing and reclaim": reclaim,
    "Placement": placement,
    "Preemption": preemption,
    "Checkpoint": checkpoint,
    "Fair share": fair_share,
    "Headroom": headroom,
}


def tell(cluster: Coordinator, event: Event) -> list[str]:
    """Apply an event; return it, the decisions, and why each waiting job waits, as lines."""
    told = [f"{_clock(event.now_s)}  {_event(event)}"]
    told += [f"          -> {_decision(each)}" for each in cluster.apply(event)]
    state = cluster.state
    for slot in state.store.waiting_slots.tolist():
        team = int(state.store.ints[c.TEAM, slot])
        used, most = int(state.teams.used[team].sum()), int(np.min(state.teams.most[team]))
        reason = waiting_reason(state.store, slot, used, most)
        told.append(
            f"          .. {state.store.ids[slot]} waits [{reason.code.name}]: {_readable(reason.sentence)}"
        )
    return told


def page() -> str:
    """Return the whole page."""
    parts = [
        "# Decisions that can be read\n\n"
        "One short story per policy dimension, on a few GPUs. `->` is a decision, `..` a job that waits,\n"
        "and why. Each reason is a code, numbers and a sentence. A test holds this page to the code.\n"
    ]
    for title, story in STORIES.items():
        summary = (story.__doc__ or "").strip()
        parts.append(f"\n## {title}\n\n{summary}\n\n```text\n" + "\n".join(story()) + "\n```\n")
    return "".join(parts)


def _clock(at_s: float) -> str:
    seconds = round(at_s - NOW)
    return f"{seconds // 3600:3d}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"


def _readable(sentence: str) -> str:
    """Replace instants in a sentence by the clock of the story."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", _story_time, sentence)


def _story_time(found: re.Match[str]) -> str:
    instant = datetime.strptime(found.group(), "%Y-%m-%d %H:%M:%SZ").replace(tzinfo=UTC)
    return _clock(instant.timestamp()).strip()


def _event(event: Event) -> str:
    name = type(event).__name__
    job = getattr(event, "job_id", "")
    width = getattr(event, "width", None)
    estimate_s = getattr(event, "estimate_s", None)
    details = f", {width} units for {estimate_s:.0f} s" if width is not None else ""
    extras = [
        f"{key}={getattr(event, key)}"
        for key in ("team", "workload_class", "gpu_type", "vram_mib")
        if getattr(event, key, None)
    ]
    return " ".join([f"{name}{' ' if job else ''}{job}{details}", *extras])


def _decision(decision: Decision) -> str:
    if isinstance(decision, Started):
        nodes = f" on nodes {', '.join(f'{n}:{u}' for n, u in decision.nodes)}" if decision.nodes else ""
        resumed = f", from second {decision.resume_s:.0f}" if decision.resume_s else ""
        why = f"[{decision.reason.code.name}]: {decision.reason.sentence}"
        return f"{decision.job_id} starts in {decision.pool}{nodes}{resumed} {why}"
    if isinstance(decision, Promised):
        start, latest = _clock(decision.start_s).strip(), _clock(decision.latest_s).strip()
        return f"{decision.job_id} is promised {start}, at the latest {latest}"
    if isinstance(decision, PromiseMoved):
        old, new = _clock(decision.old_start_s).strip(), _clock(decision.start_s).strip()
        return f"{decision.job_id}: promise moves from {old} to {new} [{decision.reason.code.name}]"
    if isinstance(decision, Preempted):
        why = f"[{decision.reason.code.name}]: {decision.reason.sentence}"
        terms = f"{decision.outcome}, keeps {decision.saved_s:.0f} s, grace {decision.grace_s:.0f} s"
        return f"{decision.job_id} gives way to {decision.for_job} ({terms}) {why}"
    assert isinstance(decision, Refused)
    why = "; ".join(f"[{each.code.name}]: {each.sentence}" for each in decision.reasons)
    return f"{decision.job_id} is refused {why}"


if __name__ == "__main__":
    PAGE.write_text(page())

"""This module looks at a queue as a whole and names what a person should know of.

It reads a plain view of the queue, so that the service and a snapshot file are judged by the same code.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from predictor.monitoring.alert import Alert, AlertCode, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingView:
    """A waiting job, as far as the health of the queue goes.

    Attributes:
        bound_s: longest wait that the policy promises, None = none.
        fits: whether the idle cluster could run it at all.
        urgent: whether its class may preempt or goes before all others.
    """

    job_id: str
    team: str
    workload_class: str
    pool: str
    waited_s: float
    gpu_count: float
    requeues: int = 0
    bound_s: float | None = None
    fits: bool = True
    urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityView:
    """Devices of one GPU type in one pool; ``scarce`` ones are those worth an alarm when idle."""

    pool: str
    gpu_type: str
    total: float
    free: float
    scarce: bool = False
    idle_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamView:
    """What a team uses of a pool, and what it is entitled to."""

    team: str
    pool: str
    used: float
    quota: float
    waiting: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The queue at one moment; ``since_start_s`` is the time since any job was started."""

    waiting: Sequence[WaitingView]
    running_count: int
    capacity: Sequence[CapacityView]
    teams: Sequence[TeamView] = ()
    since_start_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """When the health of the queue is told.

    Attributes:
        starvation_s: a wait without a bound of its own that is worth an alarm.
        max_requeues: more evictions or requeues of one job are a loop.
        idle_s: scarce devices idle for so long while jobs wait.
        urgent_share: share of urgent among at least ``min_waiting`` waiting jobs.
        imbalance: a team may use so many times its quota while another, below its own, waits.
        deadlock_s: nothing running, something waiting, and nothing started for so long.
    """

    starvation_s: float = 3 * 86_400.0
    max_requeues: int = 3
    idle_s: float = 900.0
    urgent_share: float = 0.5
    min_waiting: int = 10
    imbalance: float = 1.5
    deadlock_s: float = 300.0


def health_alerts(view: QueueView, settings: HealthSettings) -> list[Alert]:
    """Return what is wrong with the queue, in a stable order; empty = nothing."""
    return [
        *_starvation(view, settings), *_loops(view, settings), *_idle(view, settings),
        *_urgency(view, settings), *_imbalance(view, settings), *_deadlock(view, settings),
    ]  # fmt: skip


def _starvation(view: QueueView, settings: HealthSettings) -> list[Alert]:
    late = []
    for job in view.waiting:
        bound_s = settings.starvation_s if job.bound_s is None else job.bound_s
        if job.waited_s > bound_s:
            late.append((job.waited_s / bound_s, bound_s, job))
    if not late:
        return []
    _, bound_s, worst = max(late, key=lambda item: (item[0], item[2].job_id))
    return [Alert(
        code=AlertCode.STARVATION, severity=Severity.CRITICAL, subject=worst.pool,
        sentence=f"{len(late)} jobs wait longer than they should; longest is {worst.job_id} with "
        f"{worst.waited_s / 3600:.1f} h, {bound_s / 3600:.1f} h was the bound",
        fix=f"ask 'predictor explain {worst.job_id}' what holds it; reserve for it, or free its pool",
        numbers={"jobs": float(len(late)), "longest_wait_s": worst.waited_s, "bound_s": bound_s},
    )]  # fmt: skip


def _loops(view: QueueView, settings: HealthSettings) -> list[Alert]:
    return [
        Alert(
            code=AlertCode.REQUEUE_LOOP, severity=Severity.WARNING, subject=job.job_id,
            sentence=f"job {job.job_id} was sent back to the queue {job.requeues} times",
            fix="look at its exit codes; make it non-preemptible for its next run, or hold it",
            numbers={"requeues": float(job.requeues), "limit": float(settings.max_requeues)},
        )
        for job in view.waiting
        if job.requeues > settings.max_requeues
    ]  # fmt: skip


def _idle(view: QueueView, settings: HealthSettings) -> list[Alert]:
    waiting = Counter(job.pool for job in view.waiting)
    return [
        Alert(
            code=AlertCode.SCARCE_IDLE, severity=Severity.WARNING, subject=f"{part.pool}/{part.gpu_type}",
            sentence=f"{part.free:g} of {part.total:g} {part.gpu_type} in {part.pool} have been idle for "
            f"{part.idle_s / 60:.0f} min while {waiting[part.pool]} jobs wait there",
            fix="look whether quotas, reservations or fragmentation hold them; shorten the reservation "
            "or let background jobs in",
            numbers={"free": part.free, "total": part.total, "idle_s": part.idle_s},
        )
        for part in view.capacity
        if part.scarce and part.free > 0 and part.idle_s >= settings.idle_s and waiting[part.pool]
    ]  # fmt: skip


def _urgency(view: QueueView, settings: HealthSettings) -> list[Alert]:
    count = len(view.waiting)
    urgent = [job for job in view.waiting if job.urgent]
    if count < settings.min_waiting or len(urgent) < settings.urgent_share * count:
        return []
    team, most = Counter(job.team for job in urgent).most_common(1)[0]
    return [Alert(
        code=AlertCode.ALL_URGENT, severity=Severity.WARNING, subject="queue",
        sentence=f"{len(urgent)} of {count} waiting jobs are of an urgent class, {most} of them from {team}; "
        f"where everything is urgent, nothing is",
        fix="give the urgent class a quota per team, or move these jobs to another class",
        numbers={"urgent": float(len(urgent)), "waiting": float(count), "largest_team": float(most)},
    )]  # fmt: skip


def _imbalance(view: QueueView, settings: HealthSettings) -> list[Alert]:
    alerts = []
    for pool in sorted({team.pool for team in view.teams}):
        teams = [team for team in view.teams if team.pool == pool]
        starved = [team for team in teams if team.waiting > 0 and team.used < team.quota]
        over = [team for team in teams if team.quota > 0 and team.used > settings.imbalance * team.quota]
        if not starved or not over:
            continue
        worst = max(over, key=lambda team: (team.used / team.quota, team.team))
        short = min(starved, key=lambda team: (team.used / team.quota, team.team))
        alerts.append(Alert(
            code=AlertCode.QUOTA_IMBALANCE, severity=Severity.WARNING, subject=pool,
            sentence=f"in {pool}, {worst.team} uses {worst.used:g} GPUs on a quota of {worst.quota:g} while "
            f"{short.team} waits with {short.used:g} of {short.quota:g}",
            fix="let the pool reclaim what was borrowed, or raise the quota that is too small",
            numbers={"used": worst.used, "quota": worst.quota, "short_used": short.used,
                     "short_quota": short.quota},
        ))  # fmt: skip
    return alerts


def _deadlock(view: QueueView, settings: HealthSettings) -> list[Alert]:
    alerts = []
    never = [job for job in view.waiting if not job.fits]
    if never:
        alerts.append(Alert(
            code=AlertCode.QUEUE_DEADLOCK, severity=Severity.WARNING, subject="oversized",
            sentence=f"{len(never)} waiting jobs ask for more than their pool has, such as {never[0].job_id} "
            f"with {never[0].gpu_count:g} GPUs in {never[0].pool}",
            fix="cancel them, or let them use another pool",
            numbers={"jobs": float(len(never)), "gpus": never[0].gpu_count},
        ))  # fmt: skip
    if view.waiting and view.running_count == 0 and view.since_start_s >= settings.deadlock_s:
        alerts.append(Alert(
            code=AlertCode.QUEUE_DEADLOCK, severity=Severity.CRITICAL, subject="queue",
            sentence=f"nothing runs, {len(view.waiting)} jobs wait, and nothing has started for "
            f"{view.since_start_s / 60:.0f} min",
            fix="look whether all nodes are drained, and at the reasons of the first jobs of the queue",
            numbers={"waiting": float(len(view.waiting)), "since_start_s": view.since_start_s},
        ))  # fmt: skip
    return alerts

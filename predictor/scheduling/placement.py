"""This module decides in which pools a job may run at all, and says why not in each of the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from predictor.contracts.events import JobSubmitted
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling.capacity import Pool
from predictor.scheduling.classes import WorkloadClass
from predictor.scheduling.quota import Quota, quota_of, team_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Rules of where jobs may run.

    Attributes:
        scarce_least_width: jobs of fewer units stay off scarce pools, unless they name the device type or
            pool.
        scarce_for: classes that this does not hold for.
    """

    scarce_least_width: int = 4
    scarce_for: tuple[str, ...] = ("emergency", "production")


def pools_of(
    job: JobSubmitted,
    kind: WorkloadClass,
    pools: Sequence[Pool],
    rules: Placement,
    quotas: tuple[Quota, ...] = (),
) -> tuple[int, list[Reason]]:
    """Return the pools that a job may use as a bit set, and the reasons of all the others.

    A bit is set where the pool as a whole could hold the job; whether it can now is for each pass.
    """
    allowed = 0
    reasons: list[Reason] = []
    for k, pool in enumerate(pools):
        fault = _fault(job, kind, pool, rules, quotas)
        if fault is None:
            allowed |= 1 << k
        else:
            reasons.append(fault)
    return allowed, reasons


def _fault(
    job: JobSubmitted, kind: WorkloadClass, pool: Pool, rules: Placement, quotas: tuple[Quota, ...]
) -> Reason | None:
    """Return why a pool is closed to a job, None = it is open."""
    if job.pool not in ("", pool.name):
        return Reason(code=ReasonCode.NO_SUCH_POOL)
    if job.gpu_type not in ("", pool.gpu_type):
        return Reason(code=ReasonCode.NO_DEVICE_OF_TYPE)
    if job.region and pool.region and job.region != pool.region:
        return Reason(code=ReasonCode.REGION_FORBIDDEN)
    if (pool.admits and kind.name not in pool.admits) or (kind.pools and pool.name not in kind.pools):
        return Reason(code=ReasonCode.CLASS_NOT_ADMITTED)
    if job.vram_mib and pool.vram_mib and job.vram_mib > pool.vram_mib:
        numbers = {"needed_mib": float(job.vram_mib), "device_mib": float(pool.vram_mib)}
        return Reason(code=ReasonCode.MEMORY_TOO_SMALL, numbers=numbers)
    named = job.pool == pool.name or (job.gpu_type != "" and job.gpu_type == pool.gpu_type)
    small = job.width < rules.scarce_least_width and kind.name not in rules.scarce_for
    if pool.scarce and small and not named:
        return Reason(
            code=ReasonCode.SCARCE_DEVICE_KEPT, numbers={"least_width": float(rules.scarce_least_width)}
        )
    if not pool.could_hold(job.width, job.nodes, job.island):
        widest = float(pool.largest_island if job.island else pool.total)
        code = ReasonCode.ISLAND_TOO_SMALL if job.island else ReasonCode.TOO_WIDE
        return Reason(code=code, numbers={"needed": float(job.width), "total": widest})
    for team in team_path(job.team):
        quota = quota_of(quotas, team, pool.name)
        if quota is not None and job.width > quota.units + quota.borrow:
            numbers = {"needed": float(job.width), "limit": float(quota.units + quota.borrow)}
            return Reason(code=ReasonCode.OVER_QUOTA_ALWAYS, numbers=numbers)
    return None

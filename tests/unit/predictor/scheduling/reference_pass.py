"""This module is one scheduling pass in plain Python, which the compiled pass must equal.

It knows one counted pool and follows the definition, not the shortcuts: free capacity is asked at every
instant at which it can change, and every job is looked at.
"""

from dataclasses import dataclass, replace

from predictor.scheduling.order import Order
from predictor.scheduling.reservation import Reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    name: str
    width: int
    submit_s: float
    size_s: float
    plan_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    width: int
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    started: tuple[str, ...]
    promises: tuple[tuple[str, float], ...]


def reference_pass(
    now_s: float, total: int, waiting: list[Waiting], running: list[Running], order: Order, reserve: Reserve
) -> Result:
    """Return who starts, and who is promised which start."""
    taken = [(now_s, each.end_s, each.width) for each in running]
    started: list[str] = []
    promised: dict[str, float] = {}
    guards = [order.guard_s / (job.width / total) ** order.guard_width_exponent for job in waiting]
    guarded = {job.name for job, guard in zip(waiting, guards, strict=True) if now_s - job.submit_s >= guard}
    eldest = {job.name for job in waiting[: reserve.eldest]}
    heads, guarded_left = reserve.heads, reserve.guarded

    def key(job: Waiting) -> tuple[int, float]:
        if job.name in guarded:
            return 0, job.submit_s
        wait_s = now_s - job.submit_s
        if order.by == "submit":
            return 1, job.submit_s
        if order.ageing == "linear":
            return 1, job.size_s - order.ageing_rate * wait_s
        if order.ageing == "ratio":
            return 1, job.size_s / (1 + wait_s / order.ageing_tau_s) ** order.ageing_power
        return 1, job.size_s

    todo = sorted(waiting, key=key)
    while todo:
        if reserve.backfill_order == "shortest" and heads <= 0 and promised:
            todo.sort(key=lambda job: job.plan_s)
            reserve = replace(reserve, backfill_order="queue")
        job = todo.pop(0)
        if _fits(taken, total, now_s, job.plan_s, job.width):
            end_s = now_s + job.plan_s
            taken.append((now_s, end_s, job.width))
            started.append(job.name)
            continue
        is_guarded = job.name in guarded
        others = not is_guarded and not guarded & promised.keys()
        if (is_guarded and guarded_left > 0) or (others and (heads > 0 or job.name in eldest)):
            if is_guarded:
                guarded_left -= 1
            elif heads > 0:
                heads -= 1
            moments = sorted({now_s, *(end_s for _, end_s, _ in taken)})
            start_s = next(at for at in moments if _fits(taken, total, at, job.plan_s, job.width))
            taken.append((start_s, start_s + job.plan_s, job.width))
            promised[job.name] = start_s
        if not reserve.backfill:
            break
    return Result(started=tuple(started), promises=tuple(sorted(promised.items())))


def _fits(
    taken: list[tuple[float, float, int]], total: int, start_s: float, duration_s: float, width: int
) -> bool:
    """Return whether so many units are free throughout."""
    instants = [start_s, *(begin_s for begin_s, _, _ in taken if start_s < begin_s < start_s + duration_s)]
    return all(
        total - sum(units for begin_s, end_s, units in taken if begin_s <= at < end_s) >= width
        for at in instants
    )

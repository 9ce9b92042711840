"""This module takes a submission into the job store, or says everything that forbids it."""

from collections.abc import Sequence

import numpy as np

from predictor.contracts.events import CHECKPOINT_KINDS, JobSubmitted
from predictor.contracts.forecast import LEVELS
from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling import columns as c
from predictor.scheduling.expected import backlog_s
from predictor.scheduling.placement import pools_of
from predictor.scheduling.policy import Policy
from predictor.scheduling.remaining import assume_log_quantiles
from predictor.scheduling.siblings import join_siblings
from predictor.scheduling.state import SchedulingState

_BLANK_FLOATS = np.full(c.FLOATS, np.nan)
_BLANK_FLOATS[[c.SAVED, c.NOT_BEFORE, c.BASE, c.SERVED, c.LOOK_AT, *c.TOLD, c.NUMBER_1, c.NUMBER_2]] = 0.0
_BLANK_FLOATS[c.BACKLOG] = np.inf
_BLANK_INTS = np.zeros(c.INTS, dtype=np.int64)
_BLANK_INTS[[c.POOL, c.NODE_LIST, c.ELDER, c.YOUNGER]] = -1
# until a pass looks at it: none does while nothing at all is free
_BLANK_INTS[c.REASON] = ReasonCode.CAPACITY_SHORT


def refusals(
    state: SchedulingState, policy: Policy, job: JobSubmitted, *, is_known: bool = False
) -> tuple[int, list[Reason]]:
    """Return the pools that a submission may use, and all reasons to refuse it ([] = none).

    Args:
        is_known: it waits already, and would be changed to this.
    """
    faults = _faults(job)
    if not is_known and job.job_id in state.store.slot_of:
        faults.insert(0, Reason(code=ReasonCode.DUPLICATE_JOB))
    which = policy.workload_class(job.workload_class)
    if which < 0:
        faults.append(Reason(code=ReasonCode.NO_SUCH_CLASS))
    if faults:
        return 0, faults
    allowed, reasons = pools_of(
        job, policy.classes[which], state.capacity.pools, policy.placement, policy.quotas
    )
    if allowed:
        return allowed, []
    unique = {(reason.code, tuple(reason.numbers.items())): reason for reason in reasons}
    return 0, list(unique.values())


def _faults(job: JobSubmitted) -> list[Reason]:
    numbers = [float(job.width), float(job.nodes), job.checkpoint_interval_s, job.restart_cost_s]
    wrong = [value for value in numbers if not value >= 0] + ([job.limit_s] if not job.limit_s > 0 else [])
    if job.width < 1:
        wrong.append(float(job.width))
    if job.estimate_s is not None and not job.estimate_s > 0:
        wrong.append(job.estimate_s)
    quantiles = job.quantiles_s
    if quantiles is not None and (len(quantiles) != len(LEVELS) or not all(q > 0 for q in quantiles)):
        wrong.append(float(len(quantiles)))
    if job.checkpoint not in CHECKPOINT_KINDS:
        wrong.append(float("nan"))
    return [Reason(code=ReasonCode.INVALID_REQUEST, numbers={"value": value}) for value in wrong]


def admit(state: SchedulingState, policy: Policy, job: JobSubmitted, pools: int) -> int:
    """Lay a job out in a slot and return it; its size and plan are still to be assessed."""
    store = state.store
    slot = state.add(job)
    floats, ints = store.floats, store.ints
    floats[:, slot] = _BLANK_FLOATS
    ints[:, slot] = _BLANK_INTS
    floats[c.SUBMIT, slot] = job.now_s
    floats[c.LIMIT, slot] = job.limit_s
    floats[c.CHECKPOINT_EVERY, slot] = job.checkpoint_interval_s
    floats[c.RESTART_COST, slot] = job.restart_cost_s
    floats[c.VRAM, slot] = job.vram_mib
    ints[c.WIDTH, slot] = job.width
    ints[c.NODES, slot] = job.nodes
    ints[c.ISLAND, slot] = job.island
    ints[c.POOLS, slot] = pools
    ints[c.TEAM, slot] = state.teams.number(job.team)
    ints[c.CHECKPOINT, slot] = CHECKPOINT_KINDS.index(job.checkpoint)
    if policy.order.guard_s < np.inf:
        queue, running = store.queue, store.running
        ahead = backlog_s(floats, ints, queue, store.n_queue, running, store.n_running, job.now_s)
        floats[c.BACKLOG, slot] = ahead / max(float(state.capacity.total.sum()), 1.0)
    ints[c.SEQUENCE, slot] = store.next_sequence
    store.next_sequence += 1
    floats[c.NUMBER_0, slot] = job.width
    set_class(state, policy, slot)
    set_forecast(state, slot, job.quantiles_s, job.estimate_s)
    join_siblings(store, slot, job)
    return slot


def set_class(state: SchedulingState, policy: Policy, slot: int) -> None:
    """Set what a job's class and deadline say, from its submission as it stands now."""
    job = state.specs[slot]
    assert job is not None  # noqa: S101 - the slot of a live job
    floats, ints = state.store.floats, state.store.ints
    which = policy.workload_class(job.workload_class)
    kind = policy.classes[which]
    ints[c.CLASS, slot] = which
    ints[c.TIER, slot] = kind.tier
    ints[c.PREEMPTIBLE, slot] = kind.preemptible if job.preemptible is None else job.preemptible
    floats[c.WEIGHT, slot] = kind.weight
    floats[c.DEADLINE, slot] = np.nan if job.deadline_s is None else job.deadline_s


def set_forecast(
    state: SchedulingState, slot: int, quantiles_s: Sequence[float] | None, estimate_s: float | None
) -> None:
    """Set the distribution of a job's duration: the forecast, else the estimate, else from its limit."""
    store = state.store
    logs = store.given_log_quantiles[slot]
    if estimate_s is not None:
        store.floats[c.ESTIMATE, slot] = estimate_s
    if quantiles_s is not None:
        logs[:] = quantiles_s
        np.maximum(logs, 1.0, out=logs)
        np.log(logs, out=logs)
        np.maximum.accumulate(logs, out=logs)
    elif estimate_s is not None:
        logs[:] = np.log(max(estimate_s, 1.0))
    else:
        assume_log_quantiles(logs, store.floats[c.LIMIT, slot])

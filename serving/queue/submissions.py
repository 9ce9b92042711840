"""This module turns a submission into the event that the queue records, its forecast included."""

import math

import numpy as np

from predictor.contracts.events import JobSubmitted
from predictor.contracts.forecast import LEVELS, MIN_DURATION_S
from predictor.contracts.request import JobRequest
from serving.decoding import moment_faults
from serving.ports import Forecast
from serving.problems import Fault
from serving.queue.schemas import ForecastOverride, Submission
from serving.schemas import as_epoch_s, as_text

MOST_UNITS = 10_000_000


def request_of(submission: Submission, now_s: float) -> JobRequest:
    """Return the submission as the model takes it."""
    return JobRequest(
        submitted_s=now_s, job_id=as_text(submission.job_id), attempt=submission.attempt,
        cluster=submission.cluster, user=submission.user, account=submission.account,
        queue=submission.queue, qos=submission.qos, gpu_type=submission.gpu_type,
        job_name=submission.job_name, requested_gpus=submission.requested_gpus,
        requested_nodes=submission.requested_nodes, requested_cpus=submission.requested_cpus,
        requested_memory_mib=submission.requested_memory_mib, walltime_s=submission.walltime_s,
        array_job_id=as_text(submission.array_job_id), array_task_index=submission.array_task_index,
        dependency=submission.dependency,
    )  # fmt: skip


def submission_faults(submission: Submission) -> list[Fault]:
    """Return what is wrong with a submission beyond the types of its fields."""
    faults = []
    if not 1 <= width_of(submission) <= MOST_UNITS:
        detail = (
            f"a job needs at least one and at most {MOST_UNITS} GPUs or cores; got {width_of(submission)}"
        )
        faults.append(Fault(pointer="/requested_gpus", code="out-of-range", detail=detail))
    nodes = submission.requested_nodes or 0.0
    if nodes != int(min(nodes, MOST_UNITS)):
        detail = f"a job spreads over a whole number of nodes, at most {MOST_UNITS}; got {nodes:g}"
        faults.append(Fault(pointer="/requested_nodes", code="out-of-range", detail=detail))
    if submission.attempt:
        detail = "the queue counts attempts itself; give each submission a job_id of its own"
        faults.append(Fault(pointer="/attempt", code="not-allowed", detail=detail))
    if submission.submitted_at is not None:
        detail = "the queue takes a job at the moment of its submission; leave submitted_at out"
        faults.append(Fault(pointer="/submitted_at", code="not-allowed", detail=detail))
    if submission.deadline_at is not None:
        faults += moment_faults("deadline_at", submission.deadline_at)
    if submission.walltime_s is not None and submission.walltime_s <= 0:
        faults.append(Fault(pointer="/walltime_s", code="out-of-range", detail="walltime_s must be above 0"))
    if submission.forecast is not None:
        faults += _override_faults(submission.forecast)
    return faults


def width_of(submission: Submission) -> int:
    """Return the units that a job holds: its GPUs, or where it asks for none its cores; at least one."""
    wanted = submission.requested_gpus or submission.requested_cpus or 1.0
    return math.ceil(min(wanted, 1e12))


def event_of(
    submission: Submission, forecast: Forecast | None, *, now_s: float, vram_mib: float | None = None
) -> JobSubmitted:
    """Return the event of a faultless submission.

    Args:
        forecast: of the model, None = there is none.
        vram_mib: upper bound of the memory that it needs on each GPU, None = unknown.
    """
    own = submission.forecast or ForecastOverride()
    limit_s = math.inf if submission.walltime_s is None else submission.walltime_s
    quantiles_s = None if forecast is None else forecast.level_quantiles_s
    if own.quantiles_s is not None:
        quantiles_s = spread_quantiles(own.quantiles_s, limit_s)
    elif own.duration_s is not None:
        quantiles_s = (min(own.duration_s, limit_s),) * len(LEVELS)
    memory_mib = own.vram_mib if own.vram_mib is not None else vram_mib
    return JobSubmitted(
        now_s=now_s, job_id=str(submission.job_id), width=width_of(submission), limit_s=limit_s,
        quantiles_s=quantiles_s, estimate_s=own.duration_s, user=submission.user or "",
        team=submission.account or "", workload_class=submission.workload_class or "",
        pool=submission.pool or "", gpu_type=submission.gpu_type or "",
        nodes=int(submission.requested_nodes or 0), vram_mib=math.ceil(memory_mib or 0.0),
        region=submission.data_region or "",
        deadline_s=None if submission.deadline_at is None else as_epoch_s(submission.deadline_at),
        preemptible=submission.preemptible, checkpoint=submission.checkpoint_kind or "none",
        checkpoint_interval_s=submission.checkpoint_interval_s or 0.0,
        restart_cost_s=submission.restart_cost_s or 0.0,
    )  # fmt: skip


def spread_quantiles(given: dict[str, float], limit_s: float) -> tuple[float, ...]:
    """Return quantiles at LEVELS from some by name, linear in the logarithm between them, flat outside."""
    levels = sorted((_level(name), value) for name, value in given.items())
    known = [level for level, _ in levels]
    logs = [math.log(max(value, MIN_DURATION_S)) for _, value in levels]
    spread = np.exp(np.interp(LEVELS, known, logs))
    return tuple(float(min(value, limit_s)) for value in spread)


def _override_faults(own: ForecastOverride) -> list[Fault]:
    if own.quantiles_s is None:
        return []
    faults = []
    good: list[tuple[float, float]] = []
    for name, value in own.quantiles_s.items():
        level = _level(name)
        if math.isnan(level):
            detail = f"'{name[:20]}' is no quantile; give names such as q10, q50 and q90"
            faults.append(Fault(pointer="/forecast/quantiles_s", code="invalid", detail=detail))
        else:
            good.append((level, value))
    values = [value for _, value in sorted(good)]
    if not own.quantiles_s:
        detail = "quantiles_s is empty; give at least one, such as q50"
        faults.append(Fault(pointer="/forecast/quantiles_s", code="invalid", detail=detail))
    if values != sorted(values):
        detail = "quantiles must not fall as their level rises"
        faults.append(Fault(pointer="/forecast/quantiles_s", code="invalid", detail=detail))
    if own.duration_s is not None:
        detail = "give either duration_s or quantiles_s"
        faults.append(Fault(pointer="/forecast/duration_s", code="not-allowed", detail=detail))
    return faults


def _level(name: str) -> float:
    """Return 0.9 for ``q90`` and 0.975 for ``q97.5``; not a number where it is no quantile."""
    text = name.removeprefix("q")
    if text == name or not (text.isascii() and text.replace(".", "", 1).isdigit()) or len(text) > 6:
        return math.nan
    level = float(text) / 100
    return level if 0 < level < 1 else math.nan

"""This module scores simulations: waiting, slowdown, utilisation, eviction, fairness, and promises kept.

Bounded slowdown is max(1, (wait + run) / max(run, 10 s)) (Feitelson, Metrics for parallel job scheduling and
their convergence, 2001). Waiting is all time between submission and end without work that counted, so that
work to be repeated after an eviction counts as waiting.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from predictor.simulation.result import CANCELLED, REFUSED, Promises, SimulationResult
from predictor.simulation.trace import FloatArray

BOUND_S = 10.0
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseScores:
    """How good promised starts were.

    Attributes:
        made: how many jobs were promised a start. kept: how many started by their promised latest start.
        median_abs_error_s: of the expected start, against the real one.
        coverage_q90: kept / judged.
    """

    made: int
    kept: int
    median_abs_error_s: float
    coverage_q90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyScores:
    """Scores of one policy over the jobs that came to their own end.

    Attributes:
        jobs: how many ended.
        unfit, cancelled: how many are in no score, as no pool can ever hold them, or as the policy ended them
            before their own end.
        mean_jct_s: from submission to end.
        utilisation: busy units over all units, from the first submission to the last end.
        preemptions: evictions. lost_gpu_h: unit hours of work that had to be repeated or was thrown away.
        jain: Jain's index over the users' mean bounded slowdowns, 1 = all fare alike (Jain, Chiu, Hawe,
            A quantitative measure of fairness, 1984).
    """

    jobs: int
    unfit: int
    cancelled: int
    mean_wait_s: float
    p95_wait_s: float
    p99_wait_s: float
    max_wait_s: float
    mean_bounded_slowdown: float
    mean_jct_s: float
    utilisation: float
    preemptions: int
    lost_gpu_h: float
    jain: float
    promises: PromiseScores


def score(result: SimulationResult) -> PolicyScores:
    """Return the scores of a simulation; NaN where nothing was to be judged."""
    done = result.completed
    wait_s = result.wait_s[done]
    slowdown = bounded_slowdown(result)[done]
    attempts, trace = result.attempts, result.trace
    busy = float(((attempts.end_s - attempts.start_s) * trace.width[attempts.job]).sum())
    useful = float((trace.work_s * trace.width)[done].sum())
    span_s = float(np.nanmax(result.end_s) - trace.submitted_s.min()) if done.any() else 0.0
    some = len(wait_s) > 0
    return PolicyScores(
        jobs=int(done.sum()),
        unfit=int((result.outcome == REFUSED).sum()),
        cancelled=int((result.outcome == CANCELLED).sum()),
        mean_wait_s=float(wait_s.mean()) if some else np.nan,
        p95_wait_s=float(np.quantile(wait_s, 0.95)) if some else np.nan,
        p99_wait_s=float(np.quantile(wait_s, 0.99)) if some else np.nan,
        max_wait_s=float(wait_s.max()) if some else np.nan,
        mean_bounded_slowdown=float(slowdown.mean()) if some else np.nan,
        mean_jct_s=float((result.end_s - trace.submitted_s)[done].mean()) if some else np.nan,
        utilisation=busy / (result.units * span_s) if span_s > 0 else np.nan,
        preemptions=int(result.evictions.sum()),
        lost_gpu_h=max(busy - useful, 0.0) / _HOUR_S,
        jain=jain_index(user_slowdowns(result)),
        promises=score_promises(result.promises, result.start_s),
    )


def bounded_slowdown(result: SimulationResult) -> FloatArray:
    """Return the bounded slowdown of each job, shape (n,)."""
    work_s = result.trace.work_s
    return np.asarray(np.maximum(1.0, (result.wait_s + work_s) / np.maximum(work_s, BOUND_S)))


def user_slowdowns(result: SimulationResult) -> FloatArray:
    """Return the mean bounded slowdown of each user with a job that ended, shape (users,)."""
    done = np.flatnonzero(result.completed)
    _, numbers = np.unique(np.array(result.trace.user, dtype=object)[done], return_inverse=True)
    slowdown = bounded_slowdown(result)[done]
    return np.asarray(np.bincount(numbers, weights=slowdown) / np.bincount(numbers))


def jain_index(shares: FloatArray) -> float:
    """Return (sum x)^2 / (n sum x^2); NaN without any."""
    return float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())) if len(shares) else np.nan


def score_promises(promises: Promises, start_s: FloatArray) -> PromiseScores:
    """Return how the first promise of each job was kept."""
    real_s = start_s[promises.job]
    judged = ~np.isnan(real_s)
    kept = int((real_s[judged] <= promises.latest_s[judged]).sum())
    some = bool(judged.any())
    return PromiseScores(
        made=len(promises.job),
        kept=kept,
        median_abs_error_s=float(np.median(np.abs(real_s - promises.expected_s)[judged])) if some else np.nan,
        coverage_q90=kept / int(judged.sum()) if some else np.nan,
    )


def simulation_document(results: list[SimulationResult]) -> dict[str, Any]:
    """Return the scores of all policies as JSON-able values; NaN is None."""
    seconds = sum(result.elapsed_s for result in results)
    jobs = sum(len(result.trace) for result in results)
    return {
        "policies": {result.name: _finite(asdict(score(result))) for result in results},
        "jobs_per_second": jobs / seconds if seconds > 0 else None,
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value

"""This module lets synthetic attempts wait, run and end, by whichever event comes first."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.job import JobState
from predictor.data.synthetic_requests import Requests, load_factor
from predictor.data.synthetic_spec import WorkloadSpec
from predictor.data.synthetic_truth import FAST_FAILURE, OUT_OF_MEMORY, SyntheticTruth, draw_truth
from predictor.data.synthetic_users import Population

Floats = npt.NDArray[np.float64]

STATES = tuple(JobState)
_ENDS = (
    JobState.COMPLETED, JobState.TIMEOUT, JobState.CANCELLED, JobState.PREEMPTED, JobState.NODE_FAIL,
    JobState.RUNNING,
)  # fmt: skip
_QOS_WAIT = np.array([1.8, 1.0, 0.3])  # low, normal, high
_LATE_FAILURE_RATIO = 1 / 3  # late failures per fast failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """How n attempts went; times are whole seconds after the begin of the log.

    Attributes:
        state: shape (n,), place in ``STATES``.
        started_s: shape (n,), NaN where it never ran.
        ended_s: shape (n,), NaN where it waits or runs at the cut.
        elapsed_s: shape (n,), NaN where it never ran.
    """

    state: npt.NDArray[np.int64]
    started_s: Floats
    ended_s: Floats
    elapsed_s: Floats


def live(
    spec: WorkloadSpec, population: Population, requests: Requests, rng: np.random.Generator
) -> tuple[Lives, SyntheticTruth]:
    """Draw the latent duration of every request and what the log shows of it.

    Notes:
        Cancelling, eviction and node failure are three exponential clocks with constant hazards, so
        censoring is independent of the duration given the row, and its law is known. The limit and
        the cut of the log censor at times fixed before the duration is drawn. A censored attempt is
        recorded with its age rounded down to whole seconds, at least one; an observed one rounded up.
    """
    rows, template = len(requests), requests.template
    typical_s = np.exp(requests.log_location)
    preemptible = population.qos[requests.user] == 0
    hazards = np.stack([
        spec.cancel_running_ratio / typical_s,
        np.where(preemptible, spec.preemption_hazard_per_h / 3600.0, 0.0),
        spec.node_failure_hazard_per_node_h * requests.nodes / 3600.0,
    ]) * float(spec.censoring)  # fmt: skip
    truth = draw_truth(
        rng, template=template,
        log_location=requests.log_location, log_scale=population.log_scale[template],
        fast_weight=population.fast_weight[template], memory_weight=population.memory_weight[template],
        tail_weight=np.full(rows, spec.tail_weight), tail_index=population.tail_index[template],
        censoring_hazard_per_s=hazards.sum(axis=0),
    )  # fmt: skip
    wait_s = _draw_waits_s(spec, population, requests, rng)
    started_s = requests.submitted_s + wait_s
    with np.errstate(divide="ignore", over="ignore"):  # a hazard of zero, or next to it, never strikes
        clocks_s = rng.standard_exponential(hazards.shape) / hazards
    clocks_s = np.maximum(np.floor(clocks_s), 1.0)
    enforced = spec.censoring & np.isfinite(requests.walltime_s)
    limit_s = np.where(enforced, requests.walltime_s, np.inf)
    cut_s = spec.span_s - started_s if spec.censoring else np.full(rows, np.inf)
    ends_s = np.vstack([truth.duration_s, limit_s, clocks_s, cut_s])
    which = np.argmin(ends_s, axis=0)
    elapsed_s = np.where(
        which == 0, np.maximum(np.ceil(truth.duration_s), 1.0), ends_s[which, np.arange(rows)]
    )
    state = np.array([STATES.index(end) for end in _ENDS])[which]
    state = np.where(which == 0, _own_ends(spec, truth, rng), state)
    running = which == len(_ENDS) - 1
    ended_s = np.where(running, np.nan, started_s + elapsed_s)

    gives_up = (rng.random(rows) < spec.cancel_pending_rate) & (wait_s >= 60.0) & spec.censoring
    given_up_s = np.floor(requests.submitted_s + rng.random(rows) * wait_s)
    gives_up &= given_up_s < spec.span_s
    waits = spec.censoring & (started_s >= spec.span_s) & ~gives_up
    state = np.where(gives_up, STATES.index(JobState.CANCELLED), state)
    state = np.where(waits, STATES.index(JobState.PENDING), state)
    never = gives_up | waits
    return Lives(
        state=state,
        started_s=np.where(never, np.nan, started_s),
        elapsed_s=np.where(never, np.nan, elapsed_s),
        ended_s=np.where(gives_up, given_up_s, np.where(waits, np.nan, ended_s)),
    ), truth  # fmt: skip


def _own_ends(spec: WorkloadSpec, truth: SyntheticTruth, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    late = rng.random(len(truth)) < spec.failure_rate * _LATE_FAILURE_RATIO
    failed = late | (truth.component == FAST_FAILURE)
    state = np.where(failed, STATES.index(JobState.FAILED), STATES.index(JobState.COMPLETED))
    return np.where(truth.component == OUT_OF_MEMORY, STATES.index(JobState.OUT_OF_MEMORY), state)


def _draw_waits_s(
    spec: WorkloadSpec, population: Population, requests: Requests, rng: np.random.Generator
) -> Floats:
    # A busy site makes a job wait with a probability and a mean that grow with the job and the hour.
    load = load_factor(spec, requests.submitted_s)
    size = requests.gpus + requests.cpus / 64.0
    busy = np.clip(0.25 + 0.15 * load + 0.06 * np.log2(1.0 + size), 0.0, 0.95)
    mean_s = spec.mean_wait_s * (0.3 + 0.7 * load) * np.sqrt(0.5 + 0.5 * size)
    mean_s = mean_s * _QOS_WAIT[population.qos[requests.user]] * rng.lognormal(-0.5, 1.0, len(requests))
    waits = rng.random(len(requests)) < busy
    long_s = np.floor(rng.standard_exponential(len(requests)) * mean_s)
    return np.where(waits, long_s, rng.integers(0, 4, len(requests)))

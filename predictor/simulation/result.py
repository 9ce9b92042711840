"""This module holds what a simulation did: when each job ran, what it was promised, who was evicted."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.simulation.trace import FloatArray, IntArray, Trace

COMPLETED, CANCELLED, REFUSED = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Every attempt at running, a of them; a job that was interrupted has several.

    Attributes:
        job: shape (a,), index in the trace. start_s, end_s: shape (a,). pool: shape (a,), index of the pool.
        nodes: (node index, units) of each attempt, () in a pool that is only counted.
    """

    job: IntArray
    start_s: FloatArray
    end_s: FloatArray
    pool: IntArray
    nodes: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """The first promise given to each of k jobs.

    Attributes:
        job: shape (k,). made_s, start_s, expected_s, latest_s: shape (k,), when, the planned start, the
            expected one, and that of q90.
    """

    job: IntArray
    made_s: FloatArray
    start_s: FloatArray
    expected_s: FloatArray
    latest_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """Outcome of n jobs under one policy.

    Attributes:
        name: of the policy.
        trace: the jobs played.
        units: of the whole cluster.
        start_s: shape (n,), first start, NaN = never.
        end_s: shape (n,), NaN = never ended.
        outcome: shape (n,), COMPLETED, CANCELLED or REFUSED.
        evictions, failures: shape (n,), how often each job was evicted, and stopped by a failing node.
        elapsed_s: processor seconds that the simulation took.
    """

    name: str
    trace: Trace
    units: int
    start_s: FloatArray
    end_s: FloatArray
    outcome: npt.NDArray[np.int8]
    evictions: IntArray
    failures: IntArray
    attempts: Attempts
    promises: Promises
    elapsed_s: float

    @property
    def completed(self) -> npt.NDArray[np.bool_]:
        """Shape (n,), which jobs came to their own end."""
        return np.asarray(self.outcome == COMPLETED)

    @property
    def wait_s(self) -> FloatArray:
        """Shape (n,), seconds from submission to end without work that counted; NaN = never ended."""
        return np.asarray(self.end_s - self.trace.submitted_s - self.trace.work_s)

"""This module turns measured runs and candidate placements into the rows that the model compares."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.topology import PlacementRuns, TopologyJob

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
SHAPE_COLUMNS = (
    "log_gpus", "nodes", "largest_share", "smallest_share", "concentration", "second_share",
)  # fmt: skip
# what stands in for a job that does not say; any fixed value serves, as only differences count
_USUAL_STEP_S, _USUAL_GRADIENT_BYTES, _USUAL_BATCH = 0.2, 1e8, 32.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """n pairs of a job and the shape of a placement on one cluster.

    Attributes:
        shape: shape (n, 6), see :data:`SHAPE_COLUMNS`; equal for placements that differ in names only.
        shape_name: shape (n,), such as ``"1-2-4"``.
        signature: shape (n,), "" = not known.
        job: shape (n, 2), natural log of the seconds of a step on one GPU and of the gradient bytes.
        log_batch: shape (n,), natural log of samples per GPU.
        group: shape (n,), equal where job, batch and number of GPUs are; only such rows are compared.
    """

    shape: FloatArray
    shape_name: npt.NDArray[np.str_]
    signature: npt.NDArray[np.str_]
    job: FloatArray
    log_batch: FloatArray
    group: IntArray

    def __len__(self) -> int:
        return len(self.group)

    def take(self, at: IntArray) -> "Rows":
        """Return the chosen rows; groups keep their numbers."""
        return Rows(
            shape=self.shape[at], shape_name=self.shape_name[at], signature=self.signature[at],
            job=self.job[at], log_batch=self.log_batch[at], group=self.group[at],
        )  # fmt: skip


def shape_features(pattern: Sequence[int], node_gpus: float) -> list[float]:
    """Return the features of a shape, in the order of SHAPE_COLUMNS.

    Args:
        pattern: GPUs per node, in any order.
        node_gpus: GPUs that a whole node has, at least the largest of the pattern.
    """
    counts = sorted((count for count in pattern if count > 0), reverse=True)
    total = sum(counts)
    size = max(node_gpus, counts[0])
    return [
        float(np.log(total)),
        float(len(counts)),
        counts[0] / size,
        counts[-1] / size,
        sum(count * count for count in counts) / total**2,
        (counts[1] if len(counts) > 1 else 0) / size,
    ]


def shape_name(pattern: Sequence[int]) -> str:
    """Return the name of a shape: GPUs per node, ascending.

    Examples:
        >>> shape_name((4, 0, 1)) == shape_name((1, 4)) == "1-4"
        True
    """
    return "-".join(str(count) for count in sorted(count for count in pattern if count > 0))


def job_features(step_s: FloatArray, gradient_bytes: FloatArray) -> FloatArray:
    """Return the features of jobs, shape (n, 2); what is not known gets a usual value."""
    step = np.where(step_s > 0, step_s, _USUAL_STEP_S)
    size = np.where(gradient_bytes > 0, gradient_bytes, _USUAL_GRADIENT_BYTES)
    return np.column_stack([np.log(step), np.log(size)])


def rows_of_runs(runs: PlacementRuns) -> Rows:
    """Return the rows of measured runs of one cluster."""
    batch = np.where(runs.local_batch > 0, runs.local_batch, _USUAL_BATCH)
    totals = [sum(pattern) for pattern in runs.patterns]
    groups: dict[tuple[str, float, int], int] = {}
    keys = zip(runs.signatures, batch.tolist(), totals, strict=True)
    return Rows(
        shape=np.array(
            [
                shape_features(pattern, size)
                for pattern, size in zip(runs.patterns, runs.node_gpus, strict=True)
            ]
        ).reshape(-1, len(SHAPE_COLUMNS)),
        shape_name=np.array([shape_name(pattern) for pattern in runs.patterns], dtype=np.str_),
        signature=np.array(runs.signatures, dtype=np.str_),
        job=job_features(runs.one_gpu_step_s, runs.gradient_bytes),
        log_batch=np.log(batch),
        group=np.array([groups.setdefault(key, len(groups)) for key in keys], dtype=np.intp),
    )


def rows_of_candidates(
    job: TopologyJob, patterns: Sequence[Sequence[int]], node_gpus: Sequence[float]
) -> Rows:
    """Return one row per candidate of one job; all are of one group."""
    n = len(patterns)
    batch = job.local_batch if job.local_batch > 0 else _USUAL_BATCH
    return Rows(
        shape=np.array([shape_features(p, size) for p, size in zip(patterns, node_gpus, strict=True)]),
        shape_name=np.array([shape_name(pattern) for pattern in patterns], dtype=np.str_),
        signature=np.full(n, job.signature),
        job=job_features(np.full(n, job.one_gpu_step_s), np.full(n, job.gradient_bytes)),
        log_batch=np.full(n, np.log(batch)),
        group=np.zeros(n, dtype=np.intp),
    )

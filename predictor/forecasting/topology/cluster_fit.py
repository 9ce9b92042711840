"""This module learns which shapes of placements run faster than others on one cluster.

It is Gaussian-process regression (C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
Learning", 2006, chapter 2) of log throughput on shape and job. The covariance is centred over the placements
that compete with each other, so that only their differences are learned; what they have in common is a free
intercept of the group. Far from all measurements the forecast is the mean of the prior, 0: no preference.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from predictor.forecasting.topology.rows import SHAPE_COLUMNS, Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSettings:
    """Scales of the covariance; all amplitudes are of natural log throughput.

    Attributes:
        shape_scales: length scales of the features of a shape, in their order.
        common, alike, same: amplitude of a smooth effect of the shape on all jobs, on jobs of like step time
            and gradient, and on the same job.
        common_shape, same_shape: amplitude of what is particular to one shape, for all jobs and for one.
        job_scales: length scales of log step time and log gradient bytes.
        batch_scale: length scale of log local batch.
        intercept: amplitude of what the placements of one group have in common.
        noise: deviation of one measured step time; it covers differences that the features cannot tell.
    """

    shape_scales: tuple[float, ...] = (3.0, 3.0, 1.2, 1.2, 1.0, 1.2)
    common: float = 0.1
    alike: float = 0.1
    same: float = 0.1
    common_shape: float = 0.05
    same_shape: float = 0.08
    job_scales: tuple[float, ...] = (1.0, 2.0)
    batch_scale: float = 1.5
    intercept: float = 1.0
    noise: float = 0.12


def covariance(first: Rows, second: Rows, settings: KernelSettings) -> FloatArray:
    """Return the covariance of the effects of placements before centring, shape (n, m)."""
    shape = _over_distinct(_matern, first.shape / settings.shape_scales, second.shape / settings.shape_scales)
    alike = _over_distinct(_gauss, first.job / settings.job_scales, second.job / settings.job_scales)
    batches = (rows.log_batch[:, None] / settings.batch_scale for rows in (first, second))
    batch = _over_distinct(_matern, *batches)
    same = _equal(first.signature, second.signature)
    total = shape * (settings.common**2 + settings.alike**2 * alike + settings.same**2 * same * batch)
    one_shape = _equal(first.shape_name, second.shape_name)
    return np.asarray(total + one_shape * (settings.common_shape**2 + settings.same_shape**2 * same))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFit:
    """What was learned of one cluster.

    Attributes:
        rows: the measured rows.
        weights: shape (n,), of each row in a forecast; their sum over a group is 0.
    """

    rows: Rows
    weights: FloatArray
    settings: KernelSettings

    def effects(self, candidates: Rows) -> FloatArray:
        """Return the log throughput of candidates over their mean, shape (n,).

        Candidates of the same shape get exactly the same value.
        """
        found = covariance(candidates, self.rows, self.settings) @ self.weights
        _, first, back = np.unique(candidates.shape, axis=0, return_index=True, return_inverse=True)
        distinct = found[first]  # a matrix product may differ in the last bit between equal rows
        spread: FloatArray = distinct - distinct.mean()
        return spread[back.reshape(-1)]

    def reaches(self, gpu_count: int, node_count: int) -> bool:
        """Return whether placements with as many GPUs and as many nodes, or more, were measured.

        A trend from one node to two says nothing of five.
        """
        at_gpus, at_nodes = (SHAPE_COLUMNS.index(name) for name in ("log_gpus", "nodes"))
        most = np.exp(self.rows.shape[:, at_gpus].max()) + 0.5  # a count came back from its ln
        return bool(gpu_count < most and node_count <= self.rows.shape[:, at_nodes].max())


def group_means(values: FloatArray, group: IntArray) -> FloatArray:
    """Return the mean of each row's group, shape (n,)."""
    return np.asarray((np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group])


def _over_distinct(
    kernel: Callable[[FloatArray, FloatArray], FloatArray], first: FloatArray, second: FloatArray
) -> FloatArray:
    """Evaluate a kernel between the distinct rows only: a cluster has few shapes and few jobs."""
    (one, at_one), (other, at_other) = (
        np.unique(rows, axis=0, return_inverse=True) for rows in (first, second)
    )
    return kernel(one, other)[np.ix_(at_one.reshape(-1), at_other.reshape(-1))]


def _equal(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> FloatArray:
    _, index = np.unique(np.concatenate([first, second]), return_inverse=True)
    return np.asarray(index[: len(first), None] == index[None, len(first) :], dtype=np.float64)


def _gauss(first: FloatArray, second: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * cdist(first, second, "sqeuclidean")))


def _matern(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the Matern covariance of smoothness 3/2 (Rasmussen and Williams 2006, equation 4.17)."""
    distance = np.sqrt(3.0 * cdist(first, second, "sqeuclidean"))
    return np.asarray((1.0 + distance) * np.exp(-distance))

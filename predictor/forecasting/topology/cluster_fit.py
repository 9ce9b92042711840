"""This module learns which shapes of placements run faster than others on one cluster.

It is Gaussian-process regression (C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
Learning", 2006, chapter 2) of log throughput on shape and job. The covariance is centred over the placements
that compete with each other, so that only their differences are learned; what they have in common is a free
intercept of the group. Far from all measurements the forecast is the mean of the prior, 0: no preference.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from predictor.forecasting.topology.rows import Rows

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
    shape = _matern(first.shape, second.shape, np.array(settings.shape_scales))
    alike = np.exp(-0.5 * _squared(first.job, second.job, np.array(settings.job_scales)))
    batch = _matern(first.log_batch[:, None], second.log_batch[:, None], np.array([settings.batch_scale]))
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


def fit_cluster(rows: Rows, log_throughput: FloatArray, settings: KernelSettings) -> ClusterFit:
    """Learn the effects of placements on one cluster; cubic in the number of rows."""
    factor = cho_factor(_with_noise(rows, settings), lower=True, overwrite_a=True, check_finite=False)
    solved = cho_solve(factor, log_throughput - log_throughput.mean(), check_finite=False)
    return ClusterFit(rows=rows, weights=_centred(solved[:, None], rows.group)[:, 0], settings=settings)


class LeaveOut:
    """Forecasts of rows by the model that never saw them nor the others of their block.

    With C the covariance of all rows and y their values, the solution without block B is
    C^-1 y - C^-1[:, B] (C^-1[B, B])^-1 (C^-1 y)[B] (Rasmussen and Williams 2006, section 5.4.2, for
    blocks), so that one inversion serves every way of splitting.
    """

    def __init__(self, rows: Rows, log_throughput: FloatArray, settings: KernelSettings) -> None:
        self._rows, self._settings = rows, settings
        self._values = log_throughput - log_throughput.mean()
        factor, _ = cho_factor(_with_noise(rows, settings), lower=True, check_finite=False)
        lower, _ = dpotri(factor, lower=1)
        self._inverse = np.tril(lower) + np.tril(lower, -1).T
        self._solved = self._inverse @ self._values

    def effects(self, block: npt.NDArray[np.generic]) -> FloatArray:
        """Return the effect of each row when all rows of its block are left out, shape (n,)."""
        found = np.empty(len(self._rows))
        for held in _blocks(block):
            within = np.linalg.solve(self._inverse[np.ix_(held, held)], self._solved[held])
            rest = self._solved - self._inverse[:, held] @ within
            rest[held] = 0.0
            intercept = np.bincount(self._rows.group, rest, minlength=self._rows.group.max() + 1)
            common = self._settings.intercept**2 * intercept[self._rows.group[held]]
            found[held] = self._values[held] - within - common
        return found


def group_means(values: FloatArray, group: IntArray) -> FloatArray:
    """Return the mean of each row's group, shape (n,)."""
    return np.asarray((np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group])


def _with_noise(rows: Rows, settings: KernelSettings) -> FloatArray:
    matrix = _centred(covariance(rows, rows, settings), rows.group)
    matrix = _centred(matrix.T, rows.group)
    matrix += settings.intercept**2 * _equal(rows.group, rows.group)
    matrix[np.diag_indices_from(matrix)] += settings.noise**2
    return matrix


def _centred(matrix: FloatArray, group: IntArray) -> FloatArray:
    """Subtract from each row the mean of the rows of its group."""
    count = np.bincount(group)
    mean = csr_matrix((1.0 / count[group], (group, np.arange(len(group)))))
    return np.asarray(matrix - (mean @ matrix)[group])


def _blocks(block: npt.NDArray[np.generic]) -> Iterator[IntArray]:
    _, index = np.unique(block, return_inverse=True)
    for at in range(index.max() + 1):
        yield np.flatnonzero(index == at)


def _equal(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> FloatArray:
    _, index = np.unique(np.concatenate([first, second]), return_inverse=True)
    return np.asarray(index[: len(first), None] == index[None, len(first) :], dtype=np.float64)


def _squared(first: FloatArray, second: FloatArray, scales: FloatArray) -> FloatArray:
    return np.asarray(cdist(first / scales, second / scales, "sqeuclidean"))


def _matern(first: FloatArray, second: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the Matern covariance of smoothness 3/2 (Rasmussen and Williams 2006, equation 4.17)."""
    distance = np.sqrt(3.0 * _squared(first, second, scales))
    return np.asarray((1.0 + distance) * np.exp(-distance))

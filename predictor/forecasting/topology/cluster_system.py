"""This module solves the equations of a cluster's Gaussian process, once for the fit and all rows left out.

With K the covariance of rows, C the projection that subtracts the mean of each group, Z the indicator of
groups, t the amplitude of the intercepts and s the noise, the matrix is M = C K C + t^2 Z Z' + s^2 I. Its
eigenspaces make it small, exactly: repeats of one shape in one group differ by noise alone, and the mean of a
group meets nothing but its intercept. What is left has one row per distinct pair of shape and group, less one
per group.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotri
from scipy.sparse import csr_matrix

from predictor.forecasting.topology.cluster_fit import ClusterFit, KernelSettings, covariance
from predictor.forecasting.topology.rows import Rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


class ClusterSystem:
    """The solved equations of n measured rows of one cluster; cubic in the pairs of shape and group.

    Leaving out block B of rows, with y the values, gives the solution M^-1 y - M^-1[:, B] (M^-1[B, B])^-1
    (M^-1 y)[B] (Rasmussen and Williams 2006, section 5.4.2, for blocks), so that one inversion serves every
    way of splitting.

    Attributes:
        rows: the measured rows.
    """

    def __init__(self, rows: Rows, log_throughput: FloatArray, settings: KernelSettings) -> None:
        self.rows, self._settings = rows, settings
        self._values = log_throughput - log_throughput.mean()
        _, shape = np.unique(rows.shape_name, return_inverse=True)
        _, first, self._cell, self._repeats = np.unique(
            rows.group * (shape.max() + 1) + shape, return_index=True, return_inverse=True, return_counts=True
        )
        self._group_size = np.bincount(rows.group)
        cells = rows.take(first)
        root = np.sqrt(self._repeats)
        basis = _contrasts(root, cells.group)
        matrix = covariance(cells, cells, settings)
        matrix *= root[:, None] * root[None, :]
        small = basis @ (basis @ matrix).T
        small[np.diag_indices_from(small)] += settings.noise**2
        # what M^-1 is between two cells, but for intercepts and noise
        self._between = basis.T @ (basis.T @ _inverse(small)).T
        self._between /= root[:, None] * root[None, :]

    def fit(self) -> ClusterFit:
        """Return the fit on all rows."""
        sums = np.bincount(self._cell, self._values)
        return ClusterFit(rows=self.rows, weights=(self._between @ sums)[self._cell], settings=self._settings)

    def effects_without(self, block: npt.NDArray[np.generic]) -> FloatArray:
        """Return the effect of each row as forecast without all rows of its block, shape (n,)."""
        group, cell = self.rows.group, self._cell
        noise = self._settings.noise**2
        # eigenvalues of M for the mean of each group
        level = self._settings.intercept**2 * self._group_size + noise
        mean = np.bincount(group, self._values) / self._group_size
        sums = np.bincount(cell, self._values)
        of_cell = self._values - (sums / self._repeats)[cell]
        solved = (self._between @ sums)[cell] + (mean / level)[group] + of_cell / noise
        found = np.empty(len(group))
        for held in _blocks(block):
            inside = self._between[np.ix_(cell[held], cell[held])]
            inside += _equal(group[held]) / (self._group_size * level)[group[held]]
            inside -= _equal(cell[held]) / (noise * self._repeats[cell[held]])
            inside[np.diag_indices_from(inside)] += 1.0 / noise
            within = np.linalg.solve(inside, solved[held])
            left = mean * self._group_size - np.bincount(group[held], within, minlength=len(level))
            common = self._settings.intercept**2 * left / level
            found[held] = self._values[held] - within - common[group[held]]
        return found


def _contrasts(weight: FloatArray, group: IntArray) -> csr_matrix:
    """Return an orthonormal basis, shape (c - g, c), of what is orthogonal to the weights in each group."""
    rows, columns, values, count = [], [], [], 0
    order = np.argsort(group, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        # reflects the weights onto the first axis; the other axes are the basis (A. S. Householder 1958)
        direction = weight[members] / np.linalg.norm(weight[members])
        direction[0] += 1.0
        reflection = np.eye(len(members)) - np.outer(direction, direction) / direction[0]
        at, to = np.meshgrid(np.arange(len(members) - 1), members, indexing="ij")
        rows.append(at.ravel() + count)
        columns.append(to.ravel())
        values.append(reflection[1:].ravel())
        count += len(members) - 1
    joined = (np.concatenate(rows), np.concatenate(columns))
    return csr_matrix((np.concatenate(values), joined), shape=(count, len(group)))


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a positive definite matrix, which is overwritten."""
    if not len(matrix):
        return matrix
    factor, _ = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def _equal(index: IntArray) -> npt.NDArray[np.bool_]:
    return np.asarray(index[:, None] == index[None, :])


def _blocks(block: npt.NDArray[np.generic]) -> Iterator[IntArray]:
    _, index = np.unique(block, return_inverse=True)
    for at in range(index.max() + 1):
        yield np.flatnonzero(index == at)

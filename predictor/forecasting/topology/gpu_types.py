"""This module learns how fast a job runs on each GPU type, relative to the other types.

Log throughput of a job on a type, over the mean of the types it ran on, is a Gaussian process with an effect
of the type, of the type on the program, and of the type on the program at like batch size and scale. A
program never seen gets the mean of its type over all programs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from predictor.contracts.topology import TypeRuns
from predictor.errors import EmptyInputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSettings:
    """Amplitudes in natural log: of the type, of the type on a program, and on its configuration."""

    type_effect: float = 1.0
    program: float = 0.3
    config: float = 1.0
    config_scale: float = 1.2
    intercept: float = 5.0
    noise: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSpeeds:
    """What was learned of GPU types.

    Attributes:
        runs: the measured runs.
        weights: shape (n,), of each run in a forecast.
    """

    runs: TypeRuns
    weights: FloatArray
    settings: TypeSettings

    @classmethod
    def fit(cls, runs: TypeRuns, settings: TypeSettings | None = None) -> "TypeSpeeds":
        """Learn from measured runs; cubic in their number.

        Raises:
            EmptyInputError: there are none.
        """
        if not len(runs):
            raise EmptyInputError("no runs to learn the speed of GPU types from")
        given = settings or TypeSettings()
        values = np.log(runs.throughput)
        matrix = _covariance(runs, runs, given)
        matrix += given.intercept**2 * (config_groups(runs)[:, None] == config_groups(runs)[None, :])
        matrix[np.diag_indices_from(matrix)] += given.noise**2
        weights = cho_solve(cho_factor(matrix, lower=True), values - values.mean())
        return cls(runs=runs, weights=np.asarray(weights), settings=given)

    @property
    def known(self) -> frozenset[str]:
        """The GPU types that were measured."""
        return frozenset(self.runs.gpu_types)

    def log_speeds(
        self, signatures: Sequence[str], gpu_types: Sequence[str], config: FloatArray
    ) -> FloatArray:
        """Return the log throughput of jobs on types; only differences of one job between types count.

        Args:
            config: shape (n, c), as of the runs.
        """
        asked = TypeRuns(
            signatures=tuple(signatures), gpu_types=tuple(gpu_types), config=config,
            throughput=np.ones(len(signatures)),
        )  # fmt: skip
        return np.asarray(_covariance(asked, self.runs, self.settings) @ self.weights)


def config_groups(runs: TypeRuns) -> IntArray:
    """Return the group of each run: one program in one configuration."""
    known: dict[tuple[object, ...], int] = {}
    keys = zip(runs.signatures, map(tuple, runs.config.tolist()), strict=True)
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)


def _covariance(first: TypeRuns, second: TypeRuns, settings: TypeSettings) -> FloatArray:
    kind = _equal(first.gpu_types, second.gpu_types)
    program = _equal(first.signatures, second.signatures)
    near = np.exp(-0.5 * cdist(first.config, second.config, "sqeuclidean") / settings.config_scale**2)
    inner = settings.program**2 + settings.config**2 * near
    return np.asarray(kind * (settings.type_effect**2 + program * inner))


def _equal(first: Sequence[str], second: Sequence[str]) -> FloatArray:
    return np.asarray(np.array(first)[:, None] == np.array(second)[None, :], dtype=np.float64)

"""This module learns how fast a job runs on each GPU type, relative to the other types.

Log throughput of a job on a type is a Gaussian process (C. E. Rasmussen, C. K. I. Williams, "Gaussian
Processes for Machine Learning", 2006, chapter 2) with an effect of the type, of the type on the program, and
of the type on the program at like batch size and number of GPUs; being spread over nodes has such effects
of its own. A program never seen gets the mean of its type over all programs.
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
    """Amplitudes in natural log, and length scales; the values are of largest likelihood, rounded.

    Attributes:
        type_effect, program, config: of the type, of the type on a program, and on its configuration.
        place, place_type, place_program, place_config: the same of a place such as "spread", for all types,
            for one type, for a program, and for a configuration on one type.
        batch_scale, gpus_scale: length scales of the natural log of batch size and of the number of GPUs.
        intercept: of what all types have in common for one configuration.
        noise: deviation of one measured run.
    """

    type_effect: float = 0.6
    program: float = 0.4
    config: float = 0.5
    place: float = 0.3
    place_type: float = 0.45
    place_program: float = 0.25
    place_config: float = 0.4
    batch_scale: float = 2.5
    gpus_scale: float = 0.75
    intercept: float = 5.0
    noise: float = 0.05


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
            config: shape (n, 2), as of the runs.
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
    program = _equal(first.signatures, second.signatures)
    cards, places = zip(*map(_card_and_place, (first, second)), strict=True)
    card = _equal(*cards)
    # nobody is elsewhere in an empty place
    place = _equal(*places) * (np.array(places[0]) != "")[:, None]
    log_batch, log_gpus = (
        [runs.config[:, at, None] / scale for runs in (first, second)]
        for at, scale in enumerate((settings.batch_scale, settings.gpus_scale))
    )
    distance = np.sqrt(3.0) * cdist(*log_batch)
    near = (1.0 + distance) * np.exp(-distance - 0.5 * cdist(*log_gpus, "sqeuclidean"))
    of_type = card * (settings.type_effect**2 + program * (settings.program**2 + settings.config**2 * near))
    of_place = settings.place**2 + card * settings.place_type**2
    of_place += program * (settings.place_program**2 + card * settings.place_config**2 * near)
    return np.asarray(of_type + place * of_place)


def _card_and_place(runs: TypeRuns) -> tuple[list[str], list[str]]:
    """Return the card and the place of each run; one GPU is in no place of note."""
    parts = [kind.partition("/") for kind in runs.gpu_types]
    alone = (runs.config[:, 1] <= 0.0).tolist()
    return (
        [card for card, _, _ in parts],
        ["" if single else place for (_, _, place), single in zip(parts, alone, strict=True)],
    )


def _equal(first: Sequence[str], second: Sequence[str]) -> FloatArray:
    return np.asarray(np.array(first)[:, None] == np.array(second)[None, :], dtype=np.float64)

"""This module keeps what outcomes say about calibration: faded weights of where durations fell."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.forecasting.pit_levels import PIT_BINS

FloatArray = npt.NDArray[np.float64]
EVIDENCE_ARRAYS = (
    "ended", "spread", "censored", "submitters", "own_ended", "own_censored", "own_total", "own_squares"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PitReadings:
    """Where n jobs fell in their forecasts, or how far they have come, all of shape (n,).

    Attributes:
        below: forecast probability strictly below the duration: the least raw level whose quantile covers
            it, also where the forecast has atoms or ends at the limit.
        upto: forecast probability up to and with the duration.
        observed: False where the duration is only known to be longer.
        length_log_s: raw forecast median, log seconds.
        identity: submitters.
        submitted_s, start_s: UTC epoch seconds.
    """

    below: FloatArray
    upto: FloatArray
    observed: npt.NDArray[np.bool_]
    length_log_s: FloatArray
    identity: npt.NDArray[np.object_]
    submitted_s: FloatArray
    start_s: FloatArray


@dataclass(slots=True)
class Evidence:
    """Faded weights of outcomes, as of ``epoch_s``; the first group is of all jobs, the others by length.

    Attributes:
        ended: shape (groups, B), by ``below``; what bounds are read from.
        spread: shape (groups, B), each outcome spread over its atom; what the middle is read from, where
            counting an atom at its lower end would pull the median down.
        censored: shape (groups, B).
        submitters: shape (groups, S), weight of each submitter.
        own_ended, own_censored: shape (S, B), by the PIT that is left after the correction of its group.
        own_total, own_squares: shape (S,), sums over the bursts of a submitter.
        bursts: weight by (submitter, burst).
    """

    ended: FloatArray
    spread: FloatArray
    censored: FloatArray
    submitters: FloatArray
    own_ended: FloatArray
    own_censored: FloatArray
    own_total: FloatArray
    own_squares: FloatArray
    bursts: dict[tuple[int, int], float]

    @classmethod
    def empty(cls, groups: int) -> "Evidence":
        """Return no evidence."""
        return cls(
            ended=np.zeros((groups, PIT_BINS)), spread=np.zeros((groups, PIT_BINS)),
            censored=np.zeros((groups, PIT_BINS)), submitters=np.zeros((groups, 0)),
            own_ended=np.zeros((0, PIT_BINS)), own_censored=np.zeros((0, PIT_BINS)),
            own_total=np.zeros(0), own_squares=np.zeros(0), bursts={},
        )  # fmt: skip

    def copy(self) -> "Evidence":
        """Return a copy that can be added to."""
        return Evidence(
            **{name: getattr(self, name).copy() for name in EVIDENCE_ARRAYS}, bursts=self.bursts.copy()
        )

    def scale(self, by: float) -> None:
        """Multiply all weights."""
        for name in EVIDENCE_ARRAYS:
            values = getattr(self, name)
            values *= by
        self.own_squares *= by
        self.bursts = {key: value * by for key, value in self.bursts.items() if value * by > 1e-9}

    def widen(self, submitters: int) -> None:
        """Make room for so many submitters."""
        more = submitters - len(self.own_total)
        if more > 0:
            room = max(more, len(self.own_total))
            self.submitters = np.pad(self.submitters, ((0, 0), (0, room)))
            self.own_ended = np.pad(self.own_ended, ((0, room), (0, 0)))
            self.own_censored = np.pad(self.own_censored, ((0, room), (0, 0)))
            self.own_total = np.pad(self.own_total, (0, room))
            self.own_squares = np.pad(self.own_squares, (0, room))

"""This module bounds peaks from above with a chosen risk: conformal by group, one calibration per stratum.

A score is the error in ln over the expected size of errors there. Scores come from rows whose whole group
(signature or family) was kept out of training, so they are those of strangers; groups, not rows, count as
evidence.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import Stratum
from predictor.errors import ArgumentError

FloatArray = npt.NDArray[np.float64]

SLACK_LOG = float(np.log(1.79))  # 95 % of device readings are within it above what tensors need
_MANY_GROUPS = 60
_LEAST_BEYOND = 1.0  # groups that ought to lie beyond a quantile before it can be told
_DRAWS = 50
_BEYOND = 20.0  # an asked risk of -1 % lies a fifth of the range of scores beyond the largest
_LEAST_ASKED = -0.5
_NEXT = {Stratum.SEEN_SIGNATURE: Stratum.SEEN_FAMILY, Stratum.SEEN_FAMILY: Stratum.NEW}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScores:
    """Scores of one stratum.

    Attributes:
        scores: shape (n,), ascending.
        drawn: shape (G,), one score of each group, ascending, the median over draws.
        group_tops: shape (G,), the largest score of each group, ascending.
    """

    scores: FloatArray
    drawn: FloatArray
    group_tops: FloatArray

    @classmethod
    def none(cls) -> "GroupScores":
        """Return a stratum of which nothing is known."""
        return cls(scores=np.empty(0), drawn=np.empty(0), group_tops=np.empty(0))

    @classmethod
    def of(cls, scores: FloatArray, groups: Sequence[str]) -> "GroupScores":
        """Sort scores, and take the largest of each group.

        Args:
            scores: shape (n,), each from a fit without its group.
            groups: n names.
        """
        if not len(scores):
            return cls.none()
        _, at, counts = np.unique(np.array(groups, dtype=str), return_inverse=True, return_counts=True)
        together = scores[np.argsort(at, kind="stable")]
        first = np.cumsum(counts) - counts
        picked = first + (np.random.default_rng(0).random((_DRAWS, len(counts))) * counts).astype(np.intp)
        tops = np.sort(np.maximum.reduceat(together, first))
        drawn = np.median(np.sort(together[picked], axis=1), axis=0)
        return cls(scores=np.sort(scores), drawn=drawn, group_tops=tops)

    @property
    def support(self) -> int:
        """How many groups there are."""
        return len(self.group_tops)

    def is_few(self, risk: float) -> bool:
        """Whether there are too few groups to tell the quantile of this risk."""
        return (self.support + 1) * risk < _LEAST_BEYOND

    def quantile(self, risk: float) -> float:
        """Return the score that a row of a new group exceeds with probability ``risk``.

        One score is drawn from each group: those are exchangeable with one of the new group, so that it lies
        above the k-th of G with probability 1 - k / (G + 1). The k-th is that of the median draw, and between
        the k-th and the next it runs linearly in ln(risk), as in an exponential tail: a mean of draws, and
        lines in the risk, lie too high where few scores are far out. With too few groups for the risk it
        is the largest score.

        References:
            Dunn, Wasserman, Ramdas, "Distribution-free prediction sets for two-layer hierarchical models",
            2023; Vovk, "Cross-conformal predictors", 2015.
        """
        if not self.support:
            return 0.0
        if risk <= 0.0:  # the online calibration has used up what it knows: beyond every score
            top, middle = float(self.group_tops[-1]), float(np.median(self.scores))
            return top - _BEYOND * risk * max(top - middle, abs(top), 1.0)
        if self.is_few(risk):
            return max(float(self.group_tops[-1]), 0.0)
        risks = 1.0 - np.arange(1, self.support + 1) / (self.support + 1)
        return float(np.interp(-np.log(risk), -np.log(risks), self.drawn))

    def exceedance(self, score: FloatArray) -> FloatArray:
        """Return the chance that a score lies above, shape (n,), never quite 0 nor 1.

        Beyond the largest score the chance falls off as that of an exponential tail.
        """
        count = len(self.scores)
        if not count:
            return np.full(len(score), 0.5)
        above = count - np.searchsorted(self.scores, score, side="right")
        chance = (above + 0.5) / (count + 1.0)
        scale = max(float(np.quantile(self.scores, 0.98) - np.quantile(self.scores, 0.9)), 1e-3) / 1.6
        beyond = np.maximum(score - self.scores[-1], 0.0)
        return np.asarray(np.clip(chance * np.exp(-beyond / scale), 1e-6, 1.0 - 1e-6))


@dataclass(slots=True, kw_only=True)
class AdaptiveRisk:
    """The risk that the calibration is asked for, so that the risk that comes out is the chosen one.

    After each run the asked risk moves by ``gamma`` (target - 1[exceeded]): an out-of-memory lowers it by
    almost ``gamma``, each run that held raises it by ``gamma`` times the target.

    Attributes:
        target: chosen risk.
        asked: risk that the scores are asked for now; below 0 the bound lies beyond every score.

    References:
        Gibbs, Candes, "Adaptive Conformal Inference Under Distribution Shift", 2021.
    """

    target: float
    gamma: float = 0.01
    asked: float = field(default=float("nan"))

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            raise ArgumentError(f"risk={self.target} is no probability; pass a value between 0 and 1")
        if np.isnan(self.asked):
            self.asked = self.target

    def update(self, *, exceeded: bool) -> None:
        """Learn from one run whether its peak was above the bound."""
        moved = self.asked + self.gamma * (self.target - float(exceeded))
        self.asked = float(np.clip(moved, _LEAST_ASKED, 1.0 - self.target))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBound:
    """Calibrations of all strata.

    Attributes:
        strata: scores by stratum; a stratum without groups borrows from the next stranger one.
        guess_share: part of what was guessed that the training rows with guesses needed.
    """

    strata: Mapping[Stratum, GroupScores]
    guess_share: float = 1.0

    def scores(self, stratum: Stratum) -> GroupScores:
        """Return the scores to use for a stratum."""
        while True:
            found = self.strata.get(stratum)
            if found is not None and found.support:
                return found
            if stratum not in _NEXT:
                return found or GroupScores.none()
            stratum = _NEXT[stratum]

    def upper_log(
        self, stratum: Stratum, *, log_mib: float, unit: float, risk: float, guess_log: float = 0.0
    ) -> float:
        """Return ln MiB of the upper bound, never below the forecast itself.

        Args:
            log_mib: forecast.
            unit: expected size of its error, in units of the scores.
            risk: chance that the peak lies above.
            guess_log: of the request times ``guess_share``, see :func:`scores_of`.
        """
        scores = self.scores(stratum)
        margin = scores.quantile(risk) * unit
        if scores.is_few(risk):
            margin = max(margin, SLACK_LOG)
        return log_mib + math.hypot(max(margin, 0.0), guess_log)


def needed_share(error: FloatArray, guess_log: FloatArray, groups: Sequence[str]) -> float:
    """Return the part of guesses within which 95 % of the errors of rows with guesses lie, at most 1.

    It is 1 where rows with guesses are of too few groups to tell: what nobody measured counts in full.

    Args:
        error: ln of observed over forecast, by fits without the group.
    """
    guessed = np.flatnonzero(guess_log > 0.0)
    if len({groups[at] for at in guessed.tolist()}) < _MANY_GROUPS:
        return 1.0
    return float(np.clip(np.quantile(error[guessed] / guess_log[guessed], 0.95), 0.0, 1.0))


def scores_of(error: FloatArray, unit: FloatArray | float, guess_log: FloatArray | float) -> FloatArray:
    """Return the scores of errors, shape (n,): what guesses do not account for, in units.

    It is the inverse of the margin hypot(score unit, guess), so that an error is within the margin exactly
    where its score is within the quantile, however much was guessed.

    Args:
        error: ln of observed over forecast.
        unit: expected size of errors.
        guess_log: of the requests, as far as it counts.
    """
    beyond = np.sqrt(np.maximum(np.square(error) - np.square(guess_log), 0.0))
    return np.asarray(np.where(error > 0.0, beyond, error) / unit)

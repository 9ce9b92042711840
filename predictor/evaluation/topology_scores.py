"""This module scores choices among placements: what a choice costs, how well ratios were forecast."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau

from predictor.forecasting.topology.cluster_fit import group_means

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
_TIE = 1e-9  # natural log; scores nearer than that are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What a model says of n candidates.

    Attributes:
        score: shape (n,), higher is better, compared inside a group only.
        log_relative: shape (n,), forecast log of throughput over the best of the group.
    """

    score: FloatArray
    log_relative: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScores:
    """Scores over groups of candidates.

    Attributes:
        regret: mean of 1 - relative throughput of the choice; a tie costs the mean of the tied.
        regret_p95: 95 % quantile of the regret over groups.
        rel_mape: mean relative error of the forecast relative throughput, over candidates.
        kendall_tau: mean rank correlation over groups; a model without preference has 0.
    """

    regret: float
    regret_p95: float
    rel_mape: float
    kendall_tau: float

    @classmethod
    def mean(cls, scores: "list[ChoiceScores]") -> "ChoiceScores":
        """Return the mean of repeated measurements."""
        names = ("regret", "regret_p95", "rel_mape", "kendall_tau")
        return cls(**{name: float(np.mean([getattr(one, name) for one in scores])) for name in names})

    def to_json(self) -> Mapping[str, float]:
        """Return the scores by name."""
        return {
            "regret": self.regret, "regret_p95": self.regret_p95,
            "rel_mape": self.rel_mape, "kendall_tau": self.kendall_tau,
        }  # fmt: skip


def log_relative_throughput(log_throughput: FloatArray, group: IntArray) -> FloatArray:
    """Return the log of throughput over the best of its group, shape (n,), at most 0."""
    top = np.full(group.max() + 1, -np.inf)
    np.maximum.at(top, group, log_throughput)
    return np.asarray(log_throughput - top[group])


def regrets(score: FloatArray, actual: FloatArray, group: IntArray) -> FloatArray:
    """Return the regret of the choice in each group, ascending by group.

    Args:
        score: shape (n,), higher is better.
        actual: shape (n,), log of relative throughput, best 0.
        group: shape (n,), 0 ... g - 1.
    """
    chosen = log_relative_throughput(score, group) >= -_TIE
    return np.asarray(1.0 - np.bincount(group[chosen], np.exp(actual[chosen])) / np.bincount(group[chosen]))


def score_choices(guess: Guess, actual: FloatArray, group: IntArray) -> ChoiceScores:
    """Score one model; see :func:`regrets` for the arguments."""
    cost = regrets(guess.score, actual, group)
    error = np.abs(np.exp(guess.log_relative - actual) - 1.0)
    taus = [_tau(guess.score[rows], actual[rows]) for rows in _members(group)]
    return ChoiceScores(
        regret=float(cost.mean()), regret_p95=float(np.quantile(cost, 0.95)),
        rel_mape=float(error.mean()), kendall_tau=float(np.mean(taus)),
    )  # fmt: skip


def regret_by(
    score: FloatArray, actual: FloatArray, group: IntArray, names: npt.NDArray[np.str_]
) -> Mapping[str, float]:
    """Return the mean regret by a name that is the same in all of a group, such as its cluster."""
    cost = regrets(score, actual, group)
    _, first = np.unique(group, return_index=True)
    of_group = names[first]
    return {str(name): float(cost[of_group == name].mean()) for name in np.unique(of_group)}


def no_preference(group: IntArray) -> Guess:
    """Return the guess that all candidates are alike, whose regret is that of a random choice."""
    zeros = np.zeros(len(group))
    return Guess(score=zeros, log_relative=zeros)


def centred(values: FloatArray, group: IntArray) -> FloatArray:
    """Return values over the mean of their group."""
    return values - group_means(values, group)


def _tau(score: FloatArray, actual: FloatArray) -> float:
    if np.ptp(score) <= _TIE or np.ptp(actual) <= 0.0:
        return 0.0
    return float(kendalltau(score, actual).statistic)


def _members(group: IntArray) -> list[IntArray]:
    order = np.argsort(group, kind="stable")
    return list(np.split(order, np.flatnonzero(np.diff(group[order])) + 1))

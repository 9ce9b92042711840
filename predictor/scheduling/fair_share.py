"""This module pulls teams that have used much behind those that have used little, by time-decayed usage.

Usage halves every ``half_life_s`` (as in the multifactor priority of Slurm). On each level of the tree of
teams, a team's part of its siblings' usage is set against its part of their weights; the size of its jobs
is multiplied by (used part / due part)^strength, over all levels, within ``most``.
"""

from dataclasses import dataclass

import numpy as np

from predictor.scheduling.store import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamWeight:
    """What is due to a team among its siblings, 1 = as much as each other."""

    team: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShare:
    """How usage of the past weighs.

    Attributes:
        strength: 0 = not at all.
        half_life_s: so long ago, usage counts half.
        most: the factor stays between 1 / most and most.
        refresh_s: factors are worked out anew no more often.
        weights: what is due to teams among their siblings, 1 where nothing is said.
    """

    strength: float = 0.25
    half_life_s: float = 7 * 86400.0
    most: float = 4.0
    refresh_s: float = 60.0
    weights: tuple[TeamWeight, ...] = ()

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = []
        if self.strength < 0:
            faults.append(f"fair_share.strength={self.strength} must be 0 or more")
        if not self.half_life_s > 0:
            faults.append(f"fair_share.half_life_s={self.half_life_s} must be above 0")
        if not self.most >= 1:
            faults.append(f"fair_share.most={self.most} must be 1 or more")
        faults += [
            f"fair_share: weight of {each.team!r} must be above 0, it is {each.weight}"
            for each in self.weights
            if not each.weight > 0
        ]
        return faults


def decayed_usage(usage: FloatArray, held: FloatArray, passed_s: float, half_life_s: float) -> FloatArray:
    """Return usage in unit-seconds after so much time in which ``held`` units were used throughout."""
    rate = np.log(2.0) / half_life_s
    kept = np.exp(-rate * passed_s)
    return np.asarray(usage * kept + held * (1.0 - kept) / rate)


def share_factors(usage: FloatArray, parents: IntArray, weights: FloatArray, rule: FairShare) -> FloatArray:
    """Return the factor on the size of each team's jobs, shape (teams,); a parent precedes its children.

    Args:
        usage: decayed usage of each team, that of its children included.
    """
    factors = np.ones(len(usage))
    inner = parents >= 0
    above = parents[inner]
    siblings_weight = np.zeros(len(usage))
    siblings_usage = np.zeros(len(usage))
    np.add.at(siblings_weight, above, weights[inner])
    np.add.at(siblings_usage, above, usage[inner])
    smallest = 1.0 / rule.most
    for team in np.flatnonzero(inner):
        parent = parents[team]
        due = weights[team] / siblings_weight[parent]
        total = siblings_usage[parent]
        used = usage[team] / total if total > 0 else due
        own = max(used / due, 1e-3) ** rule.strength
        factors[team] = factors[parent] * own
    return np.asarray(np.clip(factors, smallest, rule.most))

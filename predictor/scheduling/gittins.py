"""This module ranks jobs by the Gittins index of their forecast, for pools where interruptions are cheap.

The index of a job of age a is the best chance of completion for the time invested:
``sup_d P(S - a <= d | S > a) / E[min(S - a, d) | S > a]`` (Gittins, Bandit processes and dynamic allocation
indices, 1979; for scheduling: Aalto, Ayesta, Righter, On the Gittins index in the M/G/1 queue, 2009). The
rank is its inverse, in seconds: smaller first. A job that is either short or very long is tried early, and
gives way once it has outlived its short part.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling.remaining import remaining_s
from predictor.scheduling.store import FloatArray

_STEPS = 20  # the supremum is taken over so many quantiles of the remaining time


@compiled
def gittins_rank_s(logs: FloatArray, limit_s: float, age_s: float) -> float:
    """Return the seconds that one completion is expected to cost at best, from this age on."""
    best = 0.0
    spent_s = 0.0  # integral of the survival function up to the quantile
    before_s = 0.0
    for k in range(1, _STEPS + 1):
        chance = k / (_STEPS + 1.0)
        quantile_s = remaining_s(logs, limit_s, age_s, chance)
        # between two quantiles survival falls by 1 / (steps + 1): its mean stands for the interval
        spent_s += (quantile_s - before_s) * (1.0 - chance + 0.5 / (_STEPS + 1.0))
        before_s = quantile_s
        best = max(best, chance / max(spent_s, 1.0))
    return 1.0 / best


@compiled
def gittins_ranks_s(logs: FloatArray, limits_s: FloatArray, ages_s: FloatArray) -> FloatArray:
    """Return the rank of each job, shape (n,)."""
    ranks = np.empty(len(ages_s))
    for k in range(len(ages_s)):
        ranks[k] = gittins_rank_s(logs[k], limits_s[k], ages_s[k])
    return ranks

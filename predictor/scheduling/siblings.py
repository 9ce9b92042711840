"""This module renews the forecasts of jobs from what their siblings have turned out to be since.

Siblings are jobs of one user and team with the same width and limit, in order of submission: mostly one
sweep. A forecast is made at submission, when none of a sweep that was sent together has ended; what it gets
wrong for one it gets wrong for all. Errors are measured as normal scores: the score of an outcome is z if its
duration lies at probability Phi(z) of its own forecast. The scores of siblings are taken as a shared part
plus a part of their own (one-factor Gaussian copula, O. Vasicek, The distribution of loan portfolio value,
2002; D. Li, On default correlation: a copula function approach, 2000). On seven public logs neighbouring
siblings that overlap in time correlate by 0.57 to 0.94.

What has ended tells the shared part with noise that grows with the distance in the order of submission; what
still runs tells that it exceeds its age: a truncated normal, taken in by moments (assumed density filtering;
T. Minka, Expectation propagation for approximate Bayesian inference, 2001). The renewed forecast is the
given one read at shifted and narrowed scores, each time made from the forecast as given.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from predictor.contracts.events import JobSubmitted
from predictor.contracts.forecast import LEVELS
from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling import parameters as p
from predictor.scheduling.checks import above, at_most, least
from predictor.scheduling.expected import assess, work_done_s
from predictor.scheduling.store import FloatArray, IntArray, JobStore

_SCORES = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
_LAST = len(LEVELS) - 1
_MOST_SCORE = 3.0
_FARTHEST = 10_000  # all siblings within reach are looked at each time
_TELLING_SCORE = -0.5  # an age below the 31 % quantile of the forecast tells next to nothing
_LOOK_GROWTH, _LOOK_LEAST_S = 0.3, 60.0
_SQRT_2, _SQRT_2_PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Siblings:
    """How much siblings tell of each other.

    Attributes:
        correlation: part of the variance of normal scores that siblings share; 0 = forecasts stay as given.
        reach: siblings further apart in the order of submission tell nothing.
        fading: so many places apart a sibling tells 1/e of what its neighbour tells.
        belief: how many siblings the stated correlation is worth beside the scatter of those that ended.
    """

    correlation: float = 0.65
    reach: int = 16
    fading: float = 8.0
    belief: float = 2.0

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            least("siblings.correlation", self.correlation, 0.0),
            at_most("siblings.correlation", self.correlation, 0.95),
            least("siblings.reach", self.reach, 1),
            at_most("siblings.reach", self.reach, _FARTHEST),
            above("siblings.fading", self.fading),
            above("siblings.belief", self.belief),
        ]
        return [fault for fault in faults if fault]


def sibling_key(job: JobSubmitted) -> tuple[str, str, int, float]:
    """Return what siblings have in common."""
    return job.user, job.team, job.width, job.limit_s


def join_siblings(store: JobStore, slot: int, job: JobSubmitted) -> None:
    """Put a new job behind its last sibling that waits or runs."""
    key = sibling_key(job)
    elder = store.last_sibling.get(key, -1)
    if elder >= 0:
        store.ints[c.ELDER, slot] = elder
        store.ints[c.YOUNGER, elder] = slot
        store.ints[c.BIRTH, slot] = store.ints[c.BIRTH, elder] + 1
    store.last_sibling[key] = slot


def leave_siblings(store: JobStore, slot: int, job: JobSubmitted) -> None:
    """Take a job that neither waits nor runs out of the row of its siblings."""
    elder, younger = int(store.ints[c.ELDER, slot]), int(store.ints[c.YOUNGER, slot])
    if elder >= 0:
        store.ints[c.YOUNGER, elder] = younger
    if younger >= 0:
        store.ints[c.ELDER, younger] = elder
        return
    key = sibling_key(job)
    if elder >= 0:
        store.last_sibling[key] = elder
    else:
        del store.last_sibling[key]


@compiled
def score_of(given: FloatArray, limit_s: float, duration_s: float) -> float:
    """Return the normal score of a duration within a forecast (log quantiles as given)."""
    if duration_s >= limit_s:  # it would have gone on: the middle between its limit and the end of the scale
        return 0.5 * (score_of(given, np.inf, limit_s * (1.0 - 1e-9)) + _MOST_SCORE)
    x = np.log(max(duration_s, 1.0))
    low = int(np.searchsorted(given, x, side="left"))
    high = int(np.searchsorted(given, x, side="right"))
    if high > low:  # a mass at this very duration
        top = _MOST_SCORE if high > _LAST else _SCORES[high - 1]
        bottom = -_MOST_SCORE if low == 0 else _SCORES[low]
        return float(0.5 * (bottom + top))
    at = min(max(low, 1), _LAST)
    step = given[at] - given[at - 1]
    if step <= 0.0:
        return _MOST_SCORE if low > _LAST else -_MOST_SCORE
    score = _SCORES[at - 1] + (x - given[at - 1]) / step * (_SCORES[at] - _SCORES[at - 1])
    return float(min(max(score, -_MOST_SCORE), _MOST_SCORE))


@compiled
def renew(
    floats: FloatArray,
    ints: IntArray,
    given: FloatArray,
    logs: FloatArray,
    slot: int,
    now_s: float,
    parameters: FloatArray,
) -> None:
    """Set the forecast of a job from the one given and what its siblings tell by now."""
    shared = parameters[p.SIBLING_CORRELATION]
    weight = floats[c.TOLD_WEIGHT, slot]
    told = weight > 0.0
    own = 1.0 - shared
    if told:  # siblings that are much alike tell more
        total = floats[c.TOLD_SCORE, slot]
        scatter = max(floats[c.TOLD_SQUARE, slot] - total * total / weight, 0.0)
        own = (parameters[p.SIBLING_BELIEF] * own + scatter) / (parameters[p.SIBLING_BELIEF] + weight)
    variance = shared * own / (own + shared * weight)
    middle = variance * floats[c.TOLD_SCORE, slot] / own
    for other in _near(ints, slot, parameters):
        if ints[c.STATE, other] != c.RUNNING:
            continue
        age_s = work_done_s(floats, ints, other, now_s)
        least = score_of(given[other], floats[c.LIMIT, other], age_s)
        if least <= _TELLING_SCORE:
            continue
        told = True
        apart = abs(ints[c.BIRTH, other] - ints[c.BIRTH, slot])
        noise = own * np.exp(apart / parameters[p.SIBLING_FADING])
        spread = np.sqrt(variance + noise)
        a = (least - middle) / spread
        beyond = 0.5 * math.erfc(a / _SQRT_2)
        hazard = a + 1.0 / a if beyond < 1e-9 else np.exp(-0.5 * a * a) / _SQRT_2_PI / beyond
        gain = variance / spread
        middle += gain * hazard
        variance -= gain * gain * hazard * (hazard - a)
    if not told:
        logs[slot] = given[slot]
        return
    spread = np.sqrt(variance + own)
    at = 1
    for k in range(_LAST + 1):
        score = middle + spread * _SCORES[k]
        while at < _LAST and _SCORES[at] < score:
            at += 1
        share = (score - _SCORES[at - 1]) / (_SCORES[at] - _SCORES[at - 1])
        log = given[slot, at - 1] + share * (given[slot, at] - given[slot, at - 1])
        logs[slot, k] = max(log, 0.0)


@compiled
def tell_siblings(
    floats: FloatArray,
    ints: IntArray,
    given: FloatArray,
    logs: FloatArray,
    slot: int,
    now_s: float,
    parameters: FloatArray,
) -> None:
    """Renew the forecasts of the siblings of a running job that ends now, and count its slot as free."""
    near = _near(ints, slot, parameters)
    if not len(near):
        return
    score = score_of(given[slot], floats[c.LIMIT, slot], work_done_s(floats, ints, slot, now_s))
    for other in near:
        apart = abs(ints[c.BIRTH, other] - ints[c.BIRTH, slot])
        weight = np.exp(-apart / parameters[p.SIBLING_FADING])
        floats[c.TOLD_WEIGHT, other] += weight
        floats[c.TOLD_SCORE, other] += weight * score
        floats[c.TOLD_SQUARE, other] += weight * score * score
    ints[c.STATE, slot] = c.FREE_SLOT  # its age has become its outcome
    _renew_all(floats, ints, given, logs, near, now_s, parameters)


@compiled
def look_at_running(
    floats: FloatArray,
    ints: IntArray,
    given: FloatArray,
    logs: FloatArray,
    running: IntArray,
    n_running: int,
    now_s: float,
    parameters: FloatArray,
) -> None:
    """Renew the forecasts of jobs whose siblings run on, each time these have run for three tenths more."""
    for k in range(n_running):
        slot = running[k]
        if now_s < floats[c.LOOK_AT, slot] or ints[c.STATE, slot] != c.RUNNING:
            continue
        if ints[c.ELDER, slot] < 0 and ints[c.YOUNGER, slot] < 0:
            continue
        age_s = work_done_s(floats, ints, slot, now_s)
        floats[c.LOOK_AT, slot] = now_s + max(_LOOK_GROWTH * age_s, _LOOK_LEAST_S)
        if score_of(given[slot], floats[c.LIMIT, slot], age_s) > _TELLING_SCORE:
            _renew_all(floats, ints, given, logs, _near(ints, slot, parameters), now_s, parameters)


@compiled
def _near(ints: IntArray, slot: int, parameters: FloatArray) -> IntArray:
    """Return the slots of the siblings within reach: the elder ones, then the younger, the nearest first."""
    reach = int(parameters[p.SIBLING_REACH])
    found = np.empty(2 * reach, np.int64)
    count = 0
    for row in (c.ELDER, c.YOUNGER):
        other = ints[row, slot]
        while other >= 0 and abs(ints[c.BIRTH, other] - ints[c.BIRTH, slot]) <= reach:
            found[count] = other
            count += 1
            other = ints[row, other]
    return found[:count]


@compiled
def _renew_all(
    floats: FloatArray,
    ints: IntArray,
    given: FloatArray,
    logs: FloatArray,
    slots: IntArray,
    now_s: float,
    parameters: FloatArray,
) -> None:
    for k in range(len(slots)):
        renew(floats, ints, given, logs, slots[k], now_s, parameters)
        if ints[c.STATE, slots[k]] == c.WAITING:
            assess(floats, ints, logs, slots[k : k + 1], parameters)

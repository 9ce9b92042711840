"""This module keeps stated probabilities true: one-sided conformal calibration, by group, updated online.

For each outcome it looks at where the duration fell in the forecast that was made for it (its probability
integral transform, PIT). The calibrated quantile at p is the raw quantile at the level below which a share
p of recent outcomes of the group fell; each bound is one-sided (P(duration <= q_p) = p), as planning needs.
This is distributional conformal prediction (Chernozhukov, Wuethrich, Zhu 2021) with weights that fade with
time, as in nonexchangeable conformal prediction (Barber et al. 2023), and with a running correction of the
level after each miss, as in adaptive conformal inference (Gibbs and Candes 2021). Groups borrow from all
outcomes while they have few of their own. Right-censored outcomes enter by the product-limit estimate.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# finer at both ends, where planning looks and where a forecast that is too narrow puts its misses
_TAIL_EDGES = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.015)
PIT_EDGES: tuple[float, ...] = (
    *_TAIL_EDGES,
    *(step / 50 for step in range(1, 50)),
    *(1.0 - edge for edge in reversed(_TAIL_EDGES)),
)
PIT_BINS = len(PIT_EDGES) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """How fast calibration learns and forgets.

    Attributes:
        prior_count: outcomes that the belief "already calibrated" is worth.
        group_count: outcomes that the overall calibration is worth inside a group.
        half_life_s: after this time an outcome counts half.
        burst_power, bound_burst_power: the k-th outcome of one submitter within an hour counts k to the
            minus this power, for the middle and for the bounds; bounds are promised per job, so that they
            discount less.
        middle_share: how much of the correction of the middle is applied. Short jobs report back first, so
            that a full correction chases them; half of it was the best compromise on three logs.
    """

    prior_count: float = 20.0
    group_count: float = 300.0
    half_life_s: float = 5 * 86400.0
    burst_power: float = 0.4
    bound_burst_power: float = 0.2
    middle_share: float = 0.5
    burst_half_life_s: float = 3600.0


@dataclass(slots=True)
class Histogram:
    """Faded PIT histogram of one group.

    Attributes:
        ended: by the probability strictly below the duration; what bounds are read from.
        spread: the same outcomes, each spread evenly over the probability of its atom; what the middle is
            read from, where counting an atom at its lower end would pull the median down.
        censored: outcomes that are only known to be longer.
    """

    ended: FloatArray = field(default_factory=lambda: np.zeros(PIT_BINS))
    spread: FloatArray = field(default_factory=lambda: np.zeros(PIT_BINS))
    censored: FloatArray = field(default_factory=lambda: np.zeros(PIT_BINS))
    at_s: float = -math.inf

    def fade(self, at_s: float, half_life_s: float) -> None:
        """Let all outcomes count less by the time that has passed."""
        if math.isfinite(self.at_s) and at_s > self.at_s:
            keep = 0.5 ** ((at_s - self.at_s) / half_life_s)
            self.ended *= keep
            self.spread *= keep
            self.censored *= keep
        self.at_s = max(self.at_s, at_s)


class Groups(NamedTuple):
    """Two ways to group jobs for calibration, shape (n,) each.

    Attributes:
        kind: GPU or not, times how well the template is known.
        length: band of the forecast median.
    """

    kind: npt.NDArray[np.intp]
    length: npt.NDArray[np.intp]

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "Groups":
        """Return the chosen rows."""
        return Groups(kind=self.kind[rows], length=self.length[rows])


LENGTH_EDGES_S: tuple[float, ...] = (60.0, 300.0, 1800.0, 7200.0, 28800.0, 86400.0)
_LENGTH_EDGES_LOG_S = np.log(LENGTH_EDGES_S)
_KNOWN_EDGES = np.array((1, 10))  # finished runs of the template
MIDDLE_UNTIL, BOUNDS_FROM = 0.5, 0.8  # between these levels the two readings are blended
KINDS = 6
LENGTHS = len(LENGTH_EDGES_S) + 1


def groups_of(gpus: FloatArray, support: npt.NDArray[np.int64], median_log_s: FloatArray) -> Groups:
    """Return the calibration groups of n jobs.

    Args:
        gpus: shape (n,), requested GPUs, NaN = unknown.
        support: shape (n,), finished runs of the job's template.
        median_log_s: shape (n,), raw forecast median, log seconds.
    """
    known = _KNOWN_EDGES.searchsorted(support, side="right")
    return Groups(
        kind=np.asarray(3 * (gpus > 0) + known),
        length=_LENGTH_EDGES_LOG_S.searchsorted(median_log_s, side="right"),
    )


def _sigmoid(logit: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def _logit(level: FloatArray) -> FloatArray:
    return np.asarray(np.log(level / (1.0 - level)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMap:
    """Raw levels to read for some wanted probabilities, as logits, with one row per group.

    Attributes:
        overall: shape (P,).
        kind: shape (KINDS, P), offsets to ``overall``.
        length: shape (LENGTHS, P), offsets to ``overall``.
    """

    overall: FloatArray
    kind: FloatArray
    length: FloatArray

    def read(self, groups: Groups) -> FloatArray:
        """Return the raw level for each job and wanted probability, shape (n, P), ascending."""
        logits = self.overall + self.kind[groups.kind] + self.length[groups.length]
        return _sigmoid(np.maximum.accumulate(logits, axis=1))


@dataclass(slots=True)
class Calibration:
    """The state of the calibration: a PIT histogram for all jobs and one for each group."""

    settings: CalibrationSettings = field(default_factory=CalibrationSettings)
    overall: Histogram = field(default_factory=Histogram)
    kinds: list[Histogram] = field(default_factory=lambda: [Histogram() for _ in range(KINDS)])
    lengths: list[Histogram] = field(default_factory=lambda: [Histogram() for _ in range(LENGTHS)])
    bursts: dict[str, tuple[float, float]] = field(default_factory=dict)
    outcomes: int = 0

    def level_map(self, wanted: FloatArray) -> LevelMap:
        """Return which raw levels to read for the wanted probabilities, shape (P,), ascending."""
        share = np.clip((wanted - MIDDLE_UNTIL) / (BOUNDS_FROM - MIDDLE_UNTIL), 0.0, 1.0)

        def levels(histogram: Histogram, prior: FloatArray) -> FloatArray:
            learned = self._levels(self._masses(histogram.spread, histogram.censored, prior), wanted)
            middle = self.settings.middle_share * learned + (1.0 - self.settings.middle_share) * _logit(
                wanted
            )
            bounds = self._levels(self._masses(histogram.ended, histogram.censored, prior), wanted)
            return np.asarray((1.0 - share) * middle + share * bounds)

        edges = np.diff(np.array(PIT_EDGES))
        overall = levels(self.overall, edges * self.settings.prior_count)
        # a group borrows what all outcomes say: the raw level of all, seen as a distribution over the bins
        believed = np.interp(np.array(PIT_EDGES), np.concatenate([[0.0], _sigmoid(overall), [1.0]]),
                             np.concatenate([[0.0], wanted, [1.0]]))  # fmt: skip
        borrowed = np.diff(believed) * self.settings.group_count

        def offsets(histograms: list[Histogram]) -> FloatArray:
            return np.stack([levels(item, borrowed) - overall for item in histograms])

        return LevelMap(overall=overall, kind=offsets(self.kinds), length=offsets(self.lengths))

    def _levels(self, masses: FloatArray, wanted: FloatArray) -> FloatArray:
        cumulative = np.concatenate([[0.0], np.cumsum(masses)]) / masses.sum()
        return _logit(np.clip(np.interp(wanted, cumulative, np.array(PIT_EDGES)), 1e-5, 1.0 - 1e-5))

    def _masses(self, observed: FloatArray, censored: FloatArray, prior: FloatArray) -> FloatArray:
        """Return probability masses of the bins, weighted by evidence; product-limit where censored."""
        ended = observed + prior
        if not censored.any():
            return ended
        at_risk = np.cumsum((ended + censored)[::-1])[::-1] - 0.5 * censored
        hazard = np.clip(ended / np.maximum(at_risk, 1e-12), 0.0, 1.0)
        survival = np.cumprod(1.0 - hazard)
        masses = -np.diff(np.concatenate([[1.0], survival]))
        masses[-1] += survival[-1]
        return np.asarray(masses * (ended.sum() + censored.sum()))

    def learn(
        self,
        pit: FloatArray,
        pit_upto: FloatArray,
        observed: npt.NDArray[np.bool_],
        groups: Groups,
        identity: npt.NDArray[np.object_],
        ended_s: FloatArray,
    ) -> None:
        """Take in n outcomes, in the order in which they became known.

        Args:
            pit: shape (n,), forecast probability strictly below the duration: the least raw level whose
                quantile covers it, also where the forecast has atoms or ends at the limit.
            pit_upto: shape (n,), forecast probability up to and with the duration.
            observed: shape (n,), False where the duration is only known to be longer.
            groups: of the n jobs.
            identity: shape (n,), submitters.
            ended_s: shape (n,), when the outcomes became known, ascending.
        """
        edges = np.array(PIT_EDGES)
        bins = np.clip(np.searchsorted(edges, pit, side="right") - 1, 0, PIT_BINS - 1)
        for row in range(len(pit)):
            at_s = float(ended_s[row])
            count = self._burst_count(identity[row], at_s)
            weight = count**-self.settings.burst_power
            bound_weight = count**-self.settings.bound_burst_power
            width = pit_upto[row] - pit[row]
            spread = np.zeros(PIT_BINS)
            if width < 1e-9:
                spread[bins[row]] = weight
            else:
                inside = np.minimum(edges[1:], pit_upto[row]) - np.maximum(edges[:-1], pit[row])
                spread = np.clip(inside, 0.0, None) * (weight / width)
            for item in (self.overall, self.kinds[groups.kind[row]], self.lengths[groups.length[row]]):
                item.fade(at_s, self.settings.half_life_s)
                if observed[row]:
                    item.ended[bins[row]] += bound_weight
                    item.spread += spread
                else:
                    item.censored[bins[row]] += bound_weight
        self.outcomes += len(pit)

    def _burst_count(self, who: str | None, at_s: float) -> float:
        """Return the faded number of outcomes of this submitter, this one included."""
        if who is None:
            return 1.0
        count, last_s = self.bursts.get(who, (0.0, at_s))
        count = count * 0.5 ** min(max(at_s - last_s, 0.0) / self.settings.burst_half_life_s, 1000.0) + 1.0
        self.bursts[who] = (count, max(at_s, last_s))
        return float(count)

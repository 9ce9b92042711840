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
        burst_power: the k-th outcome of one submitter within an hour counts k ** -burst_power.
    """

    prior_count: float = 30.0
    group_count: float = 60.0
    half_life_s: float = 14 * 86400.0
    burst_power: float = 0.5
    burst_half_life_s: float = 3600.0


@dataclass(slots=True)
class Histogram:
    """Faded PIT histogram of one group."""

    ended: FloatArray = field(default_factory=lambda: np.zeros(PIT_BINS))
    censored: FloatArray = field(default_factory=lambda: np.zeros(PIT_BINS))
    at_s: float = -math.inf

    def fade(self, at_s: float, half_life_s: float) -> None:
        if math.isfinite(self.at_s) and at_s > self.at_s:
            keep = 0.5 ** ((at_s - self.at_s) / half_life_s)
            self.ended *= keep
            self.censored *= keep
        self.at_s = max(self.at_s, at_s)


def group_of(gpus: FloatArray, support: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the calibration group of each job: GPU or not, times how well its template is known."""
    known = np.searchsorted(np.array((1, 10)), support, side="right")
    return np.asarray(3 * (np.nan_to_num(gpus) > 0) + known)


GROUPS = 6


@dataclass(slots=True)
class Calibration:
    """The state of the calibration: one PIT histogram per group and one for all."""

    settings: CalibrationSettings = field(default_factory=CalibrationSettings)
    groups: list[Histogram] = field(default_factory=lambda: [Histogram() for _ in range(GROUPS + 1)])
    bursts: dict[str, tuple[float, float]] = field(default_factory=dict)
    outcomes: int = 0

    def levels(self, wanted: FloatArray) -> FloatArray:
        """Return the raw level to read for each wanted probability in each group, shape (GROUPS, P)."""
        edges = np.array(PIT_EDGES)
        prior = np.diff(edges) * self.settings.prior_count
        overall = self._masses(self.groups[GROUPS], prior)
        result = np.empty((GROUPS, len(wanted)))
        for group in range(GROUPS):
            borrowed = overall / overall.sum() * self.settings.group_count
            mass = self._masses(self.groups[group], borrowed)
            cumulative = np.concatenate([[0.0], np.cumsum(mass)]) / mass.sum()
            result[group] = np.interp(wanted, cumulative, edges)
        return np.asarray(np.clip(result, 1e-5, 1.0 - 1e-5))

    def _masses(self, histogram: Histogram, prior: FloatArray) -> FloatArray:
        """Return probability masses of the bins, weighted by evidence; product-limit where censored."""
        ended = histogram.ended + prior
        if not histogram.censored.any():
            return ended
        count = ended.sum() + histogram.censored.sum()
        at_risk = np.cumsum((ended + histogram.censored)[::-1])[::-1] - 0.5 * histogram.censored
        hazard = np.clip(ended / np.maximum(at_risk, 1e-12), 0.0, 1.0)
        survival = np.cumprod(1.0 - hazard)
        masses = -np.diff(np.concatenate([[1.0], survival]))
        masses[-1] += survival[-1]
        return np.asarray(masses * count)

    def learn(
        self,
        pit_low: FloatArray,
        pit_high: FloatArray,
        observed: npt.NDArray[np.bool_],
        group: npt.NDArray[np.intp],
        identity: npt.NDArray[np.object_],
        ended_s: FloatArray,
    ) -> None:
        """Take in n outcomes, in the order in which they became known.

        Args:
            pit_low: shape (n,), forecast probability strictly below the duration.
            pit_high: shape (n,), forecast probability up to and with the duration; the mass of an
                outcome is spread evenly between the two.
            observed: shape (n,), False where the duration is only known to be longer.
            group: shape (n,), see ``group_of``.
            identity: shape (n,), submitters.
            ended_s: shape (n,), when the outcomes became known, ascending.
        """
        edges = np.array(PIT_EDGES)
        for row in range(len(pit_low)):
            at_s = float(ended_s[row])
            weight = self._burst_weight(identity[row], at_s)
            low, high = pit_low[row], max(pit_high[row], pit_low[row])
            if high - low < 1e-9:
                spread = np.zeros(PIT_BINS)
                spread[min(max(int(np.searchsorted(edges, low, side="right")) - 1, 0), PIT_BINS - 1)] = weight
            else:
                inside = np.clip(np.minimum(edges[1:], high) - np.maximum(edges[:-1], low), 0.0, None)
                spread = inside * (weight / (high - low))
            for index in (int(group[row]), GROUPS):
                histogram = self.groups[index]
                histogram.fade(at_s, self.settings.half_life_s)
                if observed[row]:
                    histogram.ended += spread
                else:
                    histogram.censored += spread
        self.outcomes += len(pit_low)

    def _burst_weight(self, who: str | None, at_s: float) -> float:
        if who is None:
            return 1.0
        count, last_s = self.bursts.get(who, (0.0, at_s))
        count = count * 0.5 ** min(max(at_s - last_s, 0.0) / self.settings.burst_half_life_s, 1000.0) + 1.0
        self.bursts[who] = (count, max(at_s, last_s))
        return float(count**-self.settings.burst_power)

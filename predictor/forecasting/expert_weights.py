"""This module learns online how much to trust each expert, overall and for each submitter.

Exponentially weighted aggregation of CRPS (Cesa-Bianchi and Lugosi 2006; Berrisch and Ziel 2021 for
CRPS), with losses that fade so that the weights follow drift. Outcomes of one burst share one cause, so
the k-th outcome of a submitter within an hour counts 1/k.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, level_weights
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]

SUPPORT_EDGES: tuple[int, ...] = (1, 3, 10)  # finished runs of the template: 0, 1-2, 3-9, 10 or more
_SUPPORT_EDGES = np.array(SUPPORT_EDGES)


def expert_losses(experts: FloatArray, log_duration: FloatArray) -> FloatArray:
    """Return the CRPS of each expert in log seconds, shape (n, K).

    Args:
        experts: shape (n, K, L), log quantiles at LEVELS.
        log_duration: shape (n,).
    """
    levels = np.array(LEVELS)
    error = log_duration[:, None, None] - experts
    pinball = np.maximum(levels * error, (levels - 1.0) * error)
    return np.asarray(2.0 * pinball @ level_weights(levels))


def support_class(support: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return the class of each job by the finished runs of its template, shape (n,)."""
    return _SUPPORT_EDGES.searchsorted(support, side="right")


@dataclass(slots=True)
class Regret:
    """Faded sum of the losses of each expert above the mean of all."""

    loss: FloatArray
    at_s: float = -math.inf
    burst: float = 0.0

    def add(self, excess: FloatArray, at_s: float, half_life_s: float, burst_half_life_s: float) -> None:
        """Add the losses of one outcome, above the mean of all experts, shape (K,)."""
        gap_s = max(at_s - self.at_s, 0.0) if math.isfinite(self.at_s) else math.inf
        self.burst = self.burst * 0.5 ** min(gap_s / burst_half_life_s, 1000.0) + 1.0
        self.loss = self.loss * 0.5 ** min(gap_s / half_life_s, 1000.0) + excess / self.burst
        self.at_s = max(at_s, self.at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSettings:
    """How fast the weights learn and forget.

    Attributes:
        rate: learning rate on CRPS differences (1 / log seconds), overall.
        submitter_rate: learning rate for a single submitter.
        half_life_s: after this time a loss counts half, overall.
        submitter_half_life_s: the same for a single submitter.
        floor: least weight of any expert.
    """

    rate: float = 0.05
    submitter_rate: float = 0.3
    half_life_s: float = 14 * 86400.0
    submitter_half_life_s: float = 7 * 86400.0
    burst_half_life_s: float = 3600.0
    floor: float = 0.02


@dataclass(slots=True)
class ExpertWeights:
    """The state of the aggregation.

    Attributes:
        prior: shape (support classes, K), weights before any outcome.
    """

    prior: FloatArray
    settings: WeightSettings = field(default_factory=WeightSettings)
    overall: list[Regret] = field(default_factory=list)
    submitters: dict[str, Regret] = field(default_factory=dict)
    _table: FloatArray | None = None  # scores by support class, until the next outcome

    def __post_init__(self) -> None:
        if not self.overall:
            self.overall = [Regret(loss=np.zeros(self.prior.shape[1])) for _ in self.prior]

    def weights(self, support: npt.NDArray[np.int64], identity: npt.NDArray[np.object_]) -> FloatArray:
        """Return the weights of the experts for n jobs, shape (n, K)."""
        if self._table is None:
            losses = np.stack([regret.loss for regret in self.overall])
            self._table = np.log(self.prior) - self.settings.rate * losses
        out = np.zeros((len(support), self.prior.shape[1]))
        for row, who in enumerate(identity.tolist()):
            own = self.submitters.get(who)
            if own is not None:
                out[row] = own.loss
        _weigh(support, _SUPPORT_EDGES, self._table, self.settings.submitter_rate, self.settings.floor, out)
        return out

    def learn(
        self,
        losses: FloatArray,
        support: npt.NDArray[np.int64],
        identity: npt.NDArray[np.object_],
        ended_s: FloatArray,
    ) -> None:
        """Take in the losses of n outcomes, in the order in which they became known.

        Args:
            losses: shape (n, K), CRPS of each expert.
            support: shape (n,), finished runs of the template at submission.
            identity: shape (n,), submitters.
            ended_s: shape (n,), when the outcomes became known, ascending.
        """
        self._table = None
        excess = np.clip(losses - losses.mean(axis=1, keepdims=True), -2.0, 2.0)
        classes = support_class(support)
        settings = self.settings
        for row in range(len(losses)):
            at_s = float(ended_s[row])
            who = identity[row]
            scale = 1.0
            if who is not None:
                own = self.submitters.get(who)
                if own is None:
                    own = self.submitters[who] = Regret(loss=np.zeros(losses.shape[1]))
                own.add(excess[row], at_s, settings.submitter_half_life_s, settings.burst_half_life_s)
                scale = 1.0 / own.burst  # one submitter's burst moves the rest no more than it moves him
            group = self.overall[classes[row]]
            group.burst = 0.0
            group.add(excess[row] * scale, at_s, settings.half_life_s, settings.burst_half_life_s)


@compiled
def _weigh(
    support: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    scores: FloatArray,
    rate: float,
    floor: float,
    out: FloatArray,
) -> None:
    """Turn scores and losses into weights.

    Args:
        support: shape (n,), finished runs of the template.
        edges: what parts the classes of support, ascending.
        scores: shape (classes, K).
        rate: learning rate of the submitter's own losses.
        floor: least weight.
        out: shape (n, K), the submitter's own losses; overwritten with the weights.
    """
    kinds = out.shape[1]
    for row in range(out.shape[0]):
        place = 0
        while place < edges.shape[0] and support[row] >= edges[place]:
            place += 1
        best = -np.inf
        for kind in range(kinds):
            out[row, kind] = scores[place, kind] - rate * out[row, kind]
            best = max(best, out[row, kind])
        total = 0.0
        for kind in range(kinds):
            out[row, kind] = math.exp(out[row, kind] - best)
            total += out[row, kind]
        for kind in range(kinds):
            out[row, kind] = floor + (1.0 - floor * kinds) * (out[row, kind] / total)

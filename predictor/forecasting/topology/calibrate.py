"""This module measures how far rankings of placements were off on runs left out, by strength of evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from predictor.contracts.topology import Evidence, PlacementRuns
from predictor.forecasting.topology.cluster_system import ClusterSystem
from predictor.forecasting.topology.intervals import UNMEASURED, residual_quantiles
from predictor.forecasting.topology.relative import (
    SEEN_STRETCH,
    STRETCH,
    crowding,
    evidence_weight,
    expected_log_relative,
    shrunk,
)

FloatArray = npt.NDArray[np.float64]
_LEAST_GROUPS = 20  # fewer say too little of the tails
_FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """Quantiles at LEVELS of the log of actual over expected relative throughput, by evidence."""

    by_evidence: Mapping[Evidence, tuple[float, ...]] = field(default_factory=dict)

    def of(self, evidence: Evidence) -> tuple[float, ...]:
        """Return those of an evidence; where it was not measured, those of the next weaker."""
        order = list(Evidence)
        for weaker in order[order.index(evidence) :]:
            if weaker in self.by_evidence:
                return self.by_evidence[weaker]
        return UNMEASURED


def calibrate(parts: Sequence[PlacementRuns], systems: Sequence[ClusterSystem]) -> Residuals:
    """Leave out runs, shapes and jobs within each cluster, and whole clusters.

    Args:
        parts: the runs of each cluster.
        systems: the solved equations of each.
    """
    found: dict[Evidence, list[tuple[FloatArray, npt.NDArray[np.intp]]]] = {one: [] for one in Evidence}
    offset = 0
    for part, system in zip(parts, systems, strict=True):
        rows = system.rows
        values = -np.log(part.step_time_s)
        crowded = crowding(part.patterns)
        actual = _relative(values, rows.group)
        blocks: dict[Evidence, npt.NDArray[np.generic]] = {
            Evidence.SEEN_SHAPE: np.arange(len(rows)) % _FOLDS,
            Evidence.SEEN_JOB: rows.shape_name,
            Evidence.SEEN_CLUSTER: rows.signature,
        }
        weight = evidence_weight(float(len(rows)))
        for evidence, block in blocks.items():
            if len(np.unique(block)) > 1:
                effects = shrunk(system.effects_without(block), crowded, weight)
                stretch = SEEN_STRETCH if evidence is Evidence.SEEN_SHAPE else STRETCH
                said = expected_log_relative(effects, rows.group, stretch)
                found[evidence].append((actual - said, rows.group + offset))
        said = expected_log_relative(crowded, rows.group)
        found[Evidence.NO_HISTORY].append((actual - said, rows.group + offset))
        offset += int(rows.group.max()) + 1
    quantiles = {}
    for evidence, pieces in found.items():
        if pieces:
            residuals, groups = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
            if len(np.unique(groups)) >= _LEAST_GROUPS:
                quantiles[evidence] = residual_quantiles(residuals, groups)
    return Residuals(by_evidence=quantiles)


def _relative(values: FloatArray, group: npt.NDArray[np.intp]) -> FloatArray:
    top = np.full(group.max() + 1, -np.inf)
    np.maximum.at(top, group, values)
    return np.asarray(values - top[group])

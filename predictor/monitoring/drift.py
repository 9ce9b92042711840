"""This module tells whether the jobs that are forecast now still look like those the model learned from.

The measure is the population stability index over the bins of a reference (Siddiqi 2006, *Credit Risk
Scorecards*): the sum over bins of (p - q) ln(p / q). Below 0.1 nothing has changed, above 0.25 much has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.errors import ArgumentError
from predictor.monitoring.alert import Alert, AlertCode, Severity

FloatArray = npt.NDArray[np.float64]
_PRIOR = 0.5  # pseudo-count per bin (Jeffreys), so that an empty bin is no infinite surprise


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureReference:
    """How one feature was distributed in training.

    Attributes:
        edges: shape (k,), ascending inner edges of k + 1 bins.
        shares: shape (k + 2,), of the bins, and last of missing values; sum 1.
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def learn(
        cls, values: FloatArray, *, bins: int = 10, edges: tuple[float, ...] | None = None
    ) -> "FeatureReference":
        """Return the reference of a sample, with bins of about equal weight.

        Args:
            values: shape (n,), NaN = missing.
            bins: most bins; fewer where values repeat.
            edges: the inner edges, where they are known beforehand, as those between categories are.
        """
        if edges is None:
            known = values[~np.isnan(values)]
            inner = np.quantile(known, np.linspace(0, 1, bins + 1)[1:-1]) if len(known) else np.empty(0)
            edges = tuple(float(edge) for edge in np.unique(inner))
        counts = _counts(values, np.array(edges)).astype(np.float64)
        return cls(edges=edges, shares=tuple((counts / max(counts.sum(), 1.0)).tolist()))

    def stability_index(self, values: FloatArray) -> float:
        """Return the population stability index of a sample against this reference."""
        counts = _counts(values, np.array(self.edges)).astype(np.float64)
        bins = len(counts)
        now = (counts + _PRIOR) / (counts.sum() + _PRIOR * bins)
        # the reference is smoothed by the same weight, so that equal samples give zero
        before = (np.array(self.shares) * counts.sum() + _PRIOR) / (counts.sum() + _PRIOR * bins)
        return float(np.sum((now - before) * np.log(now / before)))

    def to_json(self) -> dict[str, list[float]]:
        """Return the reference as JSON-able values."""
        return {"edges": list(self.edges), "shares": list(self.shares)}

    @classmethod
    def from_json(cls, document: Mapping[str, Sequence[float]]) -> "FeatureReference":
        """Read a reference.

        Raises:
            ArgumentError: shares and edges do not belong together.
        """
        edges, shares = tuple(document["edges"]), tuple(document["shares"])
        if len(shares) != len(edges) + 2:
            raise ArgumentError(
                f"a drift reference with {len(edges)} edges needs {len(edges) + 2} shares, got {len(shares)}"
            )
        return cls(edges=edges, shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSettings:
    """When drift is told.

    Attributes:
        warning, critical: population stability indices.
        min_rows: fewer jobs say nothing.
    """

    warning: float = 0.25
    critical: float = 1.0
    min_rows: int = 300


def drift_alerts(
    references: Mapping[str, FeatureReference], recent: Mapping[str, FloatArray], settings: DriftSettings
) -> list[Alert]:
    """Return an alert for each feature whose recent values have drifted, the worst first."""
    found: list[tuple[float, Alert]] = []
    for name, reference in references.items():
        values = recent.get(name)
        if values is None or len(values) < settings.min_rows:
            continue
        index = reference.stability_index(values)
        if index < settings.warning:
            continue
        alert = Alert(
            code=AlertCode.FEATURE_DRIFT,
            severity=Severity.CRITICAL if index >= settings.critical else Severity.WARNING,
            subject=name,
            sentence=f"the last {len(values)} jobs differ from the training data in {name}: "
            f"stability index {index:.2f}, above {settings.warning:.2f}",
            fix="look at what changed in the submissions; retrain, so that the model knows the new mix",
            numbers={"stability_index": index, "limit": settings.warning, "rows": float(len(values))},
            retrain=True,
        )
        found.append((index, alert))
    return [alert for _, alert in sorted(found, key=lambda item: -item[0])]


def _counts(values: FloatArray, edges: FloatArray) -> npt.NDArray[np.int64]:
    missing = np.isnan(values)
    bins = np.searchsorted(edges, values[~missing], side="right")
    counts = np.bincount(bins, minlength=len(edges) + 1)
    return np.append(counts, int(missing.sum()))

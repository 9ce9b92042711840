"""This module forecasts durations with a random forest whose leaves hold censored histograms.

The trees are grown by LightGBM (``boosting=rf``) on log durations; each leaf keeps a histogram of what
ended and of what was only seen running. A job's distribution is the Kaplan-Meier estimate over the pooled
leaves that it falls into: quantile regression forests (Meinshausen 2006) with the product-limit
correction of random survival forests (Ishwaran et al. 2008). Right-censored jobs thus push probability
to longer durations instead of pulling it down, as long as censoring is independent of the duration
given the features.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.features.compiled import compiled
from predictor.forecasting.trees import Trees

FloatArray = npt.NDArray[np.float64]
_LEVELS = np.array(LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestSettings:
    """How the forest is grown.

    Attributes:
        trees: number of trees.
        leaves: leaves per tree at most.
        min_rows: training rows per leaf at least.
        bins: histogram bins of log duration.
    """

    trees: int = 100
    leaves: int = 256
    min_rows: int = 5
    bins: int = 64


def weighted_quantiles(values: FloatArray, weights: FloatArray, levels: FloatArray) -> FloatArray:
    """Return quantiles of a weighted sample, shape (len(levels),)."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return np.interp(levels, (cumulative - 0.5 * weights[order]) / cumulative[-1], values[order])


class SurvivalForest:
    """Random forest with Kaplan-Meier leaves.

    Attributes:
        trees: the grown trees.
        edges_log_s: shape (bins + 1,), ascending bin edges in log seconds.
        ended: shape (leaves, bins), share of the leaf's weight that ended in the bin.
        censored: shape (leaves, bins), share that was last seen running in the bin.
    """

    def __init__(
        self,
        *,
        trees: Trees,
        edges_log_s: FloatArray,
        ended: npt.NDArray[np.float32],
        censored: npt.NDArray[np.float32],
    ) -> None:
        self.trees = trees
        self.edges_log_s = edges_log_s
        # side by side, so that a leaf is read in one go: most of the cost is to fetch it from memory
        self._shares = np.concatenate([ended, censored], axis=1)
        self.ended, self.censored = np.split(self._shares, 2, axis=1)

    @classmethod
    def fit(
        cls,
        features: npt.NDArray[np.float32],
        log_duration: FloatArray,
        observed: npt.NDArray[np.bool_],
        weights: FloatArray,
        settings: ForestSettings,
        random_state: int,
    ) -> tuple["SurvivalForest", str]:
        """Grow a forest and return it with LightGBM's text of the trees.

        Args:
            features: shape (n, F).
            log_duration: shape (n,), log seconds seen running.
            observed: shape (n,), False where the duration is right-censored.
            weights: shape (n,).
            settings: how to grow.
            random_state: seed.
        """
        import lightgbm  # noqa: PLC0415  # only training needs it; serving reads the text

        booster = lightgbm.train(
            {
                "objective": "regression",
                "boosting": "rf",
                "num_leaves": settings.leaves,
                "min_data_in_leaf": settings.min_rows,
                "feature_fraction": 0.3,
                "feature_fraction_bynode": 0.5,
                "bagging_fraction": 0.6,
                "bagging_freq": 1,
                "seed": random_state,
                "deterministic": True,
                "force_row_wise": True,
                "verbose": -1,
            },
            lightgbm.Dataset(features, log_duration, weight=weights),
            settings.trees,
        )
        text = booster.model_to_string()
        trees = Trees.parse(text)
        inner = np.unique(
            weighted_quantiles(log_duration, weights, np.linspace(0, 1, settings.bins + 1)[1:-1])
        )
        low, high = float(log_duration.min()), float(log_duration.max())
        inner = inner[(inner > low) & (inner < high)]
        edges = np.concatenate([[low], inner, [max(high, low + 1e-6)]])
        bins = np.clip(np.searchsorted(edges, log_duration, side="left") - 1, 0, len(edges) - 2)
        ended, censored = _leaf_histograms(
            trees.leaves(features), bins, observed, weights, trees.leaf_count, len(edges) - 1
        )
        return cls(trees=trees, edges_log_s=edges, ended=ended, censored=censored), text

    def predict(
        self, features: npt.NDArray[np.float32], columns: npt.NDArray[np.intp] | None = None
    ) -> FloatArray:
        """Return log quantiles at LEVELS, shape (n, L).

        Args:
            features: shape (n, F).
            columns: which of them the forest was grown on; None = all of them.
        """
        out = np.empty((len(features), len(_LEVELS)))
        _forest_quantiles(self.trees.leaves(features, columns), self._shares, self.edges_log_s, _LEVELS, out)
        return out


def _leaf_histograms(
    leaves: npt.NDArray[np.int32],
    bins: npt.NDArray[np.intp],
    observed: npt.NDArray[np.bool_],
    weights: FloatArray,
    leaf_count: int,
    bin_count: int,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    ended = np.zeros((leaf_count, bin_count))
    censored = np.zeros((leaf_count, bin_count))
    for tree in range(leaves.shape[1]):
        np.add.at(ended, (leaves[observed, tree], bins[observed]), weights[observed])
        np.add.at(censored, (leaves[~observed, tree], bins[~observed]), weights[~observed])
    total = np.maximum((ended + censored).sum(axis=1, keepdims=True), 1e-12)
    return (ended / total).astype(np.float32), (censored / total).astype(np.float32)


@compiled
def _forest_quantiles(
    leaves: npt.NDArray[np.int32],
    shares: npt.NDArray[np.float32],
    edges: FloatArray,
    levels: FloatArray,
    out: FloatArray,
) -> None:
    bins = edges.shape[0] - 1
    pooled = np.empty(2 * bins)
    died, left = pooled[:bins], pooled[bins:]
    for row in range(leaves.shape[0]):
        pooled[:] = 0.0
        for tree in range(leaves.shape[1]):
            of_leaf = shares[leaves[row, tree]]
            for index in range(2 * bins):
                pooled[index] += of_leaf[index]
        at_risk = 0.0
        for index in range(bins):
            at_risk += died[index] + left[index]
        survival = 1.0
        level = 0
        for index in range(bins):
            before = 1.0 - survival
            # jobs censored in the bin were at risk for half of it
            exposed = at_risk - 0.5 * left[index]
            if exposed > 1e-12:
                survival *= max(1.0 - died[index] / exposed, 0.0)
            at_risk -= died[index] + left[index]
            after = 1.0 - survival
            while level < levels.shape[0] and levels[level] <= after:
                share = (levels[level] - before) / (after - before) if after > before else 1.0
                out[row, level] = edges[index] + share * (edges[index + 1] - edges[index])
                level += 1
        while level < levels.shape[0]:  # the longest were censored: what is beyond is known to be longer only
            out[row, level] = edges[bins]
            level += 1

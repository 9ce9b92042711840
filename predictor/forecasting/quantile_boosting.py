"""This module forecasts durations with boosted quantile regression around the reference duration.

LightGBM learns a few quantiles of ln(duration / reference), where the reference is the median of the last
runs of the most specific key with a history. Shrinkage then pulls a forecast towards "as last time"
instead of towards the mean of the cluster. Crossing is repaired by rearrangement; between the learned
levels the log quantiles are interpolated, outside of them extended by the slope of the nearest interval.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.features.compiled import compiled
from predictor.forecasting.trees import PackedTrees, Trees

FloatArray = npt.NDArray[np.float64]

MAX_BIN = 63  # on KTH as accurate as 255, and a quarter faster


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostingSettings:
    """How the quantiles are boosted; strong regularisation, since bursts leave few independent rows.

    Attributes:
        rounds: trees per level.
        levels: probabilities that are learned.
    """

    rounds: int = 150
    levels: tuple[float, ...] = (0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95)
    learning_rate: float = 0.06
    leaves: int = 15
    min_rows: int = 100
    l2: float = 20.0


class QuantileBoosting:
    """Boosted quantiles of the log ratio to the reference.

    Attributes:
        models: one set of trees per learned level.
        levels: shape (len(models),), the learned levels.
        fallback_log_s: reference where no key has a history, log seconds.
    """

    def __init__(self, *, models: tuple[Trees, ...], levels: FloatArray, fallback_log_s: float) -> None:
        self.models = models
        self.levels = levels
        self.fallback_log_s = fallback_log_s
        self._packed = PackedTrees(models)
        # each of LEVELS lies between two learned levels, or is extended from the nearest two
        self._above = np.clip(np.searchsorted(levels, LEVELS), 1, len(levels) - 1)
        low, high = levels[self._above - 1], levels[self._above]
        self._share = (np.array(LEVELS) - low) / (high - low)

    @classmethod
    def fit(
        cls,
        features: npt.NDArray[np.float32],
        reference_log_s: FloatArray,
        log_duration: FloatArray,
        weights: FloatArray,
        settings: BoostingSettings,
        random_state: int,
    ) -> tuple["QuantileBoosting", tuple[str, ...]]:
        """Learn all levels and return the model with LightGBM's text of each level.

        Args:
            features: shape (n, F).
            reference_log_s: shape (n,), NaN where there is no history.
            log_duration: shape (n,), log seconds; censored durations must have been completed before.
            weights: shape (n,).
            settings: how to boost.
            random_state: seed.
        """
        import lightgbm  # noqa: PLC0415  # only training needs it; serving reads the text

        order = np.argsort(log_duration)
        middle = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
        fallback = float(log_duration[order[min(middle, len(order) - 1)]])
        target = log_duration - np.where(np.isnan(reference_log_s), fallback, reference_log_s)
        shared = {
            "objective": "quantile",
            "learning_rate": settings.learning_rate,
            "num_leaves": settings.leaves,
            "min_data_in_leaf": min(settings.min_rows, max(len(target) // 20, 1)),
            "lambda_l2": settings.l2,
            "feature_fraction": 0.3,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "max_bin": MAX_BIN,
            "seed": random_state,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }
        # with all parameters from the start, as threads must not change what they share
        data = lightgbm.Dataset(
            features, target, weight=weights, free_raw_data=False, params={**shared, "alpha": 0.5}
        ).construct()

        def boost(level: float) -> str:
            return str(lightgbm.train({**shared, "alpha": level}, data, settings.rounds).model_to_string())

        # trees this small gain little from threads of their own, and levels do not wait for each other
        with ThreadPoolExecutor(min(len(settings.levels), os.cpu_count() or 1)) as threads:
            texts = list(threads.map(boost, settings.levels))
        models = tuple(Trees.parse(text) for text in texts)
        return cls(models=models, levels=np.array(settings.levels), fallback_log_s=fallback), tuple(texts)

    def predict(
        self,
        features: npt.NDArray[np.float32],
        reference_log_s: FloatArray,
        columns: npt.NDArray[np.intp] | None = None,
    ) -> FloatArray:
        """Return log quantiles at LEVELS, shape (n, L).

        Args:
            features: shape (n, F).
            reference_log_s: shape (n,), NaN where there is no history.
            columns: which of the features the models were learned on; None = all of them.
        """
        sums = self._packed.sums(features, columns)
        out = np.empty((len(features), len(LEVELS)))
        _spread_levels(sums, self._above, self._share, reference_log_s, self.fallback_log_s, out)
        return out


@compiled
def _spread_levels(
    learned: FloatArray,
    above: npt.NDArray[np.intp],
    share: FloatArray,
    reference_log_s: FloatArray,
    fallback_log_s: float,
    out: FloatArray,
) -> None:
    """Sort the learned quantiles of each row, spread them to all levels and add the reference.

    Args:
        learned: shape (n, learned levels), log ratios to the reference; sorted in place.
        above: shape (L,), learned level that each level is interpolated up to, from the one before.
        share: shape (L,), how far on the level lies between the two.
        reference_log_s: shape (n,), NaN where there is none.
        fallback_log_s: reference where there is none.
        out: shape (n, L), written.
    """
    for row in range(learned.shape[0]):
        quantiles = learned[row]
        for index in range(1, quantiles.shape[0]):
            value, place = quantiles[index], index
            while place > 0 and quantiles[place - 1] > value:
                quantiles[place] = quantiles[place - 1]
                place -= 1
            quantiles[place] = value
        reference = reference_log_s[row]
        if np.isnan(reference):
            reference = fallback_log_s
        for index in range(above.shape[0]):
            low, high = quantiles[above[index] - 1], quantiles[above[index]]
            out[row, index] = low + share[index] * (high - low) + reference

"""This module learns what the fitted formula misses: LightGBM on ln(observed / formula), and its spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from predictor.forecasting.trees import PackedTrees, Trees

FloatArray = npt.NDArray[np.float64]

LEAST_ROWS = 40  # below it there is nothing to grow trees on
_SPREAD_FLOOR = 0.004  # in ln: no forecast is surer than 0.4 %
_SPREAD_CEILING = 2.0
_LEAST_HUBER = 0.004
_TEMPER = 0.5  # the learned size of errors is noisy: its square root orders jobs better than itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualSettings:
    """How the residual is learned.

    Attributes:
        seeds: models that are averaged.
        huber_log: residuals beyond it pull linearly, as peaks jump with the choice of kernels; where the
            formula is nearer than that, those beyond their median size do.
    """

    rounds: int = 500
    learning_rate: float = 0.05
    leaves: int = 31
    least_rows: int = 8
    l2: float = 0.5
    feature_share: float = 0.6
    row_share: float = 0.8
    huber_log: float = 0.07
    seeds: int = 3
    spread_rounds: int = 120
    threads: int = 1
    random_state: int = 0


class GrownTrees:
    """Averaged LightGBM models, walked from their native text; no text stands for 0 everywhere.

    Args:
        texts: one for each seed.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)

    @cached_property
    def _packed(self) -> PackedTrees:
        return PackedTrees([Trees.parse(text) for text in self.texts])

    def predict(self, features: FloatArray) -> FloatArray:
        """Return the mean over the models, shape (n,).

        Args:
            features: shape (n, F).
        """
        if not self.texts or not len(features):
            return np.zeros(len(features))
        rows = np.ascontiguousarray(features, dtype=np.float32)
        return np.asarray(self._packed.sums(rows, None).mean(axis=1))


def grow_residual(
    features: FloatArray, residual_log: FloatArray, weights: FloatArray, settings: ResidualSettings
) -> GrownTrees:
    """Learn ln(observed / formula).

    Args:
        features: shape (n, F), NaN = not known.
        residual_log: shape (n,).
        weights: shape (n,).

    References:
        Ke et al., "LightGBM: A Highly Efficient Gradient Boosting Decision Tree", 2017.
    """
    usual = float(np.median(np.abs(residual_log))) if len(residual_log) else 0.0
    bend = min(max(usual, _LEAST_HUBER), settings.huber_log)
    return _grow(
        features, residual_log, weights, settings, seeds=settings.seeds, rounds=settings.rounds,
        parameters={"objective": "huber", "alpha": bend, "num_leaves": settings.leaves},
    )  # fmt: skip


def grow_spread(
    features: FloatArray, errors_log: FloatArray, weights: FloatArray, settings: ResidualSettings
) -> GrownTrees:
    """Learn the ln of the size of errors that were made on rows not trained on.

    Args:
        errors_log: shape (n,), ln(observed / forecast), signed.
    """
    target = np.log(np.clip(np.abs(errors_log), _SPREAD_FLOOR, _SPREAD_CEILING))
    return _grow(
        features, target, weights, settings, seeds=1, rounds=settings.spread_rounds,
        parameters={"objective": "l2", "num_leaves": 8, "min_data_in_leaf": 20, "lambda_l2": 5.0},
    )  # fmt: skip


def spread_of(trees: GrownTrees, features: FloatArray) -> FloatArray:
    """Return how large errors are expected, in units of the scores, shape (n,); 1 where nothing is known."""
    return np.asarray(np.exp(_TEMPER * np.log(np.clip(np.exp(trees.predict(features)), _SPREAD_FLOOR, 1.0))))


def _grow(
    features: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    settings: ResidualSettings,
    *,
    seeds: int,
    rounds: int,
    parameters: dict[str, object],
) -> GrownTrees:
    if not len(target) or not features.shape[1]:
        return GrownTrees(())
    rows = features.astype(np.float32).astype(np.float64)  # thresholds of what is asked later: float32
    texts = []
    for seed in range(seeds):
        fitted = lgb.train(
            {
                "learning_rate": settings.learning_rate, "min_data_in_leaf": settings.least_rows,
                "lambda_l2": settings.l2, "feature_fraction": settings.feature_share,
                "bagging_fraction": settings.row_share, "bagging_freq": 1, "verbose": -1,
                "num_threads": settings.threads, "seed": settings.random_state + seed,
                "deterministic": True, "force_row_wise": True, **parameters,
            },
            lgb.Dataset(rows, target, weight=weights, free_raw_data=True),
            num_boost_round=rounds,
        )  # fmt: skip
        texts.append(fitted.model_to_string())
    return GrownTrees(texts)

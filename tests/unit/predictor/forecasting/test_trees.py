"""The compiled tree walker gives LightGBM's own numbers."""

import lightgbm
import numpy as np
import pytest

from predictor.errors import BundleCorruptError
from predictor.forecasting.trees import Trees


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("objective", ["regression", "quantile"])
def test_predictions_equal_lightgbm_bit_by_bit(missing: float, objective: str) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3000, 12)).astype(np.float32)
    target = features[:, 0] * 2 + np.sin(features[:, 1]) + rng.normal(size=3000)
    features[rng.random(features.shape) < missing] = np.nan
    booster = lightgbm.train(
        {"objective": objective, "num_leaves": 31, "verbose": -1, "num_threads": 1}, lightgbm.Dataset(features, target), 50
    )
    test = rng.normal(size=(500, 12)).astype(np.float32)
    test[rng.random(test.shape) < 0.2] = np.nan  # also where training saw none
    trees = Trees.parse(booster.model_to_string())
    np.testing.assert_array_equal(trees.predict(test), booster.predict(test))
    numbered = booster.predict(test, pred_leaf=True).astype(int)
    np.testing.assert_array_equal(trees.leaves(test) - trees.first_leaf[None, :], numbered)


def test_a_model_of_constants_has_one_leaf_per_tree() -> None:
    features = np.zeros((100, 2), dtype=np.float32)
    booster = lightgbm.train({"objective": "regression", "verbose": -1}, lightgbm.Dataset(features, np.full(100, 3.0)), 3)
    trees = Trees.parse(booster.model_to_string())
    np.testing.assert_allclose(trees.predict(features), booster.predict(features))


def test_text_that_is_no_model_is_refused() -> None:
    with pytest.raises(BundleCorruptError, match="holds no trees"):
        Trees.parse("hello")
    with pytest.raises(BundleCorruptError, match="cannot be read"):
        Trees.parse("tree\n\nTree=0\nnum_leaves=2\nleaf_value=1 2\n")

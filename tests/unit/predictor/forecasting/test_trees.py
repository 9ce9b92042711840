"""The compiled tree walker gives LightGBM's own numbers."""

import lightgbm
import numpy as np
import pytest

from predictor.errors import BundleCorruptError
from predictor.forecasting.trees import PackedTrees, Trees


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("objective", ["regression", "quantile"])
def test_predictions_equal_lightgbm_bit_by_bit(missing: float, objective: str) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3000, 12)).astype(np.float32)
    target = features[:, 0] * 2 + np.sin(features[:, 1]) + rng.normal(size=3000)
    features[rng.random(features.shape) < missing] = np.nan
    booster = lightgbm.train(
        {"objective": objective, "num_leaves": 31, "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(features, target),
        50,
    )
    test = rng.normal(size=(500, 12)).astype(np.float32)
    test[rng.random(test.shape) < 0.2] = np.nan  # also where training saw none
    trees = Trees.parse(booster.model_to_string())
    np.testing.assert_array_equal(trees.predict(test), booster.predict(test))
    numbered = np.asarray(booster.predict(test, pred_leaf=True)).astype(int)
    np.testing.assert_array_equal(trees.leaves(test) - trees.first_leaf[None, :], numbered)


def test_models_packed_together_read_chosen_columns_as_each_alone() -> None:
    """The service walks all models at once over the full row of features, where training had chosen ones."""
    rng = np.random.default_rng(1)
    wide = rng.normal(size=(2000, 9)).astype(np.float32)
    wide[rng.random(wide.shape) < 0.1] = np.nan
    wide[:, 3] = np.round(wide[:, 3])  # zeros of both signs
    columns = np.array([7, 3, 0, 5])
    target = np.nan_to_num(wide[:, 7] + wide[:, 3] ** 2)
    boosters = [
        lightgbm.train(
            {"objective": "quantile", "alpha": level, "num_leaves": leaves, "verbose": -1, "num_threads": 1},
            lightgbm.Dataset(wide[:, columns], target), 20,
        )
        for level, leaves in ((0.2, 3), (0.5, 31), (0.9, 100))
    ]  # fmt: skip
    models = [Trees.parse(booster.model_to_string()) for booster in boosters]
    packed = PackedTrees(models)
    alone = np.stack([booster.predict(wide[:, columns]) for booster in boosters], axis=1)
    np.testing.assert_array_equal(packed.sums(wide, columns), alone)
    for row in range(50):
        np.testing.assert_array_equal(packed.sums(wide[row : row + 1], columns), alone[row : row + 1])


def test_values_beside_a_threshold_and_beyond_all_numbers_fall_as_in_lightgbm() -> None:
    rng = np.random.default_rng(2)
    features = np.round(rng.normal(size=(3000, 3)), 1).astype(np.float32)
    target = np.where(features[:, 0] > 0, 1.0, features[:, 1])
    booster = lightgbm.train(
        {"objective": "regression", "num_leaves": 31, "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(features, target), 20,
    )  # fmt: skip
    trees = Trees.parse(booster.model_to_string())
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, -3.4e38], dtype=np.float32)
    edges = np.unique(trees.threshold).astype(np.float32)
    near = [np.nextafter(edges, np.float32(-np.inf)), edges, np.nextafter(edges, np.float32(np.inf))]
    values = np.concatenate([values, *near])
    test = np.stack([rng.permutation(values) for _ in range(3)], axis=1)
    np.testing.assert_array_equal(trees.predict(test), booster.predict(test))


def test_a_model_of_constants_has_one_leaf_per_tree() -> None:
    features = np.zeros((100, 2), dtype=np.float32)
    booster = lightgbm.train(
        {"objective": "regression", "verbose": -1}, lightgbm.Dataset(features, np.full(100, 3.0)), 3
    )
    trees = Trees.parse(booster.model_to_string())
    np.testing.assert_allclose(trees.predict(features), booster.predict(features))


def test_text_that_is_no_model_is_refused() -> None:
    with pytest.raises(BundleCorruptError, match="holds no trees"):
        Trees.parse("hello")
    with pytest.raises(BundleCorruptError, match="cannot be read"):
        Trees.parse("tree\n\nTree=0\nnum_leaves=2\nleaf_value=1 2\n")

"""This module walks LightGBM trees in compiled code, bit for bit as LightGBM itself.

It reads LightGBM's native text, so a service needs neither LightGBM nor its thread pool. Numeric splits
only: categories enter our models as ordered codes.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from predictor.errors import BundleCorruptError
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_IS_NAN = 1, 2, 8
_LEAST, _GREATEST = -(2**31), 2**31 - 1
_MOST = 0xFFFF  # in 16 bits of a word


class Trees:
    """All trees of one model as flat arrays.

    Attributes:
        feature, threshold, left, right, flags: shape (nodes,); a negative child is the leaf ``~child``.
        first_node, first_leaf: shape (trees,), offsets; a tree of one leaf has ``first_node`` -1.
        leaf_value: shape (leaves,).
    """

    def __init__(
        self,
        *,
        feature: IntArray,
        threshold: FloatArray,
        left: IntArray,
        right: IntArray,
        flags: IntArray,
        first_node: IntArray,
        first_leaf: IntArray,
        leaf_value: FloatArray,
    ) -> None:
        self.feature = feature
        self.threshold = threshold
        self.left = left
        self.right = right
        self.flags = flags
        self.first_node = first_node
        self.first_leaf = first_leaf
        self.leaf_value = leaf_value

    @property
    def tree_count(self) -> int:
        """How many trees there are."""
        return len(self.first_node)

    @property
    def leaf_count(self) -> int:
        """How many leaves all trees have together."""
        return len(self.leaf_value)

    @classmethod
    def parse(cls, text: str) -> "Trees":
        """Read LightGBM's native text.

        Raises:
            BundleCorruptError: the text is no such model, or it has categorical splits.
        """
        blocks = text.split("\nTree=")[1:]
        if not blocks:
            raise BundleCorruptError("the model text holds no trees; it is not LightGBM's native format")
        columns: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in _FIELDS}
        first_node, first_leaf, nodes, leaves = [], [], 0, 0
        for block in blocks:
            fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            try:
                values = np.array(fields["leaf_value"].split(), dtype=np.float64)
                split = len(values) > 1
                parts = {
                    name: np.array(fields[name].split(), dtype=np.float64) if split else np.empty(0)
                    for name in _FIELDS[:-1]
                }
            except (KeyError, ValueError) as error:
                raise BundleCorruptError(f"a tree of the model text cannot be read: {error!r}") from error
            if split and np.any(parts["decision_type"].astype(int) & _CATEGORICAL):
                raise BundleCorruptError(
                    "the model has categorical splits; this project trains on ordered codes only"
                )
            first_node.append(nodes if split else -1)
            first_leaf.append(leaves)
            for name in _FIELDS[:-1]:
                columns[name].append(parts[name])
            columns["leaf_value"].append(values)
            nodes += len(parts["split_feature"])
            leaves += len(values)
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        return cls(
            feature=joined["split_feature"].astype(np.int32),
            threshold=joined["threshold"],
            left=joined["left_child"].astype(np.int32),
            right=joined["right_child"].astype(np.int32),
            flags=joined["decision_type"].astype(np.int32),
            first_node=np.array(first_node, dtype=np.int32),
            first_leaf=np.array(first_leaf, dtype=np.int32),
            leaf_value=joined["leaf_value"],
        )

    @cached_property
    def _packed(self) -> "PackedTrees":
        return PackedTrees((self,))

    def leaves(
        self, features: npt.NDArray[np.float32], columns: npt.NDArray[np.intp] | None = None
    ) -> IntArray:
        """Return the leaf of each row in each tree, shape (n, trees), numbered over all trees.

        Args:
            features: shape (n, F).
            columns: which of them the trees know as their features 0, 1, ...; None = all of them.
        """
        return self._packed.leaves(features, columns)

    def predict(self, features: npt.NDArray[np.float32]) -> FloatArray:
        """Return the sum of the leaf values of each row, shape (n,), added in the order of the trees."""
        return self._packed.sums(features, None)[:, 0]


class PackedTrees:
    """The trees of one or more models, packed for walking all of them at once.

    A node is one 64-bit word: its threshold, its feature, and how far on its left child lies; the right
    child follows the left one, and a leaf lies 0 further on. Thresholds and features are compared as whole
    numbers of the same order (see ``_ordered``), where NaN is the least number or the greatest one, as the
    node sends it. All trees go down one level at a time, so that no step waits for another and no branch is
    guessed; the deepest trees come first, so that those at their leaves drop out at the end of the list.

    Args:
        models: the trees of each model.

    Raises:
        BundleCorruptError: a model is too large to be packed.
    """

    def __init__(self, models: Sequence[Trees]) -> None:
        packed = [_pack_tree(trees, tree) for trees in models for tree in range(trees.tree_count)]
        depths = np.array([tree.depth for tree in packed])
        order = np.argsort(-depths, kind="stable")
        leaf_starts = _starts(trees.leaf_count for trees in models)
        first_leaf = np.concatenate([trees.first_leaf + leaf_starts[at] for at, trees in enumerate(models)])
        self._words = np.concatenate([tree.words for tree in packed])
        self._leaf = np.concatenate([tree.leaf + first_leaf[at] for at, tree in enumerate(packed)])
        self._leaf_value = np.concatenate([trees.leaf_value for trees in models])
        self._roots = _starts(len(tree.words) for tree in packed)[:-1][order]
        self._order = order
        # shape (levels,): how many trees have a node at that level
        self._alive = (depths[None, :] > np.arange(depths.max(initial=0))[:, None]).sum(axis=1)
        self._models = _starts(trees.tree_count for trees in models)
        self._features = np.arange(1 + max(int(trees.feature.max(initial=0)) for trees in models))

    def leaves(self, features: npt.NDArray[np.float32], columns: npt.NDArray[np.intp] | None) -> IntArray:
        """Return the leaf of each row in each tree, shape (n, trees), numbered over all trees of all models.

        Args:
            features: shape (n, F).
            columns: which of them the trees know as their features 0, 1, ...; None = all of them.
        """
        chosen = self._features if columns is None else columns
        out = np.empty((len(features), len(self._roots)), dtype=np.int32)
        _walk(features, chosen, self._words, self._leaf, self._roots, self._order, self._alive, out)
        return out

    def sums(self, features: npt.NDArray[np.float32], columns: npt.NDArray[np.intp] | None) -> FloatArray:
        """Return the sum of each model's leaf values, shape (n, models), added in the order of the trees."""
        chosen = self._features if columns is None else columns
        out = np.empty((len(features), len(self._models) - 1))
        _walk_and_sum(
            features, chosen, self._words, self._leaf, self._roots, self._order, self._alive,
            self._leaf_value, self._models, out,
        )  # fmt: skip
        return out


def _starts(counts: Iterable[int]) -> npt.NDArray[np.int64]:
    """Return where each of some stretches begins, and where the last one ends."""
    return np.cumsum([0, *counts], dtype=np.int64)


class _PackedTree(NamedTuple):
    """One tree as words, shape (slots,), the leaf number in each slot (0 in inner nodes), and its depth."""

    words: npt.NDArray[np.int64]
    leaf: npt.NDArray[np.int64]
    depth: int


def _pack_tree(trees: Trees, tree: int) -> _PackedTree:
    """Lay the nodes out level by level, children side by side."""
    base = int(trees.first_node[tree])
    level, slots, depth = [0 if base >= 0 else -1], [0 if base >= 0 else -1], 0
    further: list[int] = []
    while any(node >= 0 for node in level):
        depth += 1
        following: list[int] = []
        for node in level:
            if node >= 0:
                further.append(len(slots) + len(following))
                following += [int(trees.left[base + node]), int(trees.right[base + node])]
            else:
                further.append(-1)
        slots += following
        level = following
    further += [-1] * (len(slots) - len(further))
    nodes = np.array(slots)
    inner = nodes >= 0
    at = base + nodes[inner]
    steps = np.where(inner, np.array(further) - np.arange(len(nodes)), 0)
    threshold, flags = trees.threshold[at], trees.flags[at]
    nan_goes_left = np.where(flags & _MISSING_IS_NAN, (flags & _DEFAULT_LEFT) > 0, threshold >= 0.0)
    key = np.full(len(nodes), _GREATEST, dtype=np.int64)  # no value is greater: a leaf stays where it is
    key[inner] = _ordered(_round_down(threshold))
    place = np.zeros(len(nodes), dtype=np.int64)
    place[inner] = 2 * trees.feature[at].astype(np.int64) + np.where(nan_goes_left, 0, 1)
    if max(steps.max(), place.max()) > _MOST:
        raise BundleCorruptError("a tree of the model is too large: more than 65535 nodes or 32767 features")
    return _PackedTree(
        words=(key << 32) | (place << 16) | steps, leaf=np.where(inner, 0, ~nodes), depth=depth
    )


def _round_down(values: FloatArray) -> npt.NDArray[np.float32]:
    """Return the greatest float32 numbers that are not above the values: a float32 is <= both or neither."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)


def _ordered(values: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return whole numbers in the same order as float32 numbers: the bits, with those of negatives turned."""
    bits = (values + np.float32(0.0)).view(np.int32)  # adding 0 makes -0 and 0 the same bits
    return (bits ^ ((bits >> 31) & _GREATEST)).astype(np.int64)


_FIELDS = ("split_feature", "threshold", "left_child", "right_child", "decision_type", "leaf_value")


@compiled
def _walk(
    features: npt.NDArray[np.float32],
    columns: npt.NDArray[np.intp],
    words: npt.NDArray[np.int64],
    leaf: npt.NDArray[np.int64],
    roots: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    alive: npt.NDArray[np.int64],
    out: IntArray,
) -> None:
    bits = features.view(np.int32)
    keys = np.empty(2 * columns.shape[0], dtype=np.int64)
    at = np.empty(roots.shape[0], dtype=np.uint32)  # an index with a sign costs a test for it
    for row in range(features.shape[0]):
        for index in range(columns.shape[0]):
            value = features[row, columns[index]]
            if np.isnan(value):
                keys[2 * index] = _LEAST
                keys[2 * index + 1] = _GREATEST
            else:
                raw = np.int64(bits[row, columns[index]])
                key = 0 if value == 0 else raw ^ ((raw >> 31) & _GREATEST)
                keys[2 * index] = key
                keys[2 * index + 1] = key
        at[:] = roots
        for level in range(alive.shape[0]):
            for tree in range(alive[level]):
                here = at[tree]
                word = words[here]
                right = keys[(word >> 16) & _MOST] > (word >> 32)
                at[tree] = here + np.uint32(word & _MOST) + np.uint32(right)
        for tree in range(order.shape[0]):
            out[row, order[tree]] = leaf[at[tree]]


@compiled
def _walk_and_sum(
    features: npt.NDArray[np.float32],
    columns: npt.NDArray[np.intp],
    words: npt.NDArray[np.int64],
    leaf: npt.NDArray[np.int64],
    roots: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    alive: npt.NDArray[np.int64],
    leaf_value: FloatArray,
    models: npt.NDArray[np.int64],
    out: FloatArray,
) -> None:
    leaves = np.empty((features.shape[0], roots.shape[0]), dtype=np.int32)
    _walk(features, columns, words, leaf, roots, order, alive, leaves)
    for row in range(leaves.shape[0]):
        for model in range(out.shape[1]):
            total = 0.0
            for tree in range(models[model], models[model + 1]):
                total += leaf_value[leaves[row, tree]]
            out[row, model] = total

"""This module walks LightGBM trees in compiled code, bit for bit as LightGBM itself.

It reads LightGBM's native text, so a service needs neither LightGBM nor its thread pool. Numeric splits
only: categories enter our models as ordered codes.
"""

import numpy as np
import numpy.typing as npt

from predictor.errors import BundleCorruptError
from predictor.features.compiled import compiled

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]
_CATEGORICAL, _DEFAULT_LEFT, _MISSING_IS_NAN = 1, 2, 8


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
                parts = {name: np.array(fields[name].split(), dtype=np.float64) if split else np.empty(0) for name in _FIELDS[:-1]}
            except (KeyError, ValueError) as error:
                raise BundleCorruptError(f"a tree of the model text cannot be read: {error!r}") from error
            if split and np.any(parts["decision_type"].astype(int) & _CATEGORICAL):
                raise BundleCorruptError("the model has categorical splits; this project trains on ordered codes only")
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

    def leaves(self, features: npt.NDArray[np.float32]) -> IntArray:
        """Return the leaf of each row in each tree, shape (n, trees), numbered over all trees."""
        out = np.empty((len(features), self.tree_count), dtype=np.int32)
        _walk(
            features, self.feature, self.threshold, self.left, self.right, self.flags,
            self.first_node, self.first_leaf, out,
        )  # fmt: skip
        return out

    def predict(self, features: npt.NDArray[np.float32]) -> FloatArray:
        """Return the sum of the leaf values of each row, shape (n,), added in the order of the trees."""
        out = np.empty(len(features))
        _sum_leaves(self.leaves(features), self.leaf_value, out)
        return out


_FIELDS = ("split_feature", "threshold", "left_child", "right_child", "decision_type", "leaf_value")


@compiled
def _walk(
    features: npt.NDArray[np.float32],
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    flags: IntArray,
    first_node: IntArray,
    first_leaf: IntArray,
    out: IntArray,
) -> None:
    for tree in range(first_node.shape[0]):
        base = first_node[tree]
        for row in range(features.shape[0]):
            if base < 0:
                out[row, tree] = first_leaf[tree]
                continue
            node = 0
            while node >= 0:
                at = base + node
                value = np.float64(features[row, feature[at]])
                if np.isnan(value):
                    if flags[at] & _MISSING_IS_NAN:
                        node = left[at] if flags[at] & _DEFAULT_LEFT else right[at]
                        continue
                    value = 0.0  # LightGBM reads NaN as zero where training saw none
                node = left[at] if value <= threshold[at] else right[at]
            out[row, tree] = first_leaf[tree] + ~node


@compiled
def _sum_leaves(leaves: IntArray, leaf_value: FloatArray, out: FloatArray) -> None:
    for row in range(leaves.shape[0]):
        total = 0.0
        for tree in range(leaves.shape[1]):
            total += leaf_value[leaves[row, tree]]
        out[row] = total

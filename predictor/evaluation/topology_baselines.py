"""This module ranks placements by the rules and models that ours is compared with."""

from collections.abc import Callable, Mapping

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from predictor.contracts.topology import PlacementRuns
from predictor.evaluation.topology_scores import Guess, log_relative_throughput, no_preference
from predictor.forecasting.topology.rows import job_features, shape_features

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
# per-GPU bus bandwidth inside a node and of the node's network card, bytes per second, nominal, by cluster
_BANDWIDTHS = {"aws": (6e9, 3.1e9), "azure": (20e9, 3.1e9), "dgx": (200e9, 25e9), "rtx": (6e9, 6e9)}
_USUAL_BANDWIDTHS = (20e9, 5e9)
_USUAL_GRADIENT_BYTES = 1e8
_USUAL_STEP_S = 0.2
_NODE_LOSS = 1e-3  # s, floor of the Pollux fit's terms
Fitted = Callable[[BoolArray, BoolArray], FloatArray]


def rules(runs: PlacementRuns, group: IntArray) -> Mapping[str, Guess]:
    """Return what rules say that learn nothing; a rule forecasts throughput in inverse ratio to its count."""
    nodes = np.array([float(len(pattern)) for pattern in runs.patterns])
    largest = np.array([float(max(pattern)) for pattern in runs.patterns])
    return {
        "random": no_preference(group),
        "fewest_nodes": _ranked(-np.log(nodes), group),
        "smallest_max_per_node": _ranked(-np.log(largest), group),
        "alpha_beta": _ranked(-np.log(_alpha_beta_s(runs)), group),
    }


def _ranked(log_throughput: FloatArray, group: IntArray) -> Guess:
    return Guess(score=log_throughput, log_relative=log_relative_throughput(log_throughput, group))


def _alpha_beta_s(runs: PlacementRuns) -> FloatArray:
    """Return step times as 1-GPU step plus a hierarchical all-reduce at nominal bandwidths."""
    size = np.where(runs.gradient_bytes > 0, runs.gradient_bytes, _USUAL_GRADIENT_BYTES)
    out = np.empty(len(runs))
    for row, (cluster, pattern) in enumerate(zip(runs.clusters, runs.patterns, strict=True)):
        inside, across = _BANDWIDTHS.get(cluster, _USUAL_BANDWIDTHS)
        largest, nodes = max(pattern), len(pattern)
        comm = 2 * (largest - 1) / largest * size[row] / inside + 2 * (nodes - 1) / nodes * size[row] / across
        out[row] = comm
    return out + _alone_s(runs)


def _alone_s(runs: PlacementRuns) -> FloatArray:
    """Return the step time on one GPU; where it was not measured, the median of the others or a usual one."""
    known = runs.one_gpu_step_s[np.isfinite(runs.one_gpu_step_s)]
    usual = float(np.median(known)) if len(known) else _USUAL_STEP_S
    return np.nan_to_num(runs.one_gpu_step_s, nan=usual)


def pollux(runs: PlacementRuns, *, pool: str) -> Fitted:
    """Return a Pollux-style fit of the step time (A. Qiao et al., "Pollux", OSDI 2021, equations 10 to 12).

    T = (T_grad^g + T_sync^g)^(1/g) with T_grad the measured step on one GPU and T_sync = a + b (K - 2), of
    its own inside a node and across nodes; one fit per ``pool``: ``app-cluster``, ``cluster`` or ``app``.
    """
    key = np.array(
        {"app-cluster": [f"{a}/{c}" for a, c in zip(runs.signatures, runs.clusters, strict=True)],
         "cluster": list(runs.clusters), "app": list(runs.signatures)}[pool]
    )  # fmt: skip
    total = np.array([float(sum(pattern)) for pattern in runs.patterns])
    across = np.array([len(pattern) > 1 for pattern in runs.patterns])
    alone = _alone_s(runs)

    def step_s(theta: FloatArray, rows: IntArray) -> FloatArray:
        a_in, b_in, a_out, b_out = np.exp(theta[:4])
        gamma = 1.0 + 9.0 / (1.0 + np.exp(-theta[4]))
        far = total[rows] - 2.0
        sync = np.where(across[rows], a_out + b_out * far, a_in + b_in * far) + _NODE_LOSS
        log_sum = np.logaddexp(gamma * np.log(alone[rows]), gamma * np.log(sync)) / gamma
        return np.asarray(np.exp(log_sum))

    def fitted(train: BoolArray, test: BoolArray) -> FloatArray:
        out = np.zeros(len(runs))
        for name in np.unique(key[test]):
            rows, held = np.flatnonzero(train & (key == name)), np.flatnonzero(test & (key == name))
            if len(rows):
                start = np.array([-3.0, -6.0, -3.0, -6.0, -1.0])
                wanted = np.log(runs.step_time_s[rows])
                found = least_squares(
                    lambda theta, at=rows, want=wanted: np.log(step_s(theta, at)) - want,
                    start, bounds=(-12.0, 5.0), max_nfev=40,
                )  # fmt: skip
                out[held] = -np.log(step_s(found.x, held))
        return out[test]

    return fitted


def raw_lightgbm(runs: PlacementRuns, group: IntArray, *, names: tuple[str, ...], seed: int) -> Fitted:
    """Return LightGBM with its defaults on the log ratio, groups of equal weight; the strongest baseline.

    Args:
        names: which of ``app`` and ``cluster`` are features; one that is new in the test is none.
    """
    shape = np.array([shape_features(p, size) for p, size in zip(runs.patterns, runs.node_gpus, strict=True)])
    counts = np.array([(sorted(p, reverse=True) + [0] * 8)[:8] for p in runs.patterns], dtype=np.float64)
    columns = [shape, counts, job_features(runs.one_gpu_step_s, runs.gradient_bytes),
               np.log(runs.local_batch)[:, None]]  # fmt: skip
    texts = {"app": runs.signatures, "cluster": runs.clusters}
    columns += [np.unique(texts[name], return_inverse=True)[1][:, None].astype(np.float64) for name in names]
    features = np.hstack(columns)
    categories = list(range(features.shape[1] - len(names), features.shape[1]))

    def fitted(train: BoolArray, test: BoolArray) -> FloatArray:
        _, of_group, size = np.unique(group[train], return_inverse=True, return_counts=True)
        target = log_relative_throughput(-np.log(runs.step_time_s[train]), of_group)
        data = lgb.Dataset(
            features[train], target, weight=1.0 / size[of_group], categorical_feature=categories,
            free_raw_data=False,
        )  # fmt: skip
        parameters = {
            "objective": "regression", "learning_rate": 0.05, "num_leaves": 31, "verbose": -1,
            "num_threads": 1, "seed": seed, "deterministic": True, "force_row_wise": True,
        }  # fmt: skip
        return np.asarray(lgb.train(parameters, data, num_boost_round=300).predict(features[test]))

    return fitted

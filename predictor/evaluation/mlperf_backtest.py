"""This module backtests times to train across accelerator types and counts, on later rounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from predictor.data.measurements.mlperf_times import MlperfTimes
from predictor.errors import EmptyInputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


def _quiet(step: str, share: float) -> None:
    """Tell nobody."""


_LEAST_TRAIN = 50  # results of earlier rounds
Model = Callable[[MlperfTimes, IntArray, IntArray, int], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScores:
    """Errors of forecast times: median and mean |ln(forecast / actual)|, relative error, share within 2x."""

    median_abs_log_ratio: float
    mean_abs_log_ratio: float
    mape: float
    within_2x: float

    def to_json(self) -> Mapping[str, float]:
        """Return the scores by name."""
        return {
            "median_abs_log_ratio": self.median_abs_log_ratio,
            "mean_abs_log_ratio": self.mean_abs_log_ratio, "mape": self.mape, "within_2x": self.within_2x,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MlperfReport:
    """Scores by split: ``all`` test rounds together, then each round."""

    splits: Mapping[str, Mapping[str, TimeScores]]
    rows: int


def backtest_mlperf(
    runs: MlperfTimes, *, seed: int = 0, tell: Callable[[str, float], None] = _quiet
) -> MlperfReport:
    """Forecast each round from those published before it; only benchmarks that were run before are scored.

    Raises:
        EmptyInputError: no round has enough results before it.
    """
    published, rounds = np.array(runs.published), np.array(runs.rounds)
    benchmarks = np.array(runs.benchmarks)
    said: dict[str, FloatArray] = {name: np.full(len(runs), np.nan) for name in _MODELS}
    months = np.unique(published)
    for at, month in enumerate(months):
        train = np.flatnonzero(published < month)
        test = np.flatnonzero((published == month) & np.isin(benchmarks, benchmarks[train]))
        if len(train) < _LEAST_TRAIN or not len(test):
            continue
        tell(f"round of {month}", at / len(months))
        for name, model in _MODELS.items():
            said[name][test] = model(runs, train, test, seed)
    scored = np.isfinite(said["ours"])
    if not scored.any():
        raise EmptyInputError(f"no round has {_LEAST_TRAIN} results of earlier rounds before it")
    actual = np.log(runs.duration_s)
    splits = {"all": scored}
    splits |= {str(name): scored & (rounds == name) for name in np.unique(rounds[scored])}
    return MlperfReport(
        splits={
            name: {model: _score(values[rows] - actual[rows]) for model, values in said.items()}
            for name, rows in splits.items()
        },
        rows=int(scored.sum()),
    )


def _score(error: FloatArray) -> TimeScores:
    size = np.abs(error)
    return TimeScores(
        median_abs_log_ratio=float(np.median(size)), mean_abs_log_ratio=float(size.mean()),
        mape=float(np.abs(np.expm1(error)).mean()), within_2x=float((size <= np.log(2.0)).mean()),
    )  # fmt: skip


def _benchmark_median(runs: MlperfTimes, train: IntArray, test: IntArray, seed: int) -> FloatArray:
    del seed
    return _by_benchmark(runs, train, test, np.log(runs.duration_s))


def _linear_scaling(runs: MlperfTimes, train: IntArray, test: IntArray, seed: int) -> FloatArray:
    """Return the median accelerator-seconds of the benchmark, over the accelerators of the run."""
    del seed
    size = np.log(runs.accelerators)
    return _by_benchmark(runs, train, test, np.log(runs.duration_s) + size) - size[test]


def _nearest(runs: MlperfTimes, train: IntArray, test: IntArray, seed: int) -> FloatArray:
    """Return the earlier result nearest in count, of the same type where there is one, scaled linearly."""
    del seed
    size, values = np.log(runs.accelerators), np.log(runs.duration_s)
    benchmarks, kinds = np.array(runs.benchmarks), np.array(runs.gpu_types)
    out = np.empty(len(test))
    for at, row in enumerate(test):
        same = train[benchmarks[train] == benchmarks[row]]
        distance = np.abs(size[same] - size[row]) + 10.0 * (kinds[same] != kinds[row])
        best = same[np.argmin(distance)]
        out[at] = values[best] + size[best] - size[row]
    return out


def _by_benchmark(runs: MlperfTimes, train: IntArray, test: IntArray, values: FloatArray) -> FloatArray:
    benchmarks = np.array(runs.benchmarks)
    return np.array([np.median(values[train][benchmarks[train] == benchmarks[row]]) for row in test])


def _ours(runs: MlperfTimes, train: IntArray, test: IntArray, seed: int) -> FloatArray:
    """Forecast by a Gaussian process on accelerator-seconds: benchmark, type, and how they scale."""
    del seed
    size = np.log(runs.accelerators)
    names = {
        "benchmark": np.array(runs.benchmarks), "type": np.array(runs.gpu_types),
        "organisation": np.array(runs.organisations),
    }  # fmt: skip
    month = np.array([12.0 * int(text[:4]) + int(text[5:]) for text in runs.published])

    def covariance(first: IntArray, second: IntArray) -> FloatArray:
        same = {name: values[first][:, None] == values[second][None, :] for name, values in names.items()}
        centre = size[train].mean()
        slope = (size[first] - centre)[:, None] * (size[second] - centre)[None, :]
        near = np.exp(-0.5 * ((size[first][:, None] - size[second][None, :]) / 1.0) ** 2)
        late = (month[first] - month[train].max())[:, None] * (month[second] - month[train].max())[None, :]
        recent = np.exp(-np.abs(month[first][:, None] - month[second][None, :]) / 24.0)
        both = same["benchmark"] & same["type"]
        return np.asarray(
            4.0 * same["benchmark"] + 0.5 * same["type"] + 0.3 * both
            + slope * (0.03 + 0.03 * same["benchmark"]) + 1e-4 * late
            + 0.1 * both * near + 0.2 * same["benchmark"] * recent * near
            + 0.02 * same["organisation"]
        )  # fmt: skip

    values = np.log(runs.duration_s) + size
    matrix = covariance(train, train)
    matrix[np.diag_indices_from(matrix)] += 0.02
    mean = float(np.mean(values[train]))
    weights = cho_solve(cho_factor(matrix, lower=True), values[train] - mean)
    return np.asarray(mean + covariance(test, train) @ weights - size[test])


def _lightgbm(runs: MlperfTimes, train: IntArray, test: IntArray, seed: int) -> FloatArray:
    columns = [
        np.unique(texts, return_inverse=True)[1].astype(np.float64)
        for texts in (runs.benchmarks, runs.gpu_types, runs.organisations)
    ]
    features = np.column_stack([*columns, np.log(runs.accelerators), np.log(runs.nodes)])
    data = lgb.Dataset(
        features[train], np.log(runs.duration_s[train]), categorical_feature=[0, 1, 2], free_raw_data=False
    )
    parameters = {
        "objective": "regression", "learning_rate": 0.05, "verbose": -1, "num_threads": 1, "seed": seed,
        "deterministic": True, "force_row_wise": True, "min_data_in_leaf": 5,
    }  # fmt: skip
    return np.asarray(lgb.train(parameters, data, num_boost_round=200).predict(features[test]))


_MODELS: Mapping[str, Model] = {
    "benchmark_median": _benchmark_median, "linear_scaling": _linear_scaling, "nearest_scaled": _nearest,
    "raw_lightgbm": _lightgbm, "ours": _ours,
}  # fmt: skip

"""This module backtests relative speeds of GPU types: on held-out configurations and on new programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from predictor.contracts.topology import TypeRuns
from predictor.evaluation.topology_scores import (
    ChoiceScores,
    Guess,
    centred,
    log_relative_throughput,
    no_preference,
    score_choices,
)
from predictor.forecasting.topology.gpu_types import TypeSpeeds, config_groups

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
REPEATS, FOLDS = 5, 5
Model = Callable[[IntArray, IntArray], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeReport:
    """Scores by split and model; a choice is one type among those that a configuration ran on."""

    splits: Mapping[str, Mapping[str, ChoiceScores]]
    rows: int
    groups: int


def backtest_gpu_types(runs: TypeRuns, *, seed: int = 0) -> TypeReport:
    """Score ours, the mean of each type, and LightGBM."""
    group = config_groups(runs)
    programs = np.unique(runs.signatures, return_inverse=True)[1].astype(np.intp)
    count = int(group.max()) + 1
    folds = [
        (np.random.default_rng(seed + repeat).permutation(count) % FOLDS)[group] for repeat in range(REPEATS)
    ]
    return TypeReport(
        splits={
            "known_model": _mean([_scores(runs, group, fold.astype(np.intp), seed) for fold in folds]),
            "new_model": _scores(runs, group, programs, seed),
        },
        rows=len(runs), groups=count,
    )  # fmt: skip


def _scores(runs: TypeRuns, group: IntArray, block: IntArray, seed: int) -> Mapping[str, ChoiceScores]:
    values = np.log(runs.throughput)
    actual = log_relative_throughput(values, group)
    models: dict[str, Model] = {
        "type_mean": lambda train, test: _type_mean(runs, values, group, train, test),
        "raw_lightgbm": lambda train, test: _lightgbm(runs, actual, train, test, seed),
        "ours": lambda train, test: _ours(runs, train, test),
    }
    scores = {"random": score_choices(no_preference(group), actual, group)}
    for name, model in models.items():
        said = np.empty(len(runs))
        for one in np.unique(block):
            test = np.flatnonzero(block == one)
            said[test] = model(np.flatnonzero(block != one), test)
        guess = Guess(score=said, log_relative=log_relative_throughput(said, group))
        scores[name] = score_choices(guess, actual, group)
    return scores


def _type_mean(
    runs: TypeRuns, values: FloatArray, group: IntArray, train: IntArray, test: IntArray
) -> FloatArray:
    kinds = np.array(runs.gpu_types)
    effects = centred(values, group)
    means = {kind: float(effects[train][kinds[train] == kind].mean()) for kind in np.unique(kinds[train])}
    return np.array([means.get(kind, 0.0) for kind in kinds[test]])


def _ours(runs: TypeRuns, train: IntArray, test: IntArray) -> FloatArray:
    asked = runs.take(test)
    return TypeSpeeds.fit(runs.take(train)).log_speeds(asked.signatures, asked.gpu_types, asked.config)


def _lightgbm(runs: TypeRuns, actual: FloatArray, train: IntArray, test: IntArray, seed: int) -> FloatArray:
    columns = [np.unique(texts, return_inverse=True)[1] for texts in (runs.signatures, runs.gpu_types)]
    features = np.column_stack([*columns, runs.config]).astype(np.float64)
    data = lgb.Dataset(features[train], actual[train], categorical_feature=[0, 1], free_raw_data=False)
    parameters = {
        "objective": "regression", "learning_rate": 0.05, "verbose": -1, "num_threads": 1, "seed": seed,
        "deterministic": True, "force_row_wise": True, "min_data_in_leaf": 5,
    }  # fmt: skip
    return np.asarray(lgb.train(parameters, data, num_boost_round=200).predict(features[test]))


def _mean(reports: list[Mapping[str, ChoiceScores]]) -> Mapping[str, ChoiceScores]:
    return {name: ChoiceScores.mean([one[name] for one in reports]) for name in reports[0]}

"""This module backtests rankings of placements on measured step times: unseen shapes, jobs and clusters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.contracts.topology import PlacementRuns
from predictor.data.measurements.placements import PlacementMeasurements
from predictor.evaluation.topology_baselines import pollux, raw_lightgbm, rules
from predictor.evaluation.topology_scores import (
    ChoiceScores,
    Guess,
    log_relative_throughput,
    regret_by,
    score_choices,
)
from predictor.forecasting.topology.cluster_fit import KernelSettings
from predictor.forecasting.topology.cluster_system import ClusterSystem
from predictor.forecasting.topology.intervals import residual_quantiles
from predictor.forecasting.topology.relative import (
    crowding,
    evidence_weight,
    expected_log_relative,
    shrunk,
)
from predictor.forecasting.topology.rows import rows_of_runs, shape_name

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
OURS = "ours"
FOLDS = 5
UNSEEN_PLACEMENT, UNSEEN_SHAPE = "unseen_placement", "unseen_shape"
REPEATS = {UNSEEN_PLACEMENT: 5, UNSEEN_SHAPE: 3}
UNSEEN_APP, UNSEEN_CLUSTER = "leave_one_app_out", "leave_one_cluster_out"


def _quiet(step: str, share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """Scores of all models under one way of holding out.

    Attributes:
        coverage: share of candidates at or below each quantile of ours, by level; groups weigh the same.
        by_cluster: regret of ours by cluster.
        repeats: over how many random divisions into folds the scores are means.
    """

    models: Mapping[str, ChoiceScores]
    coverage: Mapping[float, float]
    by_cluster: Mapping[str, float]
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyReport:
    """All splits."""

    splits: Mapping[str, SplitReport]
    rows: int
    groups: int


class _Ours:
    """Our forecasts with any blocks held out; each cluster is inverted once and serves all splits."""

    def __init__(self, runs: PlacementRuns, group: IntArray, settings: KernelSettings) -> None:
        self._group = group
        self._crowding = crowding(runs.patterns)
        clusters = np.array(runs.clusters)
        self._systems: list[tuple[IntArray, ClusterSystem]] = []
        for name in np.unique(clusters):
            at = np.flatnonzero(clusters == name)
            part = runs.take(at)
            self._systems.append((at, ClusterSystem(rows_of_runs(part), -np.log(part.step_time_s), settings)))

    def known(self, block: IntArray) -> Guess:
        """Forecast each row from the rows of its cluster outside its block."""
        effects = np.empty(len(block))
        for at, system in self._systems:
            outside = len(at) - np.bincount(block[at])[block[at]]
            weight = evidence_weight(float(outside.min()))
            effects[at] = shrunk(system.effects_without(block[at]), self._crowding[at], weight)
        return self._guess(effects)

    def unknown(self) -> Guess:
        """Forecast as where nothing was measured on the cluster."""
        return self._guess(shrunk(np.zeros(len(self._group)), self._crowding, 0.0))

    def _guess(self, effects: FloatArray) -> Guess:
        return Guess(score=effects, log_relative=expected_log_relative(effects, self._group))


def groups_of(runs: PlacementRuns) -> IntArray:
    """Return the group of each run: one cluster, job, batch and number of GPUs."""
    keys = zip(
        runs.clusters, runs.signatures, runs.local_batch.tolist(), map(sum, runs.patterns), strict=True
    )
    known: dict[tuple[object, ...], int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)


def backtest_topology(
    measured: PlacementMeasurements,
    *,
    seed: int = 0,
    settings: KernelSettings | None = None,
    tell: Callable[[str, float], None] = _quiet,
) -> TopologyReport:
    """Score ours and every baseline where placements, shapes, jobs or clusters are new.

    Each candidate is forecast by a model that never saw its block; the candidates of a group are then
    compared, whatever model forecast them. Scales of ours are constants. With one job or one cluster only,
    there is no split of new ones.
    """
    runs = measured.runs
    group = groups_of(runs)
    tell("fit ours", 0.0)
    ours = _Ours(runs, group, settings or KernelSettings())
    evaluate = _Evaluation(runs=runs, group=group, seed=seed, ours=ours)
    texts = {UNSEEN_PLACEMENT: list(measured.placements), UNSEEN_SHAPE: list(map(shape_name, runs.patterns))}
    splits: dict[str, SplitReport] = {}
    for number, (name, text) in enumerate(texts.items()):
        blocks = [fold_of(text, seed=seed + repeat) for repeat in range(REPEATS[name])]
        reports = []
        for repeat, block in enumerate(blocks):
            tell(name, 0.1 + 0.35 * number + 0.07 * repeat)
            reports.append(evaluate(block, pool="app-cluster", names=("app", "cluster")))
        splits[name] = _mean(reports)
    if len(set(runs.signatures)) > 1:
        tell(UNSEEN_APP, 0.7)
        splits[UNSEEN_APP] = evaluate(_index(runs.signatures), pool="cluster", names=("cluster",))
    if len(set(runs.clusters)) > 1:
        tell(UNSEEN_CLUSTER, 0.85)
        splits[UNSEEN_CLUSTER] = evaluate(_index(runs.clusters), pool="app", names=("app",))
    return TopologyReport(splits=splits, rows=len(runs), groups=int(group.max()) + 1)


def fold_of(texts: list[str], *, seed: int) -> IntArray:
    """Return a fold of each row; all rows of one text are in the same."""
    names, index = np.unique(texts, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(len(names)) % FOLDS
    return np.asarray(fold[index], dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evaluation:
    runs: PlacementRuns
    group: IntArray
    seed: int
    ours: _Ours

    def __call__(self, block: IntArray, *, pool: str, names: tuple[str, ...]) -> SplitReport:
        actual = log_relative_throughput(-np.log(self.runs.step_time_s), self.group)
        guesses = dict(rules(self.runs, self.group))
        fitted = {
            "pollux": pollux(self.runs, pool=pool),
            "raw_lightgbm": raw_lightgbm(self.runs, self.group, names=names, seed=self.seed),
        }
        for name, model in fitted.items():
            said = np.empty(len(block))
            for one in np.unique(block):
                said[block == one] = model(block != one, block == one)
            ratio = (
                np.minimum(said, 0.0)  # it learned the ratio itself
                if name == "raw_lightgbm"
                else log_relative_throughput(said, self.group)
            )
            guesses[name] = Guess(score=said, log_relative=ratio)
        mine = self.ours.unknown() if pool == "app" else self.ours.known(block)
        guesses[OURS] = mine
        clusters = np.array(self.runs.clusters, dtype=np.str_)
        return SplitReport(
            models={name: score_choices(guess, actual, self.group) for name, guess in guesses.items()},
            coverage=_coverage(actual - mine.log_relative, self.group, block),
            by_cluster=regret_by(mine.score, actual, self.group, clusters),
            repeats=1,
        )


def _coverage(residuals: FloatArray, group: IntArray, block: IntArray) -> Mapping[float, float]:
    """Return how many residuals of each block lie at or below the quantiles of the other blocks."""
    below = np.empty((len(residuals), len(LEVELS)))
    for one in np.unique(block):
        held = block == one
        quantiles = np.array(residual_quantiles(residuals[~held], group[~held]))
        below[held] = residuals[held, None] <= quantiles[None, :]
    weight = 1.0 / np.bincount(group)[group]
    return dict(zip(LEVELS, (weight @ below / weight.sum()).tolist(), strict=True))


def _index(texts: tuple[str, ...]) -> IntArray:
    return np.asarray(np.unique(texts, return_inverse=True)[1], dtype=np.intp)


def _mean(reports: list[SplitReport]) -> SplitReport:
    first = reports[0]
    return SplitReport(
        models={name: ChoiceScores.mean([one.models[name] for one in reports]) for name in first.models},
        coverage={
            level: float(np.mean([one.coverage[level] for one in reports])) for level in first.coverage
        },
        by_cluster={
            name: float(np.mean([one.by_cluster[name] for one in reports])) for name in first.by_cluster
        },
        repeats=len(reports),
    )

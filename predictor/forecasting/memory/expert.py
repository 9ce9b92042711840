"""This module is one expert on memory: formula, learned residual, expected error, and calibrated bound.

Two experts of this kind make a forecaster: one sees specs, the other was trained as if nobody sent any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import MemoryRequest, Stratum
from predictor.forecasting.memory.bound import GroupScores, MemoryBound, needed_share, scores_of
from predictor.forecasting.memory.features import FeatureSpace, moving_columns
from predictor.forecasting.memory.physics import Physics, PhysicsInputs, fit_physics, physics_inputs
from predictor.forecasting.memory.residual import (
    LEAST_ROWS,
    GrownTrees,
    ResidualSettings,
    grow_residual,
    grow_spread,
    spread_of,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

SMALL_ROWS = 400
FEW_GROUPS = 20  # trees learn little about strangers from fewer groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSettings:
    """How an expert is trained.

    Attributes:
        residual: settings of the trees; ``small`` replaces them below SMALL_ROWS rows.
        folds: parts of the groups that are kept out in turn for the calibration.
        calibration_seeds: models averaged in each of those fits.
        least_token_groups: a word becomes a column once it occurs in so many groups.
    """

    residual: ResidualSettings = field(default_factory=ResidualSettings)
    small: ResidualSettings = field(
        default_factory=lambda: ResidualSettings(
            rounds=120, leaves=5, least_rows=6, l2=3.0, seeds=4, spread_rounds=30
        )
    )
    folds: int = 4
    calibration_seeds: int = 1
    least_token_groups: int = 5

    def sized(self, rows: int, groups: int) -> ResidualSettings:
        """Return the settings of the trees for a number of rows and groups."""
        if rows >= SMALL_ROWS:
            return self.residual
        return replace(self.small, rounds=self.small.rounds // 3) if groups < FEW_GROUPS else self.small


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRows:
    """Rows to learn from.

    Attributes:
        log_mib: shape (n,), ln of observed peaks.
        groups: n names, such as signatures; a group is never split between training and calibration.
        families: n wider names, or None where strangers are no wider than groups.
    """

    requests: tuple[MemoryRequest, ...]
    log_mib: FloatArray
    groups: tuple[str, ...]
    families: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """Training rows as fits without their group forecast them; each shape (n,).

    Attributes:
        forecast_log, unit: ln MiB, and the expected size of errors there.
        observed_log: ln MiB of what came.
    """

    forecast_log: FloatArray
    unit: FloatArray
    observed_log: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Expert:
    """A trained expert.

    Attributes:
        kept_out: evidence of the calibration; None after reading from files.
    """

    space: FeatureSpace
    physics: Physics
    trees: GrownTrees
    spread: GrownTrees
    bound: MemoryBound
    kept_out: KeptOut | None = None

    def inputs(self, requests: Sequence[MemoryRequest]) -> tuple[PhysicsInputs, FloatArray]:
        """Return parts of the formula and columns that no batch changes."""
        return physics_inputs(requests, self.physics.kinds), self.space.fixed(requests)

    def log_mib(self, inputs: PhysicsInputs, fixed: FloatArray, batch: FloatArray) -> FloatArray:
        """Return ln MiB at some batch, shape (n,), as learned; not yet made monotone."""
        columns = _columns(self.physics, inputs, fixed, batch)
        return np.asarray(self.physics.log_mib(inputs, batch) + self.trees.predict(columns))

    def unit(self, inputs: PhysicsInputs, fixed: FloatArray) -> FloatArray:
        """Return how large errors are expected, in units of the scores, shape (n,)."""
        return spread_of(self.spread, _columns(self.physics, inputs, fixed, inputs.batch))


def train_expert(rows: TrainingRows, settings: ExpertSettings) -> Expert:
    """Train on rows and calibrate on groups kept out in turn."""
    kinds = sorted({kind for request in rows.requests for kind in request.stored_mib})
    space = FeatureSpace.learn(rows.requests, rows.groups, least_groups=settings.least_token_groups)
    data = _Data(
        inputs=physics_inputs(rows.requests, kinds), fixed=space.fixed(rows.requests), log_mib=rows.log_mib,
        weights=balanced(rows.groups), kinds=tuple(kinds), groups=len(set(rows.groups)),
        settings=settings,
    )  # fmt: skip
    everything = np.arange(len(rows.requests))
    physics, trees = data.fit(everything, data.sized.seeds)
    columns = _columns(physics, data.inputs, data.fixed, data.inputs.batch)
    near = rows.groups  # the nearest stratum tells the size of errors
    errors = data.kept_out_errors(near)
    unit = data.kept_out_spread(columns, errors, near)
    guess = np.array([request.guess_log for request in rows.requests])
    share = needed_share(errors, guess, near)
    guess *= share
    spread = data.spread(columns, errors, everything)
    strata = {Stratum.NEW: GroupScores.of(scores_of(errors, unit, guess), near)}
    if rows.families is not None:
        strata[Stratum.SEEN_FAMILY] = strata[Stratum.NEW]
        strangers = data.kept_out_errors(rows.families)
        expected = data.kept_out_spread(columns, errors, rows.families)
        strata[Stratum.NEW] = GroupScores.of(scores_of(strangers, expected, guess), rows.families)
    kept_out = KeptOut(forecast_log=rows.log_mib - errors, unit=unit, observed_log=rows.log_mib)
    return Expert(space=space, physics=physics, trees=trees, spread=spread, kept_out=kept_out,
                  bound=MemoryBound(strata=strata, guess_share=share))  # fmt: skip


def balanced(groups: Sequence[str]) -> FloatArray:
    """Return weights 1 / sqrt(rows of the group), mean 1: large groups count for more, not for all."""
    _, at, counts = np.unique(np.array(groups, dtype=str), return_inverse=True, return_counts=True)
    weights = 1.0 / np.sqrt(counts[at])
    return np.asarray(weights / weights.mean())


def fold_of(names: Sequence[str], folds: int, random_state: int) -> IntArray:
    """Return the fold of each row, shape (n,); rows of one name share it."""
    unique, at = np.unique(np.array(names, dtype=str), return_inverse=True)
    order = np.random.default_rng(random_state).permutation(len(unique))
    return np.asarray((order % max(min(folds, len(unique)), 1))[at])


def _columns(physics: Physics, inputs: PhysicsInputs, fixed: FloatArray, batch: FloatArray) -> FloatArray:
    return np.hstack([moving_columns(physics, inputs, batch), fixed])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """Everything about the training rows, computed once."""

    inputs: PhysicsInputs
    fixed: FloatArray
    log_mib: FloatArray
    weights: FloatArray
    kinds: tuple[str, ...]
    groups: int
    settings: ExpertSettings

    @property
    def sized(self) -> ResidualSettings:
        return self.settings.sized(len(self.log_mib), self.groups)

    @property
    def has_trees(self) -> bool:
        """Whether trees are grown: by all fits or by none, so that those kept out err as the final one."""
        return len(self.log_mib) >= LEAST_ROWS

    def fit(self, rows: IntArray, seeds: int) -> tuple[Physics, GrownTrees]:
        inputs = take_inputs(self.inputs, rows)
        physics = fit_physics(inputs, self.log_mib[rows], self.weights[rows], self.kinds)
        columns = _columns(physics, inputs, self.fixed[rows], inputs.batch)
        sized = replace(self.sized, seeds=seeds)
        target = self.log_mib[rows] - physics.log_mib(inputs, inputs.batch)
        if not self.has_trees:
            return physics, GrownTrees(())
        return physics, grow_residual(columns, target, self.weights[rows], sized)

    def spread(self, columns: FloatArray, errors: FloatArray, rows: IntArray) -> GrownTrees:
        if not self.has_trees:
            return GrownTrees(())
        return grow_spread(columns[rows], errors[rows], self.weights[rows], self.sized)

    def kept_out_errors(self, names: Sequence[str]) -> FloatArray:
        """Return ln(observed / forecast) of each row by a fit without its group, shape (n,)."""

        def errors(train: IntArray, test: IntArray) -> FloatArray:
            physics, trees = self.fit(train, self.settings.calibration_seeds)
            inputs = take_inputs(self.inputs, test)
            columns = _columns(physics, inputs, self.fixed[test], inputs.batch)
            forecast = physics.log_mib(inputs, inputs.batch) + trees.predict(columns)
            return np.asarray(self.log_mib[test] - forecast)

        return self._kept_out(names, errors)

    def kept_out_spread(self, columns: FloatArray, errors: FloatArray, names: Sequence[str]) -> FloatArray:
        """Return the expected size of each error by a fit without its group, shape (n,)."""

        def unit(train: IntArray, test: IntArray) -> FloatArray:
            return spread_of(self.spread(columns, errors, train), columns[test])

        return self._kept_out(names, unit)

    def _kept_out(
        self, names: Sequence[str], answer: Callable[[IntArray, IntArray], FloatArray]
    ) -> FloatArray:
        fold = fold_of(names, self.settings.folds, self.settings.residual.random_state)
        out = np.zeros(len(self.log_mib))
        if fold.max(initial=0) == 0:  # one group: nothing can be kept out
            return answer(np.arange(len(out)), np.arange(len(out)))
        for part in range(int(fold.max()) + 1):
            test = np.flatnonzero(fold == part)
            out[test] = answer(np.flatnonzero(fold != part), test)
        return out


def take_inputs(inputs: PhysicsInputs, rows: IntArray) -> PhysicsInputs:
    """Return the chosen rows."""
    return PhysicsInputs(
        at_one=inputs.at_one[rows], per_sample=inputs.per_sample[rows], batch=inputs.batch[rows],
        known=inputs.known[rows],
    )  # fmt: skip

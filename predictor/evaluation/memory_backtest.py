"""This module backtests memory forecasts over grouped splits of measured runs, beside plain baselines.

A group (model, family, network) is either trained on or tested, never both; calibration happens inside the
training part. What is scored is what is served: :class:`MemoryForecaster`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import MemoryForecast, MemoryObservation, MemoryRequest, PeakKind
from predictor.data.measurements.base import MeasuredRuns
from predictor.evaluation.memory_scores import (
    BoundScores,
    PointScores,
    PolicyScores,
    area_under_curve,
    caught_at_false_alarm,
    score_points,
    score_policy,
)
from predictor.forecasting.memory.choice import RetryCost, first_allocations, penalty_for_risk
from predictor.forecasting.memory.expert import ExpertSettings, fold_of
from predictor.forecasting.memory.features import DRY_RUN, fixed_numbers
from predictor.forecasting.memory.forecaster import MemoryForecaster, MemorySettings
from predictor.forecasting.memory.labels import label_peaks
from predictor.forecasting.memory.physics import breakdown_of

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]

OURS, ANALYTICAL, RAW, FAKETENSOR, WITH_DRY_RUN = (
    "ours", "analytical", "raw_lightgbm", "faketensor", "ours_with_dry_run",
)  # fmt: skip
FOLDS = 5
ONE_OUT_GROUPS = 50  # with fewer, each is kept out once: five folds of them would be one of many draws
FLAT_RATIO = 1.3
_POLICY_MARGIN = 0.85  # first allocations aim below the allowed rate of out-of-memories
_FALSE_ALARM = 0.04
_MIB = 2.0**20


@dataclass(frozen=True, slots=True, kw_only=True)
class FitScores:
    """Whether runs were told to fit on the card: area under the curve, and share caught."""

    oom_rows: int
    auc: float
    caught: float
    false_alarm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """Scores of one grouped split.

    Attributes:
        observed_mib, ours_mib, upper_mib: shape (rows,), for plots.
    """

    rows: int
    groups: int
    models: Mapping[str, PointScores]
    bound: BoundScores
    policy: PolicyScores
    flat_policy: PolicyScores
    fit: FitScores | None
    dry_run_bound: BoundScores | None
    dry_run_policy: PolicyScores | None
    observed_mib: FloatArray
    ours_mib: FloatArray
    upper_mib: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """A backtest of one set: a split each for unseen models and, where there are any, unseen families."""

    name: str
    kind: PeakKind
    rows: int
    oom_rows: int
    quarantined: Mapping[str, int]
    risk: float
    splits: Mapping[str, SplitReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Forecasts:
    """What one forecaster said about the test rows of all folds, each shape (n,)."""

    p50: FloatArray
    upper: FloatArray
    first: FloatArray
    oom: FloatArray
    few: bool
    support: int


def backtest_memory(
    runs: MeasuredRuns, *, seed: int = 0, risk: float = 0.05, progress: Progress | None = None
) -> MemoryReport:
    """Score forecasts of runs whose group, then whose family, was never trained on.

    Args:
        seed: of folds and of training.
        risk: chance of exceeding the upper bound.
        progress: told the step and the share done.
    """
    labels = label_peaks(runs.kind, runs.peak_mib, is_oom=runs.is_oom)
    named = {"unseen_model": runs.groups} | ({"unseen_family": runs.families} if runs.families else {})
    splits = {}
    for at, (name, groups) in enumerate(named.items()):

        def tell(share: float, name: str = name, at: int = at) -> None:
            if progress is not None:
                progress(f"{runs.name}: {name}", (at + share) / len(named))

        splits[name] = _split(runs, labels.observed, groups, seed=seed, risk=risk, tell=tell)
    return MemoryReport(
        name=runs.name, kind=runs.kind, rows=len(runs), oom_rows=int(runs.is_oom.sum()),
        quarantined=dict(runs.quarantined), risk=risk, splits=splits,
    )  # fmt: skip


def _split(
    runs: MeasuredRuns,
    observed: npt.NDArray[np.bool_],
    groups: tuple[str, ...],
    *,
    seed: int,
    risk: float,
    tell: Callable[[float], None],
) -> SplitReport:
    count = len(set(groups))
    fold = fold_of(groups, FOLDS if count >= ONE_OUT_GROUPS else count, seed)
    dry = len(runs.dry_run_mib) > 0
    plain = [_without_dry_run(request) for request in runs.requests]
    steps = 2.0 if dry else 1.0
    strangers = groups is runs.families
    ours = _forecast(runs, plain, observed, groups, fold, strangers, seed, risk, lambda s: tell(s / steps))
    seen = np.flatnonzero(observed)
    peak = runs.peak_mib[seen]
    formula = np.array([_formula_mib(request, runs.kind) for request in runs.requests])
    points = {
        OURS: ours.p50[seen], ANALYTICAL: formula[seen],
        RAW: _raw_lightgbm(runs, plain, observed, fold, seed)[seen],
    }  # fmt: skip
    with_dry = None
    if dry:
        points[FAKETENSOR] = runs.dry_run_mib[seen]
        with_dry = _forecast(runs, list(runs.requests), observed, groups, fold, strangers, seed, risk,
                             lambda s: tell(0.5 + s / 2))  # fmt: skip
        points[WITH_DRY_RUN] = with_dry.p50[seen]
    oom = runs.is_oom
    fit = None
    if oom.any():
        fit = FitScores(
            oom_rows=int(oom.sum()), auc=area_under_curve(ours.oom, oom), false_alarm=_FALSE_ALARM,
            caught=caught_at_false_alarm(ours.oom, oom, _FALSE_ALARM),
        )  # fmt: skip
    return SplitReport(
        rows=len(seen), groups=count, models={name: score_points(v, peak) for name, v in points.items()},
        bound=_bound(ours, seen, peak, risk), policy=score_policy(ours.first[seen], peak, runs.capacity_mib),
        flat_policy=score_policy(FLAT_RATIO * ours.p50[seen], peak, runs.capacity_mib), fit=fit,
        dry_run_bound=None if with_dry is None else _bound(with_dry, seen, peak, risk),
        dry_run_policy=None if with_dry is None else score_policy(with_dry.first[seen], peak,
                                                                  runs.capacity_mib),
        observed_mib=peak, ours_mib=ours.p50[seen], upper_mib=ours.upper[seen],
    )  # fmt: skip


def _forecast(
    runs: MeasuredRuns,
    requests: list[MemoryRequest],
    observed: npt.NDArray[np.bool_],
    groups: tuple[str, ...],
    fold: npt.NDArray[np.intp],
    strangers: bool,
    seed: int,
    risk: float,
    tell: Callable[[float], None],
) -> _Forecasts:
    total = len(requests)
    p50, upper, first, oom = (np.zeros(total) for _ in range(4))
    few, support = False, 0
    for part in range(int(fold.max()) + 1):
        train = np.flatnonzero((fold != part) & observed)
        test = np.flatnonzero(fold == part)
        shown = [replace(requests[row], signature=groups[row], family=None) if strangers else requests[row]
                 for row in train]  # fmt: skip
        forecaster = MemoryForecaster.fit(
            [MemoryObservation(request=request, peak_mib=float(runs.peak_mib[row]))
             for request, row in zip(shown, train, strict=True)],
            kind=runs.kind, groups=[groups[row] for row in train], settings=backtest_settings(seed, risk),
        )  # fmt: skip
        answers = forecaster.predict([requests[row] for row in test], risk=risk,
                                     devices={"card": runs.capacity_mib})  # fmt: skip
        p50[test] = [answer.p50_mib for answer in answers]
        upper[test] = [answer.upper_mib for answer in answers]
        oom[test] = [answer.devices[0].oom_probability for answer in answers]
        first[test] = _first(forecaster, answers, [requests[row] for row in test], runs.capacity_mib, risk)
        few = few or any(answer.few_groups for answer in answers)
        support = max(support, *(answer.support for answer in answers))
        tell((part + 1) / (int(fold.max()) + 1))
    return _Forecasts(p50=p50, upper=upper, first=first, oom=oom, few=few, support=support)


def backtest_settings(seed: int, risk: float) -> MemorySettings:
    """Return the settings of training: no history (groups are unseen), no expert for poor requests."""
    defaults = ExpertSettings()
    return MemorySettings(
        risk=risk, keep_history=False, train_poor=False,
        expert=replace(
            defaults, residual=replace(defaults.residual, random_state=seed),
            small=replace(defaults.small, random_state=seed),
        ),
    )  # fmt: skip


def _first(
    forecaster: MemoryForecaster,
    answers: list[MemoryForecast],
    requests: list[MemoryRequest],
    capacity_mib: float,
    risk: float,
) -> FloatArray:
    """Return first allocations that waste least, at most ``risk`` of them too small in training."""
    expert = forecaster.rich
    assert expert is not None  # noqa: S101  (just trained, with specs)
    known = expert.kept_out
    assert known is not None  # noqa: S101
    scores = np.sort((known.observed_log - known.forecast_log) / known.unit)
    cost = RetryCost(capacity_mib=capacity_mib)
    penalty = penalty_for_risk(
        np.exp(known.forecast_log), known.unit, np.exp(known.observed_log), scores, cost,
        _POLICY_MARGIN * risk,
    )  # fmt: skip
    unit = expert.unit(*expert.inputs(requests))
    p50 = np.array([answer.p50_mib for answer in answers])
    return first_allocations(p50, unit, scores, replace(cost, penalty_mib=penalty))


def _bound(forecasts: _Forecasts, seen: npt.NDArray[np.intp], peak: FloatArray, risk: float) -> BoundScores:
    upper = forecasts.upper[seen]
    return BoundScores(
        target=1.0 - risk, coverage=float(np.mean(upper >= peak)),
        mean_over_mib=float(np.maximum(upper - peak, 0.0).mean()), few_groups=forecasts.few,
        support=forecasts.support,
    )  # fmt: skip


def _raw_lightgbm(
    runs: MeasuredRuns,
    requests: list[MemoryRequest],
    observed: npt.NDArray[np.bool_],
    fold: npt.NDArray[np.intp],
    seed: int,
) -> FloatArray:
    """Return plain LightGBM on ln(peak) with the same counts and sizes, without formula, replay and words."""
    plain = [replace(request, held_mib={}, stored_mib={}) for request in requests]
    rows = [fixed_numbers(one) | {"log_batch": float(np.log(one.batch or np.nan))} for one in plain]
    names = sorted({name for row in rows for name in row})
    features = np.array([[row.get(name, np.nan) for name in names] for row in rows])
    out = np.zeros(len(requests))
    for part in range(int(fold.max()) + 1):
        train, test = np.flatnonzero((fold != part) & observed), np.flatnonzero(fold == part)
        model = lgb.train(
            {"objective": "l2", "learning_rate": 0.05, "num_leaves": 31, "verbose": -1, "num_threads": 1,
             "seed": seed, "deterministic": True},
            lgb.Dataset(features[train], np.log(runs.peak_mib[train])), 300,
        )  # fmt: skip
        out[test] = np.exp(model.predict(features[test]))
    return out


def _formula_mib(request: MemoryRequest, kind: PeakKind) -> float:
    breakdown = breakdown_of(request)
    return (breakdown.peak_bytes if kind is PeakKind.USED else breakdown.tensor_peak_bytes) / _MIB


def _without_dry_run(request: MemoryRequest) -> MemoryRequest:
    kept = {name: value for name, value in request.numbers.items() if name != DRY_RUN}
    return replace(request, numbers=kept)

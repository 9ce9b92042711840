"""This module holds every forecaster to one contract: our model and every baseline beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from predictor.contracts.forecast import LEVELS, MIN_DURATION_S, DurationForecasts
from predictor.data.schema import conform
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.features.assemble import FeatureTable
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.baselines import BASELINES, Baseline
from predictor.forecasting.duration import DurationSettings
from predictor.forecasting.quantile_boosting import BoostingSettings
from predictor.forecasting.survival_forest import ForestSettings
from predictor.forecasting.training import TrainingLog, prepare_log, train_on_log

FloatArray = npt.NDArray[np.float64]
DAY_S = 86400.0
SETTINGS = DurationSettings(
    calibration_days=4.0, forest=ForestSettings(trees=15), boosting=BoostingSettings(rounds=15)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What any forecaster answers for n jobs."""

    point_s: FloatArray
    distribution: DurationForecasts


Forecaster = Callable[[FeatureTable], Forecast]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A log, prepared up to and beyond a cut."""

    log: TrainingLog
    vocabulary: Vocabulary
    cut_s: float
    later: npt.NDArray[np.intp]

    def features(self) -> FeatureTable:
        """Return the jobs submitted after the cut."""
        return self.log.features.take(self.later)


def strangers(submitted_at: str) -> pd.DataFrame:
    """Return jobs that say ever less about themselves; none has a history anywhere."""
    known = {
        "cluster": "elsewhere", "user": "nobody", "account": "nothing", "queue": "never",
        "job_name": "unheard of", "requested_gpus": 3.0, "requested_nodes": 5.0, "requested_cpus": 7.0,
        "walltime_s": 3600.0,
    }  # fmt: skip
    rows = [
        {name: value for name, value in known.items() if name not in left_out}
        for left_out in (
            set(), {"walltime_s"}, {"user"}, {"user", "account", "queue"},
            {"requested_gpus", "requested_cpus"}, set(known) - {"cluster"}, set(known),
        )
    ]  # fmt: skip
    rows += [{**known, "walltime_s": limit_s} for limit_s in (1.0, 2.0, 60.0, 1e9)]
    common = {"attempt": 0.0, "state": "PENDING", "submitted_at": pd.Timestamp(submitted_at, tz="UTC")}
    return conform(
        pd.DataFrame([{**common, "job_id": f"stranger{place}", **row} for place, row in enumerate(rows)])
    )


STRANGERS = len(strangers("2026-01-20"))


@pytest.fixture(scope="module")
def world() -> World:
    spec = WorkloadSpec(jobs=1500, days=14.0, users=10, random_state=5)
    frame = pd.concat([generate(spec).frame, strangers("2026-01-18T12:00")], ignore_index=True)
    cut_s = spec.start_ts + 11.0 * DAY_S
    submitted_s = request_columns(frame).submitted_s
    vocabulary = Vocabulary.learn(request_columns(frame[submitted_s < cut_s]))
    log = prepare_log(frame, vocabulary)
    return World(log=log, vocabulary=vocabulary, cut_s=cut_s, later=np.flatnonzero(submitted_s >= cut_s))


def fit_baseline(baseline: Baseline, world: World) -> Forecaster:
    with np.errstate(invalid="ignore"):
        ended = np.flatnonzero((world.log.outcomes.end_s < world.cut_s) & (world.log.outcomes.elapsed_s > 0))
    train = world.log.features.take(ended)
    log_s = np.log(np.maximum(world.log.outcomes.elapsed_s[ended], 1.0))

    def forecast(features: FeatureTable) -> Forecast:
        found = baseline.forecast(train, log_s, features)
        return Forecast(point_s=found.point_s, distribution=found.distribution)

    return forecast


def fit_ours(world: World) -> Forecaster:
    model = train_on_log(world.log, world.vocabulary, cut_s=world.cut_s, settings=SETTINGS)

    def forecast(features: FeatureTable) -> Forecast:
        now_s = np.full(len(features), model.experts.trained_until_s)
        found = model.online.forecast(model.online.consider(features, model.experts.predict(features), now_s))
        return Forecast(point_s=found.quantile_s(0.5), distribution=found)

    return forecast


FITS: dict[str, Callable[[World], Forecaster]] = {
    "ours": fit_ours,
    **{baseline.name: partial(fit_baseline, baseline) for baseline in BASELINES},
}


@pytest.fixture(scope="module")
def forecasters(world: World) -> dict[str, Forecaster]:
    return {name: fit(world) for name, fit in FITS.items()}


@pytest.fixture(params=list(FITS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def forecast(name: str, forecasters: dict[str, Forecaster]) -> Forecaster:
    return forecasters[name]


def test_there_are_baselines_of_both_kinds_and_each_has_its_own_name() -> None:
    names = [baseline.name for baseline in BASELINES]
    assert len(set(names)) == len(names)
    assert "ours" not in names
    assert {baseline.learned for baseline in BASELINES} == {True, False}


def test_quantiles_are_monotone_finite_and_at_least_one_second(forecast: Forecaster, world: World) -> None:
    found = forecast(world.features()).distribution
    assert found.quantiles_s.shape == (len(world.later), len(LEVELS))
    assert np.isfinite(found.quantiles_s).all()
    assert (found.quantiles_s >= MIN_DURATION_S).all()
    assert (np.diff(found.quantiles_s, axis=1) >= 0).all()


def test_nothing_is_forecast_above_the_limit(forecast: Forecaster, world: World) -> None:
    """Neither a quantile, nor one between or beyond the levels, nor the mean, nor the point."""
    features = world.features()
    found = forecast(features)
    limit_s = features.limit_s
    assert np.isfinite(limit_s).any()
    np.testing.assert_array_equal(found.distribution.limit_s, limit_s)
    assert (found.distribution.quantiles_s <= limit_s[:, None]).all()
    for level in (0.001, 0.42, 0.9, 0.9999):
        assert (found.distribution.quantile_s(level) <= limit_s).all(), level
    assert (found.distribution.mean_s() <= limit_s * (1.0 + 1e-12)).all()
    assert (found.point_s <= limit_s).all()


def test_the_point_is_a_finite_duration(forecast: Forecaster, world: World) -> None:
    point_s = forecast(world.features()).point_s
    assert point_s.shape == (len(world.later),)
    assert np.isfinite(point_s).all()
    assert (point_s >= MIN_DURATION_S).all()


def test_jobs_without_history_limit_or_columns_get_a_forecast(forecast: Forecaster, world: World) -> None:
    unknown = world.log.features.take(np.arange(len(world.log) - STRANGERS, len(world.log)))
    assert (unknown.support[:-4] == 0).all()
    assert np.isinf(unknown.limit_s).sum() >= 3
    found = forecast(unknown)
    assert np.isfinite(found.distribution.quantiles_s).all()
    assert np.isfinite(found.point_s).all()
    assert (found.point_s <= unknown.limit_s).all()


def test_the_same_jobs_get_the_same_forecast_again(forecast: Forecaster, world: World) -> None:
    """To forecast teaches nothing: asking twice changes no answer."""
    first, again = forecast(world.features()), forecast(world.features())
    np.testing.assert_array_equal(first.distribution.quantiles_s, again.distribution.quantiles_s)
    np.testing.assert_array_equal(first.point_s, again.point_s)


def test_training_again_with_the_same_seed_gives_the_same_forecast(
    name: str, forecast: Forecaster, world: World
) -> None:
    first, again = forecast(world.features()), FITS[name](world)(world.features())
    np.testing.assert_array_equal(first.distribution.quantiles_s, again.distribution.quantiles_s)
    np.testing.assert_array_equal(first.point_s, again.point_s)


def test_the_order_of_the_jobs_asked_for_does_not_matter(forecast: Forecaster, world: World) -> None:
    features = world.features()
    order = np.random.default_rng(0).permutation(len(features))
    straight, mixed = forecast(features), forecast(features.take(order))
    np.testing.assert_array_equal(straight.distribution.quantiles_s[order], mixed.distribution.quantiles_s)
    np.testing.assert_array_equal(straight.point_s[order], mixed.point_s)


def test_a_job_asked_for_alone_gets_what_it_gets_among_others(forecast: Forecaster, world: World) -> None:
    features = world.features()
    together = forecast(features).distribution.quantiles_s
    for row in (0, len(features) // 2, len(features) - 1):
        alone = forecast(features.take(np.array([row]))).distribution.quantiles_s[0]
        np.testing.assert_allclose(alone, together[row], rtol=1e-12)


def test_no_jobs_get_no_forecasts(forecast: Forecaster, world: World) -> None:
    found = forecast(world.log.features.take(np.empty(0, dtype=np.intp)))
    assert found.distribution.quantiles_s.shape == (0, len(LEVELS))
    assert found.point_s.shape == (0,)

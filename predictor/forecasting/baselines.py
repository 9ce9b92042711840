"""This module holds the baselines that every backtest trains and prints beside ours.

Each gives a point and a distribution: the empirical quantiles of the last ten runs of its key, so that
CRPS compares like with like.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.features.assemble import FeatureTable, feature_names
from predictor.features.history import RECENT_KINDS
from predictor.features.rowwise import ROWWISE_NAMES
from predictor.forecasting.recent_runs import recent_quantiles

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineForecasts:
    """Point (seconds, shape (n,)) and distribution forecasts of a baseline."""

    point_s: FloatArray
    distribution: DurationForecasts


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One baseline.

    Attributes:
        name: stable name in reports.
        learned: whether a model is trained for it.
        forecast: function of training features, training log durations and test features.
        cite: where the method comes from.
    """

    name: str
    learned: bool
    forecast: Callable[[FeatureTable, FloatArray, FeatureTable], BaselineForecasts]
    cite: str


def _build(point_log_s: FloatArray, logs: FloatArray, features: FeatureTable) -> BaselineForecasts:
    distribution = DurationForecasts.build(np.exp(logs), features.limit_s)
    return BaselineForecasts(
        point_s=np.minimum(np.maximum(np.exp(point_log_s), 1.0), features.limit_s), distribution=distribution
    )


def _site(log_duration: FloatArray) -> FloatArray:
    return np.asarray(np.quantile(log_duration, np.array(LEVELS)))


def _recent(kind: str, train_log: FloatArray, test: FeatureTable) -> FloatArray:
    return recent_quantiles(test.recent_log_s[:, RECENT_KINDS.index(kind)], _site(train_log))


def _reading(test: FeatureTable, name: str, otherwise: float) -> FloatArray:
    values = test.values[:, feature_names().index(name)].astype(np.float64)
    return np.where(np.isnan(values), otherwise, values)


def requested_limit(_train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast the requested walltime itself; the median of the site where none was requested."""
    median = float(np.median(train_log))
    with np.errstate(divide="ignore"):
        point = np.where(np.isfinite(test.limit_s), np.log(np.maximum(test.limit_s, 1.0)), median)
    return _build(point, np.repeat(point[:, None], len(LEVELS), axis=1), test)


def global_median(_train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast the distribution of all training durations for everybody."""
    site = _site(train_log)
    logs = np.repeat(site[None], len(test), axis=0)
    return _build(logs[:, LEVELS.index(0.5)], logs, test)


def last_run(_train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast the last finished run of the same user."""
    return _build(
        _reading(test, "user_last_log_s", float(np.median(train_log))), _recent("user", train_log, test), test
    )


def last_two_mean(_train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast the mean of the user's last two finished runs."""
    return _build(
        _reading(test, "user_mean2_log_s", float(np.median(train_log))),
        _recent("user", train_log, test),
        test,
    )


def user_median(_train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast the median of the user's last ten finished runs."""
    logs = _recent("user", train_log, test)
    return _build(logs[:, LEVELS.index(0.5)], logs, test)


def template_median(_train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast the median of the last ten finished runs of the same user, request and job name."""
    logs = _recent("template", train_log, test)
    return _build(logs[:, LEVELS.index(0.5)], logs, test)


_PLAIN_READINGS = ("last_log_s", "mean2_log_s", "median_log_s", "count_ended")


def _plain_columns() -> list[int]:
    wanted = {
        *ROWWISE_NAMES,
        *(f"{kind}_{reading}" for kind in ("user", "template") for reading in _PLAIN_READINGS),
    }
    return [index for index, name in enumerate(feature_names()) if name in wanted]


def plain_lightgbm(train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
    """Forecast with LightGBM on log duration: request and history features, finished jobs only.

    Without the submitter as a category, which is its better form; its distribution is the forecast plus
    the empirical quantiles of its training residuals.
    """
    import lightgbm  # noqa: PLC0415  # slow import, needed by this baseline only

    columns = _plain_columns()
    features = np.ascontiguousarray(train.values[:, columns])
    booster = lightgbm.train(
        {"objective": "regression", "learning_rate": 0.05, "num_leaves": 31, "verbose": -1, "seed": 0,
         "deterministic": True, "force_row_wise": True},
        lightgbm.Dataset(features, train_log),
        200,
    )  # fmt: skip
    residual = np.quantile(train_log - booster.predict(features), np.array(LEVELS))
    center = np.asarray(booster.predict(np.ascontiguousarray(test.values[:, columns])))
    return _build(center, center[:, None] + residual, test)


BASELINES: tuple[Baseline, ...] = (
    Baseline(
        name="requested_limit", learned=False, forecast=requested_limit, cite="what schedulers use today"
    ),
    Baseline(name="global_median", learned=False, forecast=global_median, cite=""),
    Baseline(name="last_run", learned=False, forecast=last_run, cite=""),
    Baseline(
        name="last_two_mean", learned=False, forecast=last_two_mean, cite="Tsafrir, Etsion, Feitelson 2007"
    ),
    Baseline(name="user_median", learned=False, forecast=user_median, cite=""),
    Baseline(
        name="template_median",
        learned=False,
        forecast=template_median,
        cite="Gibbons 1997; Smith et al. 1998",
    ),
    Baseline(name="plain_lightgbm", learned=True, forecast=plain_lightgbm, cite="Hu et al. 2021 (Helios)"),
)

"""This module backtests duration forecasts with a rolling origin, as they would have been made live.

Every ``refit_s`` all models are trained anew on what was known then: jobs that ended later count as
running, jobs submitted later do not exist. Between refits the history of finished jobs goes on, and our
expert weights and calibration learn from outcomes as they become known.
"""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.errors import ArgumentError
from predictor.evaluation.report import OURS, ScoreReport, build_report
from predictor.evaluation.scores import ScoredForecasts
from predictor.evaluation.slices import slices_of
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.baselines import BASELINES, Baseline
from predictor.forecasting.duration import DurationSettings, OnlineState
from predictor.forecasting.prequential import PendingOutcomes, replay
from predictor.forecasting.training import MIN_TRAINING_ROWS, TrainingLog, prepare_log, train_on_log

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]
WEEK_S = 7 * 86400.0


def default_test_from(frame: pd.DataFrame, share: float = 0.2) -> float:
    """Return the submission time after which the last ``share`` of the rows were submitted."""
    submitted = np.sort(request_columns(frame).submitted_s)
    return float(submitted[int((1.0 - share) * len(submitted))])


def backtest_duration(
    frame: pd.DataFrame,
    *,
    test_from_s: float,
    refit_s: float = WEEK_S,
    settings: DurationSettings | None = None,
    baselines: tuple[Baseline, ...] = BASELINES,
    progress: Progress | None = None,
    labels: dict[str, object] | None = None,
) -> ScoreReport:
    """Backtest ours and the baselines on the jobs submitted from ``test_from_s`` on.

    Args:
        frame: canonical job table.
        test_from_s: UTC epoch seconds.
        refit_s: seconds between refits.
        settings: of our model.
        baselines: trained and scored beside it.
        progress: told a step and the share done.
        labels: added to the report's settings (seed, fingerprint, ...).

    Raises:
        ArgumentError: there is nothing to test, or too little to train on.
    """
    chosen = settings or DurationSettings()
    tell = progress or (lambda _step, _share: None)
    seconds: dict[str, float] = {}
    began = time.perf_counter()
    submitted = request_columns(frame).submitted_s
    vocabulary = Vocabulary.learn(request_columns(frame[submitted < test_from_s]))
    tell("features", 0.0)
    log = prepare_log(frame, vocabulary, cancelled_ends_job=chosen.cancelled_ends_job)
    seconds["features"] = time.perf_counter() - began
    test = log.outcomes.submitted_s >= test_from_s
    with np.errstate(invalid="ignore"):
        scored = test & (log.outcomes.elapsed_s > 0)
    _check(log, test_from_s, int(scored.sum()))
    size = len(log)
    quantiles = {
        name: np.full((size, len(LEVELS)), np.nan) for name in [OURS, *(base.name for base in baselines)]
    }
    points = {base.name: np.full(size, np.nan) for base in baselines}
    online: OnlineState | None = None
    pending = PendingOutcomes()
    origins = np.arange(test_from_s, float(log.outcomes.submitted_s.max()) + 1.0, refit_s)
    for number, origin_s in enumerate(origins):
        rows = np.flatnonzero(
            (log.outcomes.submitted_s >= origin_s) & (log.outcomes.submitted_s < origin_s + refit_s)
        )
        if not len(rows):
            continue
        share = number / len(origins)
        tell(f"refit {number + 1} of {len(origins)}", share)
        began = time.perf_counter()
        model = train_on_log(log, vocabulary, cut_s=float(origin_s), settings=chosen, online=online)
        online = model.online
        seconds[f"fit {OURS}"] = seconds.get(f"fit {OURS}", 0.0) + time.perf_counter() - began
        began = time.perf_counter()
        features = log.features.take(rows)
        ours = replay(model.experts, online, features, log.outcomes.take(rows), pending=pending)
        quantiles[OURS][rows] = ours.quantiles_s
        seconds[f"predict {OURS}"] = seconds.get(f"predict {OURS}", 0.0) + time.perf_counter() - began
        with np.errstate(invalid="ignore"):
            train = np.flatnonzero((log.outcomes.end_s < origin_s) & (log.outcomes.elapsed_s > 0))
        train_features = log.features.take(train)
        train_log = np.log(np.maximum(log.outcomes.elapsed_s[train], 1.0))
        for base in baselines:
            began = time.perf_counter()
            forecast = base.forecast(train_features, train_log, features)
            quantiles[base.name][rows] = forecast.distribution.quantiles_s
            points[base.name][rows] = forecast.point_s
            seconds[base.name] = seconds.get(base.name, 0.0) + time.perf_counter() - began
    tell("scores", 0.99)
    chosen_rows = np.flatnonzero(scored)
    limit = log.features.limit_s[chosen_rows]
    forecasts: dict[str, ScoredForecasts] = {}
    for name, values in quantiles.items():
        distribution = DurationForecasts.build(values[chosen_rows], limit)
        point = points[name][chosen_rows] if name in points else distribution.quantile_s(0.5)
        forecasts[name] = ScoredForecasts(point_s=point, distribution=distribution)
    report = build_report(
        forecasts,
        log.outcomes.elapsed_s[chosen_rows],
        slices_of(
            log.features.take(chosen_rows),
            forecasts[OURS].point_s,
            frame["state"].to_numpy(dtype=object)[chosen_rows],
        ),
        test_from_s=test_from_s,
        unscored_rows=int(test.sum() - scored.sum()),
        seconds=seconds,
        settings={"refit_s": refit_s, "model": chosen.to_json(), **(labels or {})},
        identity=log.features.identity[chosen_rows],
    )
    tell("done", 1.0)
    return report


def _check(log: TrainingLog, test_from_s: float, scored: int) -> None:
    """Refuse a test date from which nothing can be tested or before which too little was known."""
    outcomes = log.outcomes
    ends_s = np.sort(outcomes.end_s[~np.isnan(outcomes.end_s)])
    known = int((ends_s < test_from_s).sum())
    if scored and known >= MIN_TRAINING_ROWS:
        return
    with np.errstate(invalid="ignore"):
        last_s = float(outcomes.submitted_s[outcomes.elapsed_s > 0].max(initial=-np.inf))
    ready_s = float(ends_s[MIN_TRAINING_ROWS - 1]) if len(ends_s) >= MIN_TRAINING_ROWS else np.inf
    if ready_s >= last_s:
        raise ArgumentError(
            f"{len(ends_s)} jobs of the log ended; training needs {MIN_TRAINING_ROWS} that had ended before "
            "a job to test was submitted, and no date has so many before it: ingest more logs"
        )
    allowed = f"--test-from, after {_utc(ready_s)} and not after {_utc(last_s)}"
    if not scored:
        raise ArgumentError(
            f"no job that ran was submitted from {_utc(test_from_s)} on: choose an earlier {allowed}"
        )
    raise ArgumentError(
        f"only {known} jobs had ended by {_utc(test_from_s)}; training needs {MIN_TRAINING_ROWS}: "
        f"choose a later {allowed}"
    )


def _utc(moment_s: float) -> str:
    return f"{pd.Timestamp(moment_s, unit='s'):%Y-%m-%dT%H:%M:%SZ}"

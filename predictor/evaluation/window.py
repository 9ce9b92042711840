"""This module scores one fixed model, or the baselines, on a frozen window of recent jobs."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.errors import ArgumentError
from predictor.evaluation.report import OURS, ScoreReport, build_report
from predictor.evaluation.scores import ScoredForecasts
from predictor.evaluation.slices import slices_of
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.baselines import BASELINES
from predictor.forecasting.online_state import export_online, restore_online
from predictor.forecasting.prequential import replay
from predictor.forecasting.training import DurationModel, TrainingLog, prepare_log


def evaluate_model(
    model: DurationModel,
    frame: pd.DataFrame,
    *,
    from_s: float,
    until_s: float | None = None,
    name: str = OURS,
) -> ScoreReport:
    """Score one model on the jobs submitted in a window, learning online as it would when it serves.

    The model given is not changed.

    Args:
        model: trained on what was known before the window, else its scores are flattering.
        frame: canonical job table that reaches over the window.
        from_s, until_s: submissions in [from_s, until_s) are scored; None = to the end.
        name: under which the scores appear.

    Raises:
        ArgumentError: no job that ran was submitted in the window.
    """
    log = prepare_log(frame, model.experts.vocabulary, cancelled_ends_job=model.settings.cancelled_ends_job)
    window, scored = _window(log, from_s, until_s)
    online = restore_online(export_online(model.online), model.settings)
    rows = np.flatnonzero(window)
    forecasts = replay(model.experts, online, log.features.take(rows), log.outcomes.take(rows))
    kept = forecasts.take(scored[rows])
    named = {name: ScoredForecasts(point_s=kept.quantile_s(0.5), distribution=kept)}
    return _report(named, log, frame, window, scored, from_s)


def evaluate_baselines(frame: pd.DataFrame, *, from_s: float, until_s: float | None = None) -> ScoreReport:
    """Train the baselines on what had ended before the window, and score them on it.

    Raises:
        ArgumentError: no job that ran was submitted in the window.
    """
    submitted = request_columns(frame).submitted_s
    log = prepare_log(frame, Vocabulary.learn(request_columns(frame[submitted < from_s])))
    window, scored = _window(log, from_s, until_s)
    with np.errstate(invalid="ignore"):
        train = np.flatnonzero((log.outcomes.end_s < from_s) & (log.outcomes.elapsed_s > 0))
    if not len(train):
        raise ArgumentError("no job had ended before the window; choose a later window or give more history")
    train_log = np.log(np.maximum(log.outcomes.elapsed_s[train], 1.0))
    test = log.features.take(np.flatnonzero(scored))
    named = {}
    for base in BASELINES:
        forecast = base.forecast(log.features.take(train), train_log, test)
        named[base.name] = ScoredForecasts(point_s=forecast.point_s, distribution=forecast.distribution)
    return _report(named, log, frame, window, scored, from_s)


def _window(
    log: TrainingLog, from_s: float, until_s: float | None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    submitted = log.outcomes.submitted_s
    window = (submitted >= from_s) & (submitted < (np.inf if until_s is None else until_s))
    with np.errstate(invalid="ignore"):
        scored = window & (log.outcomes.elapsed_s > 0) & ~np.isnan(log.outcomes.end_s)
    if not scored.any():
        raise ArgumentError("no job that ended was submitted in the window; choose an earlier window")
    return window, scored


def _report(
    named: dict[str, ScoredForecasts],
    log: TrainingLog,
    frame: pd.DataFrame,
    window: npt.NDArray[np.bool_],
    scored: npt.NDArray[np.bool_],
    from_s: float,
) -> ScoreReport:
    rows = np.flatnonzero(scored)
    first = next(iter(named.values()))
    return build_report(
        named,
        log.outcomes.elapsed_s[rows],
        slices_of(log.features.take(rows), first.point_s, frame["state"].to_numpy(dtype=object)[rows]),
        test_from_s=from_s,
        unscored_rows=int(window.sum() - scored.sum()),
        seconds={},
        settings={},
    )

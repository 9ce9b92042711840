"""This module trains the duration model with what was known at a moment, censoring included."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.forecast import LEVELS
from predictor.errors import ArgumentError
from predictor.features.assemble import FeatureBuilder, FeatureTable
from predictor.features.history import HistoryStore, Lifetimes, lifetimes
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.duration import (
    DurationSettings,
    Experts,
    OnlineState,
    boosting_columns,
    forest_columns,
)
from predictor.forecasting.prequential import JobOutcomes, replay
from predictor.forecasting.quantile_boosting import QuantileBoosting
from predictor.forecasting.sampling import burst_ids, thin_bursts
from predictor.forecasting.survival_forest import SurvivalForest

FloatArray = npt.NDArray[np.float64]
Progress = Callable[[str, float], None]
MIN_TRAINING_ROWS = 50
SECONDS_PER_DAY = 86400.0


@dataclass(slots=True)
class DurationModel:
    """A trained duration model.

    Attributes:
        experts: what was learned from the log.
        online: expert weights and calibration, which go on learning.
        settings: how it was trained.
        texts: LightGBM's native text of each set of trees, by name; what a bundle keeps.
        history: of all keys as of the cut; None where the model is only backtested.
    """

    experts: Experts
    online: OnlineState
    settings: DurationSettings
    texts: dict[str, str]
    history: HistoryStore | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLog:
    """A log with the features that each job had at its own submission.

    Attributes:
        features: as-of features, n rows.
        outcomes: when the jobs were submitted, started and ended, and how.
        bursts: shape (n,), burst of each job.
    """

    features: FeatureTable
    outcomes: JobOutcomes
    bursts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.features)


def prepare_log(
    frame: pd.DataFrame,
    vocabulary: Vocabulary,
    *,
    store: HistoryStore | None = None,
    until_s: float = np.inf,
    cancelled_ends_job: bool = True,
) -> TrainingLog:
    """Return the as-of features and outcomes of a canonical job table, row by row.

    The history is played into ``store`` (a new one by default) up to ``until_s``; ``cancelled_ends_job``
    is that of DurationSettings.
    """
    requests = request_columns(frame)
    life = lifetimes(frame)
    history = (HistoryStore() if store is None else store).sweep_log(frame, until_s=until_s)
    features = FeatureBuilder(vocabulary).assemble(requests, history)
    return TrainingLog(
        features=features,
        outcomes=outcomes_of(
            requests.submitted_s, life, features.limit_s, cancelled_ends_job=cancelled_ends_job
        ),
        bursts=burst_ids(requests.submitted_s, requests.identity, features.limit_s, requests.gpus),
    )


def outcomes_of(
    submitted_s: FloatArray, life: Lifetimes, limit_s: FloatArray, *, cancelled_ends_job: bool = True
) -> JobOutcomes:
    """Return the outcomes of jobs; a job that reached its limit is censored there."""
    with np.errstate(invalid="ignore"):
        at_limit = life.elapsed_s >= limit_s
    return JobOutcomes(
        submitted_s=submitted_s,
        start_s=life.start_s,
        end_s=life.end_s,
        elapsed_s=life.elapsed_s,
        observed=(~life.censored | (life.cancelled & cancelled_ends_job)) & ~at_limit,
    )


def train_duration(
    frame: pd.DataFrame,
    *,
    cut_s: float,
    settings: DurationSettings | None = None,
    progress: Progress | None = None,
) -> DurationModel:
    """Train on a canonical job table with what was known at ``cut_s``.

    Jobs submitted later are ignored, jobs that end later are taken as still running.

    Raises:
        ArgumentError: fewer than MIN_TRAINING_ROWS jobs had run by the cut.
    """
    known = request_columns(frame).submitted_s < cut_s
    past = frame[known]
    vocabulary = Vocabulary.learn(request_columns(past))
    store = HistoryStore()
    chosen = settings or DurationSettings()
    log = prepare_log(
        past, vocabulary, store=store, until_s=cut_s, cancelled_ends_job=chosen.cancelled_ends_job
    )
    model = train_on_log(log, vocabulary, cut_s=cut_s, settings=chosen, progress=progress)
    model.history = store
    return model


def train_on_log(
    log: TrainingLog,
    vocabulary: Vocabulary,
    *,
    cut_s: float,
    settings: DurationSettings | None = None,
    online: OnlineState | None = None,
    progress: Progress | None = None,
) -> DurationModel:
    """Train on a prepared log; ``online`` carries weights and calibration over from the model before.

    Without it, weights and calibration are learned by forecasting the last ``calibration_days`` before the
    cut with experts that were trained before them.
    """
    chosen = settings or DurationSettings()
    tell = progress or (lambda _step, _share: None)
    if online is None:
        online = OnlineState.new(chosen)
        inner_s = cut_s - chosen.calibration_days * SECONDS_PER_DAY
        if int((log.outcomes.end_s < inner_s).sum()) >= MIN_TRAINING_ROWS:
            tell("fit for calibration", 0.0)
            early, _ = _fit_experts(log, vocabulary, cut_s=inner_s, settings=chosen)
            rows = np.flatnonzero((log.outcomes.submitted_s >= inner_s) & (log.outcomes.submitted_s < cut_s))
            tell("calibrate", 0.4)
            replay(early, online, log.features.take(rows), log.outcomes.take(rows), until_s=cut_s)
    tell("fit", 0.5)
    experts, texts = _fit_experts(log, vocabulary, cut_s=cut_s, settings=chosen)
    tell("done", 1.0)
    return DurationModel(experts=experts, online=online, settings=chosen, texts=texts)


def _fit_experts(
    log: TrainingLog, vocabulary: Vocabulary, *, cut_s: float, settings: DurationSettings
) -> tuple[Experts, dict[str, str]]:
    outcomes = log.outcomes
    with np.errstate(invalid="ignore"):
        ran = (outcomes.submitted_s < cut_s) & (outcomes.start_s < cut_s) & ~np.isnan(outcomes.elapsed_s)
        ended = ran & (outcomes.end_s < cut_s)
    seen_s = np.where(ended, outcomes.elapsed_s, cut_s - outcomes.start_s)
    observed = ended & outcomes.observed
    rows = np.flatnonzero(ran & (seen_s > 0))
    if len(rows) < MIN_TRAINING_ROWS:
        raise ArgumentError(
            f"only {len(rows)} jobs had run by the cut; training needs {MIN_TRAINING_ROWS}: "
            "give more history or a later date"
        )
    sample = thin_bursts(
        log.bursts[rows],
        outcomes.submitted_s[rows],
        keep=settings.keep_per_burst,
        burst_power=settings.burst_power,
        max_rows=settings.max_rows,
        rng=np.random.default_rng(settings.random_state),
    )
    chosen, weights = rows[sample.rows], sample.weights
    features, logs = log.features.take(chosen), np.log(np.maximum(seen_s[chosen], 1.0))
    known = observed[chosen]
    forest, forest_text = SurvivalForest.fit(
        np.ascontiguousarray(features.values[:, forest_columns()]), logs, known, weights,
        settings.forest, settings.random_state,
    )  # fmt: skip
    completed = complete_censored(
        forest.predict(np.ascontiguousarray(features.values[:, forest_columns()])),
        logs, known, np.random.default_rng(settings.random_state + 1),
    )  # fmt: skip
    boosting, texts = QuantileBoosting.fit(
        np.ascontiguousarray(features.values[:, boosting_columns()]),
        features.reference_log_s,
        completed,
        weights,
        settings.boosting,
        settings.random_state,
    )
    experts = Experts(
        vocabulary=vocabulary,
        forest=forest,
        boosting=boosting,
        trained_until_s=cut_s,
    )
    named = {f"boosting_{index}": text for index, text in enumerate(texts)}
    return experts, {"forest": forest_text, **named}


def complete_censored(
    log_quantiles: FloatArray, log_seen: FloatArray, observed: npt.NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Complete right-censored durations by a random draw from what the forest expects beyond them.

    A draw from P(T | T > seen), not its mean: quantile losses need the spread (Rubin's proper imputation;
    Portnoy 2003 redistributes the same mass by weights).

    Args:
        log_quantiles: shape (n, L), forest quantiles at LEVELS.
        log_seen: shape (n,), log seconds seen running.
        observed: shape (n,), False where right-censored.
        rng: source of randomness.

    Returns:
        shape (n,), log durations, never below ``log_seen``.
    """
    levels = np.array(LEVELS)
    completed = log_seen.copy()
    for row in np.flatnonzero(~observed):
        passed = np.interp(log_seen[row], log_quantiles[row], levels, left=0.0, right=levels[-1])
        level = passed + rng.random() * (1.0 - passed)
        completed[row] = max(log_seen[row], float(np.interp(level, levels, log_quantiles[row])))
    return completed

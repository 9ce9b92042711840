"""This module is the duration model: four experts, their pool, and its calibration."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS, MIN_DURATION_S, DurationForecasts
from predictor.features.assemble import FeatureTable, feature_names
from predictor.features.compiled import compiled
from predictor.features.history import RECENT_KINDS
from predictor.features.history_kernel import READINGS
from predictor.features.keys import KEY_KINDS
from predictor.features.rowwise import ROWWISE_NAMES, Vocabulary
from predictor.forecasting.calibration import Calibration, CalibrationSettings
from predictor.forecasting.expert_weights import ExpertWeights, WeightSettings, expert_losses
from predictor.forecasting.pit_evidence import PitReadings
from predictor.forecasting.pool import pool_cdf, pooled_quantiles, weighted_mean
from predictor.forecasting.quantile_boosting import BoostingSettings, QuantileBoosting
from predictor.forecasting.recent_runs import write_empirical
from predictor.forecasting.survival_forest import ForestSettings, SurvivalForest

FloatArray = npt.NDArray[np.float64]

_LEVELS = np.array(LEVELS)
_MEDIAN = LEVELS.index(0.5)
_USER, _TEMPLATE, _PLACE = (RECENT_KINDS.index(kind) for kind in ("user", "template", "place"))
EXPERTS: tuple[str, ...] = ("survival_forest", "quantile_boosting", "recent_runs", "same_place")
# support class x expert: before any outcome, the last runs deserve trust only where there are some
PRIOR_WEIGHTS = np.array(
    [[0.30, 0.65, 0.03, 0.02], [0.27, 0.60, 0.08, 0.05], [0.24, 0.59, 0.11, 0.06], [0.22, 0.57, 0.14, 0.07]]
)
# momentary load of a key differs between weeks more than between jobs: Graham does better without it
_LOAD_READINGS = frozenset(
    {"count_ended", "burst", "pending", "running", "since_end_log_s", "since_submit_log_s",
     "running_mean_elapsed_log_s", "running_oldest_elapsed_log_s"}
)  # fmt: skip
_OWN_KINDS = frozenset({"user", "template", "shape", "limit", "name"})
_FOREST_KINDS = _OWN_KINDS | {"account", "queue", "request"}
_BOOSTING_KINDS = _OWN_KINDS | {"place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationSettings:
    """Everything that can be chosen about the duration model; JSON-able.

    Attributes:
        cancelled_ends_job: whether a job cancelled while it ran counts as having ended then. True answers
            "how long will it hold its resources", which is what a queue plans with; False takes it as
            right-censored and answers "how long does the work take".
    """

    random_state: int = 0
    cancelled_ends_job: bool = True
    keep_per_burst: int = 16
    burst_power: float = 0.3
    max_rows: int = 40_000
    calibration_days: float = 21.0
    forest: ForestSettings = field(default_factory=ForestSettings)
    boosting: BoostingSettings = field(default_factory=BoostingSettings)
    weights: WeightSettings = field(default_factory=WeightSettings)
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)

    def to_json(self) -> dict[str, object]:
        """Return the settings as plain JSON values."""
        return asdict(self)


@lru_cache(maxsize=8)
def _columns(kinds: frozenset[str]) -> npt.NDArray[np.intp]:
    """Return the columns of the request, of the habits of these key kinds, and of the relative features.

    Relative features are those of all kinds, except that the place goes with its habits.
    """
    chosen = [
        kind.name in kinds and reading not in _LOAD_READINGS for kind in KEY_KINDS for reading in READINGS
    ]
    relative = [
        "place" in kinds or not name.startswith("place_")
        for name in feature_names()[len(ROWWISE_NAMES) + len(chosen) :]
    ]
    return np.flatnonzero([True] * len(ROWWISE_NAMES) + chosen + relative)


def forest_columns() -> npt.NDArray[np.intp]:
    """Return the feature columns of the forest: request, own habits, habits of account and queue.

    Without the place in a sweep, which few jobs have: with it the forest was worse on Graham.
    """
    return _columns(_FOREST_KINDS)


def boosting_columns() -> npt.NDArray[np.intp]:
    """Return the feature columns of the boosting: request, own habits and those of the place in a sweep."""
    return _columns(_BOOSTING_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """What training learns once; nothing in it changes while it serves.

    Attributes:
        trained_until_s: moment up to which the training data were known.
    """

    vocabulary: Vocabulary
    forest: SurvivalForest
    boosting: QuantileBoosting
    trained_until_s: float

    def predict(self, features: FeatureTable) -> FloatArray:
        """Return the log quantiles of all experts, shape (n, len(EXPERTS), L)."""
        forest = self.forest.predict(features.values, forest_columns())
        boosted = self.boosting.predict(features.values, features.reference_log_s, boosting_columns())
        out = np.empty((len(features), len(EXPERTS), len(LEVELS)))
        _join(forest, boosted, features.recent_log_s, _USER, _TEMPLATE, _PLACE, _LEVELS, out)
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class RawForecasts:
    """What the experts said about n jobs, kept until the outcomes are known.

    Attributes:
        experts: shape (n, K, L), log quantiles.
        weights: shape (n, K), weights of the experts at that time.
        support: shape (n,), finished runs of the job's template.
        median_log_s: shape (n,), weighted median of the experts, by which calibration groups jobs.
        identity: shape (n,), submitters.
        limit_s: shape (n,), walltime limits, ``inf`` = none.
        submitted_s: shape (n,), UTC epoch seconds.
    """

    experts: FloatArray
    weights: FloatArray
    support: npt.NDArray[np.int64]
    median_log_s: FloatArray
    identity: npt.NDArray[np.object_]
    limit_s: FloatArray
    submitted_s: FloatArray

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "RawForecasts":
        """Return the chosen rows."""
        return RawForecasts(
            experts=self.experts[rows], weights=self.weights[rows], support=self.support[rows],
            median_log_s=self.median_log_s[rows], identity=self.identity[rows], limit_s=self.limit_s[rows],
            submitted_s=self.submitted_s[rows],
        )  # fmt: skip

    @classmethod
    def join(cls, parts: Sequence["RawForecasts"]) -> "RawForecasts":
        """Return all rows of one or more parts."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            **{
                item.name: np.concatenate([getattr(part, item.name) for part in parts])
                for item in fields(cls)
            }
        )


@dataclass(slots=True)
class OnlineState:
    """What goes on learning while the model serves: expert weights and calibration."""

    weights: ExpertWeights
    calibration: Calibration

    @classmethod
    def new(cls, settings: DurationSettings) -> "OnlineState":
        """Return a state that has seen no outcome."""
        return cls(
            weights=ExpertWeights(prior=PRIOR_WEIGHTS.copy(), settings=settings.weights),
            calibration=Calibration(settings=settings.calibration),
        )

    def make_anonymous(self) -> None:
        """Forget who the submitters were, keeping what was learned of all of them."""
        self.weights.submitters.clear()
        self.calibration.make_anonymous()

    def consider(self, features: FeatureTable, experts: FloatArray, submitted_s: FloatArray) -> RawForecasts:
        """Weigh the experts for n jobs with what is known now."""
        support = features.support[:, _TEMPLATE]
        weights = self.weights.weights(support, features.identity)
        return RawForecasts(
            experts=experts,
            weights=weights,
            support=support,
            median_log_s=weighted_mean(experts, weights, _MEDIAN),
            identity=features.identity,
            limit_s=features.limit_s,
            submitted_s=submitted_s,
        )

    def forecast(self, raw: RawForecasts) -> DurationForecasts:
        """Pool and calibrate; quantiles at LEVELS, monotone and never above the limit."""
        levels = self.calibration.raw_levels(raw.median_log_s, raw.identity)
        quantiles_s = pooled_quantiles(raw.experts, raw.weights, levels)
        _to_seconds(quantiles_s, raw.limit_s, MIN_DURATION_S)
        return DurationForecasts(quantiles_s=quantiles_s, limit_s=raw.limit_s)

    def refresh(
        self, now_s: float, running: RawForecasts | None = None, start_s: FloatArray | None = None,
        share: float = 1.0,
    ) -> None:  # fmt: skip
        """Calibrate anew with the outcomes so far and with the jobs that run now.

        Args:
            now_s: UTC epoch seconds.
            running: what was forecast for n jobs that run now.
            start_s: shape (n,), when they started, before now.
            share: how many of all running jobs these are.
        """
        if running is None or start_s is None:
            self.calibration.refresh(now_s)
            return
        log_limit = np.log(np.maximum(running.limit_s, 1.0))
        log_age = np.minimum(np.log(np.maximum(now_s - start_s, 1.0)), log_limit)
        below, _ = pool_cdf(running.experts, running.weights, log_age)
        readings = _readings(running, below, below, np.zeros(len(below), dtype=bool), start_s)
        self.calibration.refresh(now_s, readings, share)

    def learn(
        self, raw: RawForecasts, elapsed_s: FloatArray, observed: npt.NDArray[np.bool_], known_s: FloatArray
    ) -> None:
        """Learn from n outcomes in the order in which they became known.

        Args:
            raw: what was forecast for them.
            elapsed_s: shape (n,), seconds they ran.
            observed: shape (n,), False where the duration is right-censored.
            known_s: shape (n,), when the outcome became known, ascending.
        """
        log_limit = np.log(np.maximum(raw.limit_s, 1.0))
        log_duration = np.minimum(np.log(np.maximum(elapsed_s, 1.0)), log_limit)
        at_limit = log_duration >= log_limit
        below, upto = pool_cdf(raw.experts, raw.weights, log_duration)
        counts = observed | at_limit  # a job killed at its limit occupied exactly its limit
        upto = np.where(at_limit, 1.0, upto)
        self.calibration.learn(_readings(raw, below, upto, counts, known_s - elapsed_s))
        capped = np.minimum(raw.experts[counts], log_limit[counts][:, None, None])
        self.weights.learn(
            expert_losses(capped, log_duration[counts]),
            raw.support[counts],
            raw.identity[counts],
            known_s[counts],
        )


def _readings(
    raw: RawForecasts,
    below: FloatArray,
    upto: FloatArray,
    observed: npt.NDArray[np.bool_],
    start_s: FloatArray,
) -> PitReadings:
    return PitReadings(
        below=below, upto=upto, observed=observed, length_log_s=raw.median_log_s, identity=raw.identity,
        submitted_s=raw.submitted_s, start_s=start_s,
    )  # fmt: skip


@compiled
def _to_seconds(quantiles: FloatArray, limit_s: FloatArray, least_s: float) -> None:
    """Turn log quantiles into seconds that ascend and keep to the limit, as ``DurationForecasts.build`` does.

    Args:
        quantiles: shape (n, L), log seconds; overwritten with seconds.
        limit_s: shape (n,), ``inf`` = none.
        least_s: no quantile is shorter.
    """
    for row in range(quantiles.shape[0]):
        most_s = max(limit_s[row], least_s)
        out = quantiles[row]
        for index in range(out.shape[0]):
            value = math.exp(out[index])
            place = index
            while place > 0 and out[place - 1] > value:
                out[place] = out[place - 1]
                place -= 1
            out[place] = value
        for index in range(out.shape[0]):
            out[index] = min(max(out[index], least_s), most_s)


@compiled
def _join(
    forest: FloatArray,
    boosted: FloatArray,
    runs: npt.NDArray[np.float32],
    user: int,
    template: int,
    place: int,
    levels: FloatArray,
    out: FloatArray,
) -> None:
    """Put the experts side by side: the last runs of the template, else of the user, else the forest; and
    those of the place, else of the template.

    Args:
        forest, boosted: shape (n, L), log quantiles.
        runs: shape (n, kinds, RECENT), logs of the last durations.
        user, template, place: which of the kinds.
        levels: shape (L,).
        out: shape (n, K, L), written.
    """
    scratch = np.empty(runs.shape[2])
    for row in range(out.shape[0]):
        of_forest, of_boosting, recent, of_place = out[row, 0], out[row, 1], out[row, 2], out[row, 3]
        of_forest[:] = forest[row]
        of_boosting[:] = boosted[row]
        if not write_empirical(runs[row, template], levels, scratch, recent) and not write_empirical(
            runs[row, user], levels, scratch, recent
        ):
            recent[:] = of_forest
        if not write_empirical(runs[row, place], levels, scratch, of_place):
            of_place[:] = recent

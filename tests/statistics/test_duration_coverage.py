"""This module tests that stated probabilities come true when a log is forecast as it would have been live."""

import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from predictor.contracts.forecast import DurationForecasts
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.duration import DurationSettings
from predictor.forecasting.prequential import replay
from predictor.forecasting.quantile_boosting import BoostingSettings
from predictor.forecasting.survival_forest import ForestSettings
from predictor.forecasting.training import prepare_log, train_on_log

FloatArray = npt.NDArray[np.float64]
DAY_S = 86400.0
BOUNDS = (0.9, 0.95)  # what planning is promised; the median is corrected by half on purpose
SETTINGS = DurationSettings(
    calibration_days=10.0, forest=ForestSettings(trees=40), boosting=BoostingSettings(rounds=60)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Twenty days of jobs after the cut: how long each occupied its resources, and what was forecast.

    Attributes:
        block: shape (n,), number of the user-day of each job, whose misses come together.
        live: forecasts of a model that goes on learning from outcomes.
        frozen: forecasts of the same model as it was at the cut.
    """

    occupied_s: FloatArray
    block: npt.NDArray[np.int64]
    live: DurationForecasts
    frozen: DurationForecasts

    def covered(self, forecasts: DurationForecasts, level: float) -> FloatArray:
        return np.asarray(self.occupied_s <= forecasts.quantile_s(level) * (1.0 + 1e-9), dtype=np.float64)

    def gap(self, forecasts: DurationForecasts, level: float) -> float:
        return float(self.covered(forecasts, level).mean() - level)

    def block_error(self, forecasts: DurationForecasts, level: float) -> float:
        """Return the standard error of the coverage when whole user-days are the independent draws."""
        covered = self.covered(forecasts, level)
        sums = np.bincount(self.block, weights=covered - covered.mean())
        return float(np.sqrt((sums**2).sum()) / len(covered))


def a_stretch(random_state: int, *, drift_strength: float, slowdown: float = 1.0) -> Stretch:
    """Train on 25 days of a log with limits, bursts and failures, and forecast the 20 days after.

    Args:
        random_state: seed of the log.
        drift_strength: of the generator, per week.
        slowdown: factor on the durations of all jobs submitted after the cut, as after a change of the
            machine; limits are left out then.
    """
    spec = WorkloadSpec(
        jobs=6000, days=45.0, users=30, drift_strength=drift_strength, cancel_running_ratio=0.0,
        preemption_hazard_per_h=0.0, node_failure_hazard_per_node_h=0.0, requeue=False,
        unlimited_share=0.03 if slowdown == 1.0 else 1.0, random_state=random_state,
    )  # fmt: skip
    frame, cut_s = generate(spec).frame, spec.start_ts + 25.0 * DAY_S
    late = request_columns(frame).submitted_s >= cut_s
    vocabulary = Vocabulary.learn(request_columns(frame[~late]))
    if slowdown != 1.0:
        more_s = frame["elapsed_s"].where(pd.Series(late), 0.0).fillna(0.0) * (slowdown - 1.0)
        later = pd.to_timedelta(more_s, unit="s").astype("timedelta64[us]")
        frame = frame.assign(elapsed_s=frame["elapsed_s"] + more_s, ended_at=frame["ended_at"] + later)
    log = prepare_log(frame, vocabulary)
    model = train_on_log(log, vocabulary, cut_s=cut_s, settings=SETTINGS)
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(late & (log.outcomes.end_s > 0) & (log.outcomes.elapsed_s > 0))
    features, outcomes = log.features.take(rows), log.outcomes.take(rows)
    frozen = copy.deepcopy(model.online)
    who = pd.DataFrame({"user": features.identity, "day": outcomes.submitted_s // DAY_S})
    return Stretch(
        occupied_s=np.minimum(np.maximum(outcomes.elapsed_s, 1.0), np.maximum(features.limit_s, 1.0)),
        block=np.asarray(who.groupby(["user", "day"]).ngroup(), dtype=np.int64),
        live=replay(model.experts, copy.deepcopy(model.online), features, outcomes),
        frozen=frozen.forecast(
            frozen.consider(features, model.experts.predict(features), outcomes.submitted_s)
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("random_state", [0, 1, 2])
def test_the_bounds_of_planning_cover_what_they_promise(random_state: int) -> None:
    """Some 2,500 jobs in 300 user-days, without drift; measured gaps of q90 and q95 are within 0.02.

    Misses of one user-day come together, so the band is 3 standard errors over user-days (0.02 to 0.045),
    never wider than 0.05; the calibration was learned from few days itself, for which 0.01 is allowed.
    """
    stretch = a_stretch(random_state, drift_strength=0.0)
    assert len(stretch.occupied_s) > 2000
    for level in BOUNDS:
        band = min(3.0 * stretch.block_error(stretch.live, level) + 0.01, 0.05)
        assert abs(stretch.gap(stretch.live, level)) < band, level


@pytest.mark.slow
def test_online_calibration_follows_strong_drift_more_closely_than_a_frozen_one() -> None:
    """Templates walk by a factor of e a week; gaps to the stated level, summed over three logs.

    Measured: q90 0.04 online and 0.09 frozen, q95 0.02 and 0.04.
    """
    stretches = [a_stretch(random_state, drift_strength=1.0) for random_state in (0, 1, 2)]
    for level in BOUNDS:
        live = sum(abs(stretch.gap(stretch.live, level)) for stretch in stretches)
        frozen = sum(abs(stretch.gap(stretch.frozen, level)) for stretch in stretches)
        assert live < frozen, level


@pytest.mark.slow
def test_online_calibration_recovers_most_of_the_coverage_after_a_slowdown() -> None:
    """All jobs take four times as long from one day to the next, which no frozen model foresees.

    Measured with seeds 0 to 2: q90 covers 0.81 to 0.87 online, days of catching up included, frozen 0.64
    to 0.77. The median follows by half only: it covers 0.31 to 0.32 online, frozen 0.25 to 0.29.
    """
    stretch = a_stretch(0, drift_strength=0.0, slowdown=4.0)
    for level in BOUNDS:
        assert stretch.gap(stretch.frozen, level) < -0.15, level
        assert abs(stretch.gap(stretch.live, level)) < abs(stretch.gap(stretch.frozen, level)) / 2.0, level
    assert stretch.gap(stretch.frozen, 0.5) < stretch.gap(stretch.live, 0.5) < 0.0

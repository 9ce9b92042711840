"""This module backtests memory forecasts on a job table: trained on what had ended, tested on later jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.memory import MemoryObservation, PeakKind
from predictor.data.table import ended_at_s
from predictor.errors import EmptyInputError, SchemaError
from predictor.evaluation.memory_scores import BoundScores, PointScores, score_points
from predictor.forecasting.memory.forecaster import MemoryForecaster, MemorySettings
from predictor.forecasting.memory.jobs import PEAK_COLUMNS, observation_groups, table_observations

FloatArray = npt.NDArray[np.float64]

TEST_SHARE = 0.2
MOST_TRAINING_ROWS = 6000
_BLOCK = 200  # jobs forecast before the outcomes of the ended ones are fed back
_LEAST_ROWS = 20
_NO_BOUNDS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMemoryReport:
    """Scores on the later jobs of a table; regimes count how often each stood behind a forecast."""

    kind: PeakKind
    train_rows: int
    test_rows: int
    models: Mapping[str, PointScores]
    bound: BoundScores
    regimes: Mapping[str, int]


def backtest_job_memory(
    frame: pd.DataFrame, *, kind: PeakKind = PeakKind.USED, seed: int = 0, risk: float = 0.05,
    bounds_mib: Mapping[str, float] = _NO_BOUNDS,
) -> JobMemoryReport:  # fmt: skip
    """Train on jobs that had ended when the test begins, then forecast the last fifth, learning on the way.

    Args:
        bounds_mib: see :func:`table_observations`; such jobs are learned from and not scored.

    Raises:
        SchemaError: the table has no column of such peaks.
        EmptyInputError: fewer than 20 jobs before or after the cut have a peak.
    """
    column = PEAK_COLUMNS[kind]
    if column not in frame.columns:
        raise SchemaError(f"the table has no column '{column}'; ingest a log with memory readings first")
    frame = frame.sort_values("submitted_at", kind="stable").reset_index(drop=True)
    observations, places = table_observations(frame, kind=kind, bounds_mib=bounds_mib)
    ended = ended_at_s(frame)[places]
    submitted = _seconds(frame["submitted_at"])[places]
    observed = np.array([not one.is_oom for one in observations], dtype=bool)
    cut = float(np.quantile(submitted, 1.0 - TEST_SHARE)) if len(submitted) else 0.0
    train = np.flatnonzero(ended <= cut)[-MOST_TRAINING_ROWS:]
    test = np.flatnonzero(submitted > cut)
    if len(train) < _LEAST_ROWS or len(test) < _LEAST_ROWS:
        raise EmptyInputError(
            f"{len(train)} jobs with '{column}' had ended before the test and {len(test)} come after it; "
            f"both must be {_LEAST_ROWS} or more"
        )
    known = [observations[row] for row in train]
    settings = MemorySettings(risk=risk)
    expert = replace(settings.expert, residual=replace(settings.expert.residual, random_state=seed))
    forecaster = MemoryForecaster.fit(
        known, kind=kind, groups=observation_groups(known), settings=replace(settings, expert=expert)
    )
    p50, upper, regimes = _live(forecaster, observations, submitted, ended, test, cut)
    seen = observed[test]
    peak = np.array([observations[row].peak_mib for row in test])[seen]
    few = [regime for regime, is_seen in zip(regimes, seen, strict=True) if is_seen]
    models = {"ours": p50[seen]} | {
        name: values[seen] for name, values in _baselines(frame, observations, places, submitted, ended,
                                                          test, kind).items()
    }  # fmt: skip
    return JobMemoryReport(
        kind=kind, train_rows=len(train), test_rows=int(seen.sum()),
        models={name: score_points(values, peak) for name, values in models.items()},
        bound=BoundScores(
            target=1.0 - risk, coverage=float(np.mean(upper[seen] >= peak)),
            mean_over_mib=float(np.maximum(upper[seen] - peak, 0.0).mean()), few_groups=False,
            support=len(set(observation_groups(known))),
        ),
        regimes={name: few.count(name) for name in sorted(set(few))},
    )  # fmt: skip


def _live(
    forecaster: MemoryForecaster,
    observations: list[MemoryObservation],
    submitted: FloatArray,
    ended: FloatArray,
    test: npt.NDArray[np.intp],
    cut: float,
) -> tuple[FloatArray, FloatArray, list[str]]:
    """Forecast in blocks; before each, what ended since the last one is observed."""
    p50, upper, regimes = np.zeros(len(test)), np.zeros(len(test)), []
    known_until = cut
    for start in range(0, len(test), _BLOCK):
        block = test[start : start + _BLOCK]
        now = float(submitted[block[0]])
        for row in np.flatnonzero((ended > known_until) & (ended <= now)):
            forecaster.observe(observations[row])
        known_until = max(now, known_until)
        for at, answer in enumerate(forecaster.predict([observations[row].request for row in block])):
            p50[start + at], upper[start + at] = answer.p50_mib, answer.upper_mib
            regimes.append(str(answer.regime))
    return p50, upper, regimes


def _baselines(
    frame: pd.DataFrame,
    observations: list[MemoryObservation],
    places: list[int],
    submitted: FloatArray,
    ended: FloatArray,
    test: npt.NDArray[np.intp],
    kind: PeakKind,
) -> dict[str, FloatArray]:
    """Return the last run of the signature, the largest run of the user, and the requested host memory."""
    users = frame["user"].astype(object).to_numpy()[places]
    peaks = np.array([one.peak_mib for one in observations])
    names = np.array(observation_groups(observations), dtype=object)
    overall = float(np.median(peaks[ended <= submitted[test[0]]])) if len(test) else 1.0
    last, most = np.full(len(test), overall), np.full(len(test), overall)
    for at, row in enumerate(test):
        before = ended <= submitted[row]
        same = np.flatnonzero(before & (names == names[row]))
        mine = np.flatnonzero(before & (users == users[row]))
        if len(mine):
            most[at] = peaks[mine].max()
            last[at] = peaks[mine[np.argmax(ended[mine])]]
        if len(same):
            last[at] = peaks[same[np.argmax(ended[same])]]
    out = {"last_run": last, "user_max": most}
    if kind is PeakKind.HOST and "requested_memory_mib" in frame.columns:
        asked = frame["requested_memory_mib"].to_numpy(dtype=np.float64)[places][test]
        out["requested_memory"] = np.where(asked > 0, asked, overall)
    return out


def _seconds(times: "pd.Series[pd.Timestamp]") -> FloatArray:
    epoch = pd.Timestamp(0, tz="UTC")
    seconds = (pd.to_datetime(times, utc=True) - epoch) / pd.Timedelta(seconds=1)
    return np.asarray(seconds, dtype=np.float64)

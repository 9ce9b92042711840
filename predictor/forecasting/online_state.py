"""This module turns the online state (expert weights, calibration) into JSON and back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from predictor.forecasting.calibration import Calibration, Histogram
from predictor.forecasting.duration import DurationSettings, OnlineState
from predictor.forecasting.expert_weights import ExpertWeights, Regret


def _time(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _regret(regret: Regret) -> list[object]:
    return [regret.loss.tolist(), _time(regret.at_s), regret.burst]


def _restore_regret(values: list[Any]) -> Regret:
    at_s = -math.inf if values[1] is None else float(values[1])
    return Regret(loss=np.array(values[0], dtype=np.float64), at_s=at_s, burst=float(values[2]))


def _histogram(histogram: Histogram) -> list[object]:
    return [
        histogram.ended.tolist(),
        histogram.spread.tolist(),
        histogram.censored.tolist(),
        _time(histogram.at_s),
    ]


def _restore_histogram(values: list[Any]) -> Histogram:
    at_s = -math.inf if values[3] is None else float(values[3])
    ended, spread, censored = (np.array(item, dtype=np.float64) for item in values[:3])
    return Histogram(ended=ended, spread=spread, censored=censored, at_s=at_s)


def export_online(online: OnlineState) -> dict[str, object]:
    """Return the state as plain JSON values."""
    return {
        "prior": online.weights.prior.tolist(),
        "overall": [_regret(regret) for regret in online.weights.overall],
        "submitters": {who: _regret(regret) for who, regret in online.weights.submitters.items()},
        "calibration": {
            "overall": _histogram(online.calibration.overall),
            "kinds": [_histogram(item) for item in online.calibration.kinds],
            "lengths": [_histogram(item) for item in online.calibration.lengths],
        },
        "bursts": {who: list(burst) for who, burst in online.calibration.bursts.items()},
        "outcomes": online.calibration.outcomes,
    }


def restore_online(values: Mapping[str, Any], settings: DurationSettings) -> OnlineState:
    """Return the state that ``export_online`` wrote."""
    return OnlineState(
        weights=ExpertWeights(
            prior=np.array(values["prior"], dtype=np.float64),
            settings=settings.weights,
            overall=[_restore_regret(item) for item in values["overall"]],
            submitters={who: _restore_regret(item) for who, item in values["submitters"].items()},
        ),
        calibration=Calibration(
            settings=settings.calibration,
            overall=_restore_histogram(values["calibration"]["overall"]),
            kinds=[_restore_histogram(item) for item in values["calibration"]["kinds"]],
            lengths=[_restore_histogram(item) for item in values["calibration"]["lengths"]],
            bursts={who: (float(burst[0]), float(burst[1])) for who, burst in values["bursts"].items()},
            outcomes=int(values["outcomes"]),
        ),
    )

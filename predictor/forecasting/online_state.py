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


def export_online(online: OnlineState) -> dict[str, object]:
    """Return the state as plain JSON values."""
    return {
        "prior": online.weights.prior.tolist(),
        "overall": [_regret(regret) for regret in online.weights.overall],
        "submitters": {who: _regret(regret) for who, regret in online.weights.submitters.items()},
        "groups": [
            [group.ended.tolist(), group.censored.tolist(), _time(group.at_s)] for group in online.calibration.groups
        ],
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
            groups=[
                Histogram(
                    ended=np.array(ended, dtype=np.float64),
                    censored=np.array(censored, dtype=np.float64),
                    at_s=-math.inf if at_s is None else float(at_s),
                )
                for ended, censored, at_s in values["groups"]
            ],
            bursts={who: (float(burst[0]), float(burst[1])) for who, burst in values["bursts"].items()},
            outcomes=int(values["outcomes"]),
        ),
    )

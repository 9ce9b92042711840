"""This module turns the online state (expert weights, calibration) into JSON and back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from predictor.forecasting.calibration import Calibration, CalibrationSettings
from predictor.forecasting.duration import DurationSettings, OnlineState
from predictor.forecasting.expert_weights import ExpertWeights, Regret
from predictor.forecasting.pit_evidence import EVIDENCE_ARRAYS, Evidence

FloatArray = npt.NDArray[np.float64]


def _time(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _regret(regret: Regret) -> list[object]:
    return [regret.loss.tolist(), _time(regret.at_s), regret.burst]


def _restore_regret(values: list[Any]) -> Regret:
    at_s = -math.inf if values[1] is None else float(values[1])
    return Regret(loss=np.array(values[0], dtype=np.float64), at_s=at_s, burst=float(values[2]))


def _sparse(values: FloatArray) -> list[object]:
    """Return an array as its shape, the places that are not zero, and what is there."""
    places = np.flatnonzero(values)
    return [list(values.shape), places.tolist(), values.ravel()[places].tolist()]


def _dense(stored: list[Any]) -> FloatArray:
    values = np.zeros(stored[0])
    values.ravel()[np.array(stored[1], dtype=np.intp)] = stored[2]
    return values


def _calibration(calibration: Calibration) -> dict[str, object]:
    calibration.forget()
    seen = calibration.evidence
    return {
        "length_edges_log_s": calibration.length_edges_log_s.tolist(),
        "names": list(calibration.names),
        "outcomes": calibration.outcomes,
        "epoch_s": _time(calibration.epoch_s),
        "refreshed_s": _time(calibration.refreshed_s),
        "evidence": None
        if seen is None
        else {name: _sparse(getattr(seen, name)) for name in EVIDENCE_ARRAYS},
        "bursts": [] if seen is None else [[*key, weight] for key, weight in seen.bursts.items()],
    }


def _restore_calibration(values: Mapping[str, Any], settings: CalibrationSettings) -> Calibration:
    evidence = None
    if values["evidence"] is not None:
        evidence = Evidence(
            **{name: _dense(values["evidence"][name]) for name in EVIDENCE_ARRAYS},
            bursts={(int(who), int(burst)): float(weight) for who, burst, weight in values["bursts"]},
        )
    calibration = Calibration(
        settings=settings,
        length_edges_log_s=np.array(values["length_edges_log_s"], dtype=np.float64),
        evidence=evidence,
        names={str(name): number for number, name in enumerate(values["names"])},
        outcomes=int(values["outcomes"]),
        epoch_s=-math.inf if values["epoch_s"] is None else float(values["epoch_s"]),
    )
    if values["refreshed_s"] is not None:
        calibration.refresh(float(values["refreshed_s"]))
    return calibration


def export_online(online: OnlineState) -> dict[str, object]:
    """Return the state as plain JSON values."""
    return {
        "prior": online.weights.prior.tolist(),
        "overall": [_regret(regret) for regret in online.weights.overall],
        "submitters": {who: _regret(regret) for who, regret in online.weights.submitters.items()},
        "calibration": _calibration(online.calibration),
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
        calibration=_restore_calibration(values["calibration"], settings.calibration),
    )

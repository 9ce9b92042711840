"""This module reads from a bundle what live jobs and forecasts are held against."""

from collections.abc import Mapping
from dataclasses import dataclass

from predictor.errors import PredictorError
from predictor.forecasting.bundle import DurationBundle
from predictor.forecasting.live import LiveForecaster
from predictor.monitoring.watched import DriftReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a bundle tells of its training; None = it does not.

    Attributes:
        mean_abs_log_ratio: of median forecast and duration, when the model was judged.
    """

    drift: DriftReference | None = None
    mean_abs_log_ratio: float | None = None


def evidence_of(metadata: Mapping[str, object]) -> Evidence:
    """Return what the metadata of a bundle tell; what cannot be read is left out."""
    document, scores = metadata.get("drift"), metadata.get("scores")
    drift = None
    if isinstance(document, dict):
        try:
            drift = DriftReference.from_json(document)
        except (PredictorError, LookupError, TypeError, AttributeError):
            drift = None
    error = scores.get("mean_abs_log_ratio") if isinstance(scores, dict) else None
    return Evidence(drift=drift, mean_abs_log_ratio=float(error) if isinstance(error, int | float) else None)


class BundleForecaster(LiveForecaster):
    """The forecaster of a bundle, which also says what it is to be held against."""

    def __init__(self, bundle: DurationBundle) -> None:
        super().__init__(bundle)
        self.evidence = evidence_of(bundle.metadata)

"""This module makes the bundle of last resort: a tiny model of a synthetic cluster, without any history."""

from pathlib import Path

from predictor.data.synthetic import WorkloadSpec, generate
from predictor.features.history import HistoryStore
from predictor.features.request import request_columns
from predictor.forecasting.bundle import BundleInfo, write_bundle
from predictor.forecasting.duration import DurationSettings
from predictor.forecasting.quantile_boosting import BoostingSettings
from predictor.forecasting.survival_forest import ForestSettings
from predictor.forecasting.training import train_duration

FALLBACK_VERSION = "fallback"
_SPEC = WorkloadSpec(jobs=6_000, days=45.0, users=40, random_state=20260105)
_SETTINGS = DurationSettings(
    forest=ForestSettings(trees=16, leaves=24, bins=32), boosting=BoostingSettings(rounds=24, leaves=8)
)
_CARD = """# The fallback model

Trained on a synthetic log of {jobs} jobs (seed {seed}); it knows nothing of your cluster.
It answers only while no trained model can be loaded, and `/readyz` says so. Its intervals
are those of the synthetic cluster: train your own with `predictor retrain`.
"""


def make_fallback(directory: Path) -> BundleInfo:
    """Train and write the fallback bundle into an empty or new directory."""
    frame = generate(_SPEC).frame
    end_s = float(request_columns(frame).submitted_s.max()) + 1.0
    model = train_duration(frame, cut_s=end_s, settings=_SETTINGS)
    model.history = HistoryStore()  # users of the synthetic cluster are nobody's history
    model.online.make_anonymous()
    card = _CARD.format(jobs=_SPEC.jobs, seed=_SPEC.random_state)
    facts = {"source": "synthetic", "jobs": _SPEC.jobs}
    return write_bundle(directory, model, version=FALLBACK_VERSION, card=card, metadata=facts)

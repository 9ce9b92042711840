"""This module opens the tracker without importing MLflow before it is needed."""

import os
from typing import Protocol

from pipelines.measured_retrain import MeasuredTracker
from pipelines.retrain import Tracker
from pipelines.settings import PipelineSettings


class FullTracker(Tracker, MeasuredTracker, Protocol):
    """Keeps runs of all targets."""


def silence_telemetry() -> None:
    """Let MLflow send no usage data, unless the site has decided about it; call before it is imported."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


def open_tracker(settings: PipelineSettings) -> FullTracker:
    """Return the tracker on the configured MLflow store."""
    silence_telemetry()
    from pipelines.tracking import MlflowTracker  # noqa: PLC0415  (MLflow takes seconds to import)

    return MlflowTracker(
        uri=settings.tracking_uri,
        artifact_root=settings.artifact_root,
        experiment=settings.tracking.experiment,
    )

"""This module binds retraining to the duration forecaster of the domain library."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.domain import Bundle, Document, Domain, Model, Progress
from predictor import __version__
from predictor.evaluation.report import ScoreReport
from predictor.evaluation.window import evaluate_baselines, evaluate_model
from predictor.features.assemble import feature_names
from predictor.forecasting.bundle import PROTOCOL, model_spec, read_bundle, write_bundle
from predictor.forecasting.duration import DurationSettings, boosting_columns
from predictor.forecasting.training import DurationModel, train_duration
from predictor.monitoring.watched import learn_reference

_PIT_BINS = 20
_IMPORTANCES = "feature_importances:"  # a section of LightGBM's native text: NAME=SPLITS


class DurationTrainer:
    """Trains the duration model."""

    def describe(self, random_state: int) -> Document:
        """Return settings, feature specification, and the version of the code."""
        code = {"version": __version__, "bundle_protocol": PROTOCOL, "feature_spec": model_spec()}
        return {**code, **DurationSettings(random_state=random_state).to_json()}

    def train(self, frame: pd.DataFrame, *, cut_s: float, random_state: int, progress: Progress) -> Model:
        """Train with what was known at the cut."""
        settings = DurationSettings(random_state=random_state)
        return train_duration(frame, cut_s=cut_s, settings=settings, progress=progress)

    def importance(self, model: Model) -> Mapping[str, float]:
        """Return the share of splits of each feature over all boosted quantiles."""
        names, columns = feature_names(), boosting_columns()
        splits: dict[str, float] = {}
        for key, text in _duration(model).texts.items():
            if key.startswith("boosting"):
                for column, count in split_counts(text).items():
                    name = names[columns[column]]
                    splits[name] = splits.get(name, 0.0) + count
        total = sum(splits.values()) or 1.0
        return {name: count / total for name, count in splits.items()}


class DurationEvaluator:
    """Scores duration models on a window."""

    def score(
        self, model: Model, frame: pd.DataFrame, *, from_s: float, until_s: float | None, name: str
    ) -> Document:
        """Score one model, which learns online in the window as it does when it serves."""
        return report_document(
            evaluate_model(_duration(model), frame, from_s=from_s, until_s=until_s, name=name), name
        )

    def score_baselines(self, frame: pd.DataFrame, *, from_s: float, until_s: float | None) -> Document:
        """Score all baselines."""
        return evaluate_baselines(frame, from_s=from_s, until_s=until_s).to_json()


class DurationBundles:
    """Writes and reads bundles of duration models."""

    def write(
        self, directory: Path, model: Model, *, version: str, card: str, metadata: Mapping[str, object]
    ) -> str:
        """Write a bundle and return its digest."""
        return write_bundle(directory, _duration(model), version=version, card=card, metadata=metadata).digest

    def read(self, directory: Path, expected_digest: str | None = None) -> Bundle:
        """Read a bundle back and check its digests."""
        bundle = read_bundle(directory, expected_digest=expected_digest)
        info = bundle.info
        return Bundle(
            version=info.version, digest=info.digest, feature_spec=info.feature_spec,
            trained_until_s=info.trained_until_s, model=bundle.model,
        )  # fmt: skip


def duration_domain() -> Domain:
    """Return the duration forecaster as retraining uses it."""
    return Domain(
        target="duration",
        trainer=DurationTrainer(),
        evaluator=DurationEvaluator(),
        bundles=DurationBundles(),
        drift_reference=lambda frame: learn_reference(frame).to_json(),
    )


def report_document(report: ScoreReport, name: str) -> Document:
    """Return a report as JSON, with the PIT of the named model as counts in equal bins."""
    document = report.to_json()
    counts, _ = np.histogram(report.pit[np.isfinite(report.pit)], bins=_PIT_BINS, range=(0.0, 1.0))
    models = document["models"]
    if isinstance(models, dict) and name in models:
        models[name]["pit"] = counts.tolist()
    return document


def split_counts(text: str) -> dict[int, int]:
    """Return the number of splits by column of a model in LightGBM's native text."""
    _, found, section = text.partition(_IMPORTANCES)
    counts = {}
    for line in section.strip().splitlines() if found else ():
        name, _, count = line.partition("=")
        if not name.startswith("Column_"):
            break
        counts[int(name.removeprefix("Column_"))] = int(count)
    return counts


def _duration(model: Model) -> DurationModel:
    if not isinstance(model, DurationModel):
        raise TypeError(f"a duration model is needed, got {type(model).__name__}")
    return model

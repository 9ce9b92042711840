"""This module says what a retraining needs of the domain, and binds it to the duration forecaster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

Progress = Callable[[str, float], None]
Document = dict[str, object]  # a JSON object
Model = object  # only the domain looks inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle that was read back: what it says of itself, and the model in it."""

    version: str
    digest: str
    feature_spec: str
    trained_until_s: float
    model: Model


class Trainer(Protocol):
    """Trains a model on what was known at a moment."""

    def describe(self, random_state: int) -> Document:
        """Return all that fixes what training yields beside the data: settings and feature specification."""
        ...

    def train(self, frame: pd.DataFrame, *, cut_s: float, random_state: int, progress: Progress) -> Model:
        """Train on the jobs of the table, using only what was known at ``cut_s``."""
        ...

    def importance(self, model: Model) -> Mapping[str, float]:
        """Return the importance of each feature; empty where the model has none."""
        ...


class Evaluator(Protocol):
    """Scores models on a window; the reports are JSON as :func:`pipelines.reports.read_report` takes it."""

    def score(
        self, model: Model, frame: pd.DataFrame, *, from_s: float, until_s: float | None, name: str
    ) -> Document:
        """Score one model on the jobs submitted in the window."""
        ...

    def score_baselines(self, frame: pd.DataFrame, *, from_s: float, until_s: float | None) -> Document:
        """Score all baselines on the jobs submitted in the window."""
        ...


class BundleFormat(Protocol):
    """Writes and reads bundles."""

    def write(
        self, directory: Path, model: Model, *, version: str, card: str, metadata: Mapping[str, object]
    ) -> str:
        """Write a bundle and return its digest."""
        ...

    def read(self, directory: Path, expected_digest: str | None = None) -> Bundle:
        """Read a bundle back and check its digests."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The parts of the domain that a retraining of one target uses."""

    target: str
    trainer: Trainer
    evaluator: Evaluator
    bundles: BundleFormat
    drift_reference: Callable[[pd.DataFrame], Document] | None = None

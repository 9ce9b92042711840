"""This module is a small stand-in for the duration forecaster: a log-normal for each user."""

# ruff: noqa: ARG002  (a stand-in takes what the real one takes)

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from pipelines.domain import Bundle, Document, Domain, Model, Progress
from predictor.data.schema import seconds
from predictor.data.table import ended_at_s
from predictor.errors import BundleCorruptError

Hook = Callable[[str], None]


def nothing(_moment: str) -> None:
    """Do nothing at a moment of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTrainer:
    """Fits a log-normal for each user; ``bias`` makes it worse, ``hook`` is told where it is."""

    bias: float = 0.0
    feature_spec: str = "fake-1"
    hook: Hook = nothing
    seconds_per_fit: float = 0.0

    def describe(self, random_state: int) -> Document:
        return {"feature_spec": self.feature_spec, "random_state": random_state, "bias": self.bias}

    def train(self, frame: pd.DataFrame, *, cut_s: float, random_state: int, progress: Progress) -> Model:
        self.hook("train")
        progress("fit", 0.5)
        time.sleep(self.seconds_per_fit)
        ended = ended_at_s(frame) < cut_s
        past = frame[ended & (frame["elapsed_s"] > 0).to_numpy()]
        logs = np.log(past["elapsed_s"])
        users = logs.groupby(past["user"]).agg(["mean", "std", "count"])
        users = users[users["count"] >= 5]
        return {
            "users": {str(user): [row["mean"], row["std"]] for user, row in users.iterrows()},
            "all": [float(logs.mean()), float(logs.std())], "bias": self.bias, "cut_s": cut_s,
        }  # fmt: skip

    def importance(self, model: Model) -> Mapping[str, float]:
        return {"user": 0.8, "everything": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeEvaluator:
    """Scores log-normals in closed form."""

    hook: Hook = nothing

    def score(
        self, model: Model, frame: pd.DataFrame, *, from_s: float, until_s: float | None, name: str
    ) -> Document:
        self.hook(f"score {name}")
        return _report({name: model}, frame, from_s, until_s)

    def score_baselines(self, frame: pd.DataFrame, *, from_s: float, until_s: float | None) -> Document:
        self.hook("score baselines")
        trained: Any = FakeTrainer().train(frame, cut_s=from_s, random_state=0, progress=lambda *_: None)
        median = {**trained, "users": {}}
        return _report({"global_median": median, "off": {**median, "bias": 2.0}}, frame, from_s, until_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeBundles:
    """Writes a model as JSON."""

    hook: Hook = nothing

    def write(
        self, directory: Path, model: Model, *, version: str, card: str, metadata: Mapping[str, object]
    ) -> str:
        self.hook("write")
        (directory / "card.md").write_text(card)
        (directory / "metadata.json").write_text(json.dumps(dict(metadata)))
        (directory / "model.json").write_text(json.dumps({"version": version, "model": model}))
        self.hook("written")
        return digest_of(directory, None)

    def read(self, directory: Path, expected_digest: str | None = None) -> Bundle:
        digest = digest_of(directory, expected_digest)
        stored = json.loads((directory / "model.json").read_text())
        return Bundle(
            version=stored["version"], digest=digest, feature_spec="fake-1",
            trained_until_s=stored["model"]["cut_s"], model=stored["model"],
        )  # fmt: skip


def digest_of(directory: Path, expected_digest: str | None) -> str:
    """Return the digest of all files of a bundle."""
    if not (directory / "model.json").is_file():
        raise BundleCorruptError(f"'{directory}' holds no model")
    parts = [path.read_bytes() for path in sorted(directory.iterdir())]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()
    if expected_digest not in (None, digest):
        raise BundleCorruptError(f"'{directory}' was altered")
    return digest


def fake_domain(bias: float = 0.0, hook: Hook = nothing, seconds_per_fit: float = 0.0) -> Domain:
    """Return the stand-in."""
    return Domain(
        target="duration",
        trainer=FakeTrainer(bias=bias, hook=hook, seconds_per_fit=seconds_per_fit),
        evaluator=FakeEvaluator(hook=hook),
        bundles=FakeBundles(hook=hook),
    )


def _report(models: Mapping[str, Any], frame: pd.DataFrame, from_s: float, until_s: float | None) -> Document:
    submitted_s = seconds(frame["submitted_at"])
    inside = (submitted_s >= from_s) & (submitted_s < (np.inf if until_s is None else until_s))
    rows = frame[inside & (frame["elapsed_s"] > 0).to_numpy()]
    gpu = rows["requested_gpus"].fillna(0) > 0
    slices = {
        name: {"rows": len(part), "models": {key: _scores(model, part) for key, model in models.items()}}
        for name, part in (("gpu_jobs", rows[gpu]), ("cpu_jobs", rows[~gpu]))
        if len(part)
    }
    scored = {name: _scores(model, rows) for name, model in models.items()}
    return {"target": "duration", "test_rows": len(rows), "models": scored, "slices": slices}


def _scores(model: Any, rows: pd.DataFrame) -> Document:
    fitted = [model["users"].get(user, model["all"]) for user in rows["user"]]
    mean = np.array([mean for mean, _ in fitted]) + model["bias"]
    sigma = np.maximum([sigma for _, sigma in fitted], 0.05)
    actual = np.log(rows["elapsed_s"].to_numpy())
    z = (actual - mean) / sigma
    crps = sigma * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    ratio = np.abs(actual - mean)
    coverage = {f"q{level * 100:g}": float((z <= norm.ppf(level)).mean()) for level in (0.5, 0.9, 0.95)}
    return {
        "rows": len(rows), "crps_log": float(crps.mean()), "mean_abs_log_ratio": float(ratio.mean()),
        "median_abs_log_ratio": float(np.median(ratio)), "within_2x": float((ratio < np.log(2)).mean()),
        "under_rate": float((z > 0).mean()), "mae_s": float(np.abs(np.exp(actual) - np.exp(mean)).mean()),
        "coverage": coverage, "pinball": {},
        "pit": np.histogram(norm.cdf(z), bins=10, range=(0, 1))[0].tolist(),
    }  # fmt: skip

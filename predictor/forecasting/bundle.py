"""This module writes, verifies and reads model bundles.

A bundle is a directory: LightGBM's native text, JSON, arrays in .npz (never pickles), a card, and
``manifest.json`` with the SHA-256 of every file. The digest of the manifest identifies the bundle; whoever
serves it compares that digest with the registry's record.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from predictor.errors import BundleCorruptError, BundleMissingError, FeatureSpecError, NotFittedError
from predictor.features.assemble import spec_hash
from predictor.features.history import HistoryStore
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.calibration import CalibrationSettings
from predictor.forecasting.duration import (
    DurationSettings,
    Experts,
    OnlineState,
    boosting_columns,
    forest_columns,
)
from predictor.forecasting.expert_weights import WeightSettings
from predictor.forecasting.online_state import export_online, restore_online
from predictor.forecasting.quantile_boosting import BoostingSettings, QuantileBoosting
from predictor.forecasting.survival_forest import ForestSettings, SurvivalForest
from predictor.forecasting.training import DurationModel
from predictor.forecasting.trees import Trees

PROTOCOL = 4
NAME = "duration"
MANIFEST = "manifest.json"
_ARRAYS, _HISTORY = "arrays.npz", "history.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInfo:
    """What identifies a bundle.

    Attributes:
        digest: SHA-256 of the manifest, hexadecimal.
        trained_until_s: UTC epoch seconds up to which training knew the log.
    """

    name: str
    version: str
    digest: str
    feature_spec: str
    created_at: str
    trained_until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationBundle:
    """A bundle that was read and verified."""

    info: BundleInfo
    model: DurationModel
    history: HistoryStore
    metadata: dict[str, Any]


def write_bundle(
    directory: Path, model: DurationModel, *, version: str, card: str, metadata: Mapping[str, object]
) -> BundleInfo:
    """Write a bundle into a new directory and return its identity.

    Args:
        directory: must not exist yet, or be empty.
        model: trained with its history.
        version: unique name of this training.
        card: model card, Markdown.
        metadata: JSON-able facts: metrics, data fingerprint, time range.

    Raises:
        NotFittedError: the model has no history; train it with ``train_duration``.
    """
    if model.history is None:
        raise NotFittedError(
            "this model keeps no history; train it with train_duration before writing a bundle"
        )
    directory.mkdir(parents=True, exist_ok=True)
    experts = model.experts
    for name, text in model.texts.items():
        (directory / f"{name}.txt").write_text(text, encoding="utf-8")
    _write_arrays(
        directory / _ARRAYS,
        {
            "edges_log_s": experts.forest.edges_log_s,
            "ended": experts.forest.ended,
            "censored": experts.forest.censored,
            "levels": experts.boosting.levels,
        },
    )
    _write_arrays(directory / _HISTORY, model.history.export_arrays())
    _write_json(directory / "history.json", model.history.export_names())
    _write_json(directory / "online.json", export_online(model.online))
    _write_json(
        directory / "model.json",
        {
            "vocabulary": experts.vocabulary.values,
            "fallback_log_s": experts.boosting.fallback_log_s,
            "settings": model.settings.to_json(),
        },
    )
    (directory / "card.md").write_text(card, encoding="utf-8")
    manifest = {
        "protocol": PROTOCOL,
        "name": NAME,
        "version": version,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "feature_spec": model_spec(),
        "trained_until_s": experts.trained_until_s,
        "metadata": dict(metadata),
        "files": {path.name: _sha256(path) for path in sorted(directory.iterdir()) if path.name != MANIFEST},
    }
    _write_json(directory / MANIFEST, manifest)
    return _info(manifest, _sha256(directory / MANIFEST))


def model_spec() -> str:
    """Return a short hash of the features and of which of them each expert reads."""
    columns = [forest_columns().tolist(), boosting_columns().tolist()]
    return hashlib.sha256(json.dumps([spec_hash(), columns]).encode()).hexdigest()[:16]


def verify_bundle(directory: Path, *, expected_digest: str | None = None) -> BundleInfo:
    """Check every digest of a bundle and return its identity.

    Raises:
        BundleMissingError: there is no bundle.
        BundleCorruptError: files are absent, altered or unreadable; all of them are named.
    """
    manifest, digest = _read_manifest(directory)
    faults = []
    if expected_digest is not None and digest != expected_digest:
        faults.append(f"{MANIFEST} has digest {digest[:12]}..., the registry says {expected_digest[:12]}...")
    for name, wanted in manifest["files"].items():
        path = directory / name
        if "/" in name or not path.is_file():
            faults.append(f"{name} is absent")
        elif _sha256(path) != wanted:
            faults.append(f"{name} was altered")
    if faults:
        raise BundleCorruptError(
            f"bundle '{directory.name}' does not match its record; publish it again or roll back with "
            "'predictor models rollback'",
            faults=faults,
        )
    return _info(manifest, digest)


def identified(
    directory: Path, *, name: str, protocol: int, spec: str, expected_digest: str | None = None
) -> tuple[BundleInfo, dict[str, Any]]:
    """Return identity and manifest of a bundle whose files are intact and that the caller can read.

    Args:
        name: target that the bundle must be of.
        protocol: layout of files that the caller reads.
        spec: hash of the features that the caller computes.

    Raises:
        BundleMissingError: there is none of that target.
        BundleCorruptError: it does not match its digests, or has another layout.
        FeatureSpecError: it was trained on other features.
    """
    info = verify_bundle(directory, expected_digest=expected_digest)
    manifest, _ = _read_manifest(directory)
    if info.name != name:
        raise BundleMissingError(f"'{directory.name}' holds a bundle '{info.name}', not '{name}'")
    if manifest["protocol"] != protocol:
        raise BundleCorruptError(
            f"bundle '{info.version}' has protocol {manifest['protocol']}, this code reads {protocol}; "
            "retrain"
        )
    if info.feature_spec != spec:
        raise FeatureSpecError(
            f"bundle '{info.version}' was trained on feature spec {info.feature_spec}, this code computes "
            f"{spec}; retrain, or roll back with 'predictor models rollback'"
        )
    return info, manifest


def read_bundle(directory: Path, *, expected_digest: str | None = None) -> DurationBundle:
    """Verify and load a bundle; nothing is ever unpickled.

    Raises:
        BundleMissingError: there is no bundle.
        BundleCorruptError: it does not match its digests, or cannot be read.
        FeatureSpecError: it was trained on other features than this code computes.
    """
    info, manifest = identified(
        directory, name=NAME, protocol=PROTOCOL, spec=model_spec(), expected_digest=expected_digest
    )
    try:
        return _load(directory, info, manifest)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BundleCorruptError(f"bundle '{info.version}' cannot be read: {error!r}") from error


def _load(directory: Path, info: BundleInfo, manifest: dict[str, Any]) -> DurationBundle:
    arrays = _read_arrays(directory / _ARRAYS)
    described = json.loads((directory / "model.json").read_text(encoding="utf-8"))
    settings = _settings(described["settings"])
    names = ["forest", *(f"boosting_{index}" for index in range(len(arrays["levels"])))]
    texts = {name: (directory / f"{name}.txt").read_text(encoding="utf-8") for name in names}
    experts = Experts(
        vocabulary=Vocabulary(values=tuple(tuple(values) for values in described["vocabulary"])),
        forest=SurvivalForest(
            trees=Trees.parse(texts["forest"]),
            edges_log_s=arrays["edges_log_s"],
            ended=arrays["ended"],
            censored=arrays["censored"],
        ),
        boosting=QuantileBoosting(
            models=tuple(Trees.parse(texts[name]) for name in names[1:]),
            levels=arrays["levels"],
            fallback_log_s=float(described["fallback_log_s"]),
        ),
        trained_until_s=info.trained_until_s,
    )
    history = HistoryStore.restore(
        _read_arrays(directory / _HISTORY),
        json.loads((directory / "history.json").read_text(encoding="utf-8")),
    )
    online: OnlineState = restore_online(
        json.loads((directory / "online.json").read_text(encoding="utf-8")), settings
    )
    model = DurationModel(experts=experts, online=online, settings=settings, texts=texts, history=history)
    return DurationBundle(info=info, model=model, history=history, metadata=manifest["metadata"])


def _settings(values: Mapping[str, Any]) -> DurationSettings:
    boosting = dict(values["boosting"])
    boosting["levels"] = tuple(boosting["levels"])
    return DurationSettings(
        **{
            **values,
            "forest": ForestSettings(**values["forest"]),
            "boosting": BoostingSettings(**boosting),
            "weights": WeightSettings(**values["weights"]),
            "calibration": CalibrationSettings(**values["calibration"]),
        }
    )


def _info(manifest: Mapping[str, Any], digest: str) -> BundleInfo:
    return BundleInfo(
        name=str(manifest["name"]),
        version=str(manifest["version"]),
        digest=digest,
        feature_spec=str(manifest["feature_spec"]),
        created_at=str(manifest["created_at"]),
        trained_until_s=float(manifest["trained_until_s"]),
    )


def _read_manifest(directory: Path) -> tuple[dict[str, Any], str]:
    path = directory / MANIFEST
    if not path.is_file():
        raise BundleMissingError(f"there is no bundle at '{directory}'; train one with 'predictor retrain'")
    try:
        manifest = json.loads(path.read_bytes())
        complete = {
            "protocol",
            "name",
            "version",
            "created_at",
            "feature_spec",
            "trained_until_s",
            "metadata",
            "files",
        }
        if missing := complete - set(manifest):
            raise BundleCorruptError(f"{MANIFEST} of '{directory.name}' lacks {', '.join(sorted(missing))}")
    except (ValueError, TypeError) as error:
        raise BundleCorruptError(f"{MANIFEST} of '{directory.name}' is no JSON object: {error}") from error
    return manifest, _sha256(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, allow_nan=True, separators=(",", ":")), encoding="utf-8")


def _write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    np.savez_compressed(path, allow_pickle=False, **arrays)


def _read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}

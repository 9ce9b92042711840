"""This module writes and reads bundles of topology forecasters: JSON and arrays; never pickles.

``manifest.json`` holds the SHA-256 of every file; its own digest identifies the bundle.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from predictor.contracts.topology import Evidence, PlacementRuns, TypeRuns
from predictor.errors import BundleCorruptError
from predictor.forecasting.bundle import MANIFEST, BundleInfo, identified, verify_bundle
from predictor.forecasting.topology.calibrate import Residuals
from predictor.forecasting.topology.cluster_fit import ClusterFit, KernelSettings
from predictor.forecasting.topology.forecaster import TopologyForecaster, newest_runs
from predictor.forecasting.topology.gpu_types import TypeSettings, TypeSpeeds
from predictor.forecasting.topology.rows import SHAPE_COLUMNS, rows_of_runs

PROTOCOL = 2
NAME = "topology"
_ARRAYS, _MODEL, _CARD = "arrays.npz", "model.json", "card.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyBundle:
    """A bundle that was read and verified."""

    info: BundleInfo
    model: TopologyForecaster
    metadata: Mapping[str, object]


def topology_spec() -> str:
    """Return a short hash of the features of a shape."""
    return hashlib.sha256(json.dumps(SHAPE_COLUMNS).encode()).hexdigest()[:16]


def write_topology_bundle(
    directory: Path,
    model: TopologyForecaster,
    *,
    version: str,
    card: str,
    metadata: Mapping[str, object],
    trained_until_s: float = 0.0,
) -> BundleInfo:
    """Write a bundle into a new or empty directory and return its identity.

    Args:
        version: unique name of this training.
        card: model card, Markdown.
        metadata: JSON-able facts: metrics, data fingerprint.
    """
    directory.mkdir(parents=True, exist_ok=True)
    runs = model.runs
    names = sorted(model.fits)
    arrays: dict[str, npt.NDArray[Any]] = {
        "node_gpus": runs.node_gpus, "local_batch": runs.local_batch, "step_time_s": runs.step_time_s,
        "one_gpu_step_s": runs.one_gpu_step_s, "gradient_bytes": runs.gradient_bytes,
    }  # fmt: skip
    arrays |= {f"weights_{at}": model.fits[name].weights for at, name in enumerate(names)}
    described: dict[str, object] = {
        "clusters": runs.clusters, "signatures": runs.signatures, "patterns": runs.patterns, "fits": names,
        "residuals": {evidence.value: list(of) for evidence, of in model.residuals.by_evidence.items()},
        "settings": asdict(model.settings), "types": None,
    }  # fmt: skip
    if model.types is not None:
        typed = model.types.runs
        arrays |= {
            "type_config": typed.config,
            "type_throughput": typed.throughput,
            "type_weights": model.types.weights,
        }
        described["types"] = {
            "signatures": typed.signatures, "gpu_types": typed.gpu_types,
            "settings": asdict(model.types.settings),
        }  # fmt: skip
    np.savez_compressed(directory / _ARRAYS, allow_pickle=False, **arrays)
    _write_json(directory / _MODEL, described)
    (directory / _CARD).write_text(card, encoding="utf-8")
    _write_json(
        directory / MANIFEST,
        {
            "protocol": PROTOCOL, "name": NAME, "version": version,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"), "feature_spec": topology_spec(),
            "trained_until_s": trained_until_s, "metadata": dict(metadata),
            "files": {
                name: hashlib.sha256((directory / name).read_bytes()).hexdigest()
                for name in (_ARRAYS, _MODEL, _CARD)
            },
        },
    )  # fmt: skip
    return verify_bundle(directory)


def read_topology_bundle(directory: Path, *, expected_digest: str | None = None) -> TopologyBundle:
    """Verify and load a bundle; nothing is ever unpickled.

    Raises:
        BundleMissingError: there is no bundle.
        BundleCorruptError: it does not match its digests, cannot be read, or is of another model.
        FeatureSpecError: it was trained on other features than this code computes.
    """
    info, manifest = identified(
        directory, name=NAME, protocol=PROTOCOL, spec=topology_spec(), expected_digest=expected_digest
    )
    try:
        model = _load(directory, info.version)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BundleCorruptError(f"bundle '{info.version}' cannot be read: {error!r}") from error
    return TopologyBundle(info=info, model=model, metadata=manifest["metadata"])


def _load(directory: Path, version: str) -> TopologyForecaster:
    with np.load(directory / _ARRAYS, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    described = json.loads((directory / _MODEL).read_text(encoding="utf-8"))
    runs = PlacementRuns(
        clusters=tuple(described["clusters"]), signatures=tuple(described["signatures"]),
        patterns=tuple(tuple(pattern) for pattern in described["patterns"]),
        node_gpus=arrays["node_gpus"], local_batch=arrays["local_batch"],
        step_time_s=arrays["step_time_s"], one_gpu_step_s=arrays["one_gpu_step_s"],
        gradient_bytes=arrays["gradient_bytes"],
    )  # fmt: skip
    settings = KernelSettings(**_tuples(described["settings"]))
    fits = {
        name: ClusterFit(
            rows=rows_of_runs(newest_runs(runs, name)), weights=arrays[f"weights_{at}"], settings=settings
        )
        for at, name in enumerate(described["fits"])
    }
    return TopologyForecaster(
        runs=runs, fits=fits, settings=settings, version=version,
        residuals=Residuals(
            by_evidence={Evidence(name): tuple(of) for name, of in described["residuals"].items()}
        ),
        types=_types(described["types"], arrays),
    )  # fmt: skip


def _types(described: Mapping[str, Any] | None, arrays: Mapping[str, npt.NDArray[Any]]) -> TypeSpeeds | None:
    if described is None:
        return None
    return TypeSpeeds(
        runs=TypeRuns(
            signatures=tuple(described["signatures"]), gpu_types=tuple(described["gpu_types"]),
            config=arrays["type_config"], throughput=arrays["type_throughput"],
        ),
        weights=arrays["type_weights"], settings=TypeSettings(**described["settings"]),
    )  # fmt: skip


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")), encoding="utf-8")

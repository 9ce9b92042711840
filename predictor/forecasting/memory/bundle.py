"""This module writes and reads bundles of memory forecasters: LightGBM's text, JSON, arrays; never pickles.

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

from predictor.contracts.memory import PeakKind, Stratum
from predictor.errors import BundleCorruptError
from predictor.forecasting.bundle import MANIFEST, BundleInfo, identified, verify_bundle
from predictor.forecasting.memory.bound import AdaptiveRisk, GroupScores, MemoryBound
from predictor.forecasting.memory.expert import Expert, ExpertSettings
from predictor.forecasting.memory.features import MOVING, FeatureSpace
from predictor.forecasting.memory.forecaster import MemoryForecaster, MemorySettings
from predictor.forecasting.memory.physics import PARTS, Physics
from predictor.forecasting.memory.residual import GrownTrees, ResidualSettings
from predictor.forecasting.memory.signature_history import SignatureHistory

PROTOCOL = 3
NAME = "vram"
_EXPERTS = ("rich", "poor")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBundle:
    """A bundle that was read and verified."""

    info: BundleInfo
    model: MemoryForecaster
    metadata: Mapping[str, object]


def memory_spec() -> str:
    """Return a short hash of the columns that every space of features has, and of the formula's parts."""
    return hashlib.sha256(json.dumps([MOVING, PARTS]).encode()).hexdigest()[:16]


def write_memory_bundle(
    directory: Path,
    model: MemoryForecaster,
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
        trained_until_s: UTC epoch seconds up to which training knew the runs.
    """
    directory.mkdir(parents=True, exist_ok=True)
    described: dict[str, Any] = {
        "kind": str(model.kind), "settings": asdict(model.settings),
        "families": sorted(model.known_families), "experts": {},
    }  # fmt: skip
    arrays = _score_arrays("history", model.history_scores)
    for name in _EXPERTS:
        expert: Expert | None = getattr(model, name)
        if expert is None:
            continue
        described["experts"][name] = {
            "numbers": expert.space.numbers, "tokens": expert.space.tokens, "kinds": expert.physics.kinds,
            "unknown_mib": expert.physics.unknown_mib, "trees": len(expert.trees.texts),
            "spread": len(expert.spread.texts),
            "guess_share": expert.bound.guess_share, "strata": [str(key) for key in expert.bound.strata],
        }  # fmt: skip
        arrays[f"{name}.coefficients"] = expert.physics.coefficients
        for stratum, scores in expert.bound.strata.items():
            arrays |= _score_arrays(f"{name}.{stratum}", scores)
        for part, trees in (("trees", expert.trees), ("spread", expert.spread)):
            for at, text in enumerate(trees.texts):
                (directory / f"{name}_{part}_{at}.txt").write_text(text, encoding="utf-8")
    np.savez_compressed(directory / "arrays.npz", allow_pickle=False, **arrays)
    online = {str(key): [one.target, one.gamma, one.asked] for key, one in model.risks.items()}
    _write_json(directory / "model.json", described)
    _write_json(directory / "online.json", online)
    _write_json(directory / "history.json", model.history.export())
    (directory / "card.md").write_text(card, encoding="utf-8")
    manifest = {
        "protocol": PROTOCOL, "name": NAME, "version": version,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"), "feature_spec": memory_spec(),
        "trained_until_s": trained_until_s, "metadata": dict(metadata),
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                  for path in sorted(directory.iterdir()) if path.name != MANIFEST},
    }  # fmt: skip
    _write_json(directory / MANIFEST, manifest)
    return verify_bundle(directory)


def read_memory_bundle(directory: Path, *, expected_digest: str | None = None) -> MemoryBundle:
    """Verify and load a bundle; nothing is ever unpickled.

    Raises:
        BundleMissingError: there is no bundle.
        BundleCorruptError: it does not match its digests, or cannot be read.
        FeatureSpecError: it was trained on other features than this code computes.
    """
    info, manifest = identified(
        directory, name=NAME, protocol=PROTOCOL, spec=memory_spec(), expected_digest=expected_digest
    )
    try:
        return MemoryBundle(info=info, model=_load(directory), metadata=manifest["metadata"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BundleCorruptError(f"bundle '{info.version}' cannot be read: {error!r}") from error


def _load(directory: Path) -> MemoryForecaster:
    described = _read_json(directory / "model.json")
    with np.load(directory / "arrays.npz", allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    experts: dict[str, Expert | None] = {
        name: _expert(directory, name, described["experts"][name], arrays)
        if name in described["experts"] else None
        for name in _EXPERTS
    }  # fmt: skip
    online = _read_json(directory / "online.json")
    return MemoryForecaster(
        kind=PeakKind(described["kind"]), settings=_settings(described["settings"]), rich=experts["rich"],
        poor=experts["poor"],
        history=SignatureHistory.restore(_read_json(directory / "history.json").items()),
        history_scores=_scores("history", arrays), known_families=frozenset(described["families"]),
        risks={Stratum(name): AdaptiveRisk(target=target, gamma=gamma, asked=asked)
               for name, (target, gamma, asked) in online.items()},
    )  # fmt: skip


def _expert(directory: Path, name: str, described: Mapping[str, Any], arrays: Mapping[str, Any]) -> Expert:
    grown = {
        part: GrownTrees([(directory / f"{name}_{part}_{at}.txt").read_text(encoding="utf-8")
                          for at in range(int(described[part]))])
        for part in ("trees", "spread")
    }  # fmt: skip
    return Expert(
        space=FeatureSpace(numbers=tuple(described["numbers"]), tokens=tuple(described["tokens"])),
        physics=Physics(kinds=tuple(described["kinds"]), coefficients=arrays[f"{name}.coefficients"],
                        unknown_mib=float(described["unknown_mib"])),
        trees=grown["trees"], spread=grown["spread"],
        bound=MemoryBound(strata={Stratum(key): _scores(f"{name}.{key}", arrays)
                                  for key in described["strata"]},
                          guess_share=float(described["guess_share"])),
    )  # fmt: skip


def _settings(values: Mapping[str, Any]) -> MemorySettings:
    expert = dict(values["expert"])
    expert |= {name: ResidualSettings(**expert[name]) for name in ("residual", "small")}
    return MemorySettings(**{**values, "expert": ExpertSettings(**expert)})


def _score_arrays(name: str, scores: GroupScores) -> dict[str, Any]:
    return {f"{name}.scores": scores.scores, f"{name}.drawn": scores.drawn,
            f"{name}.tops": scores.group_tops}  # fmt: skip


def _scores(name: str, arrays: Mapping[str, Any]) -> GroupScores:
    return GroupScores(scores=arrays[f"{name}.scores"], drawn=arrays[f"{name}.drawn"],
                       group_tops=arrays[f"{name}.tops"])  # fmt: skip


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, allow_nan=False, separators=(",", ":")), encoding="utf-8")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))

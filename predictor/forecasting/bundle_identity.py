"""This module says whose a bundle is before anything in it is read."""

import json
from collections.abc import Mapping
from pathlib import Path

from predictor.errors import BundleCorruptError, BundleMissingError, FeatureSpecError
from predictor.forecasting.bundle import MANIFEST, BundleInfo, verify_bundle


def identified(
    directory: Path, *, name: str, protocol: int, spec: str, expected_digest: str | None = None
) -> tuple[BundleInfo, Mapping[str, object]]:
    """Return identity and metadata of a bundle whose files are intact and that this code can read.

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
    manifest = json.loads((directory / MANIFEST).read_bytes())
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
    return info, manifest["metadata"]

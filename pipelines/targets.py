"""This module lists what can be retrained, and opens the store of each target."""

from collections.abc import Mapping

from pipelines.measured_memory import MemoryTarget
from pipelines.measured_target import MeasuredTarget
from pipelines.measured_topology import TopologyTarget
from pipelines.settings import MeasuredSettings, PipelineSettings
from predictor.errors import ArgumentError
from predictor.forecasting.store import FileModelStore, verify_bundle

DURATION = "duration"


def measured_targets(settings: PipelineSettings) -> Mapping[str, tuple[MeasuredTarget, MeasuredSettings]]:
    """Return the targets that learn from measurements, each with its section of the settings."""
    known: tuple[tuple[MeasuredTarget, MeasuredSettings], ...] = (
        (MemoryTarget(), settings.memory),
        (TopologyTarget(), settings.topology),
    )
    return {target.name: (target, section) for target, section in known}


def store_of(settings: PipelineSettings, target: str) -> FileModelStore:
    """Return the store of a target, which reads and verifies bundles of its kind.

    Raises:
        ArgumentError: there is no such target.
    """
    known = {DURATION: verify_bundle} | {
        name: found.verify for name, (found, _) in measured_targets(settings).items()
    }
    if target not in known:
        raise ArgumentError(f"'{target}' is no target; known are {', '.join(known)}")
    return FileModelStore(settings.models.root / target, verify=known[target])

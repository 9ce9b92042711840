"""This module is the topology forecaster in service; outcomes of jobs carry no step times to learn from."""

import math
from collections.abc import Iterable
from pathlib import Path

from predictor.contracts.cluster import Placement
from predictor.contracts.topology import TopologyJob
from predictor.errors import BundleCorruptError
from predictor.forecasting.topology.bundle import TopologyBundle, read_topology_bundle
from predictor.forecasting.topology.forecaster import TopologyForecaster
from serving.outcome_rows import OutcomeRow
from serving.ports import BundleFacts, Forecast


class ServedTopology:
    """A topology forecaster.

    Args:
        bundle: the bundle that was read.
        source: its version and digest as the alias file records them.
    """

    def __init__(self, bundle: TopologyBundle, source: tuple[str, str] | None = None) -> None:
        self._info = bundle.info
        self.model: TopologyForecaster = bundle.model
        self.source = source

    @property
    def info(self) -> BundleFacts:
        """Identity of the bundle."""
        return self._info

    def record(self, row: OutcomeRow) -> Forecast | None:  # noqa: ARG002
        """Take a row, which teaches nothing about placements."""
        return None

    def replay(self, rows: Iterable[OutcomeRow], open_jobs: Iterable[OutcomeRow]) -> int:  # noqa: ARG002
        """Return 0: no row teaches anything."""
        return 0

    def warm(self, now_s: float) -> None:  # noqa: ARG002
        """Rank two placements on each known cluster.

        Raises:
            BundleCorruptError: a score is no share.
        """
        asked = [Placement(gpu_type="", gpus_per_node=shape) for shape in ((2,), (1, 1))]
        for cluster in ("", *self.model.fits):
            for one in self.model.rank(TopologyJob(), asked, cluster=cluster):
                if not (math.isfinite(one.score) and 0 < one.score <= 1):
                    raise BundleCorruptError(f"the bundle's first ranking is none: {one}")


def load_topology(directory: Path, source: tuple[str, str] | None) -> ServedTopology:
    """Read and verify a bundle, and make it ready to answer."""
    bundle = read_topology_bundle(directory, expected_digest=None if source is None else source[1])
    return ServedTopology(bundle, source)

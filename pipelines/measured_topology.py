"""This module binds retraining to the topology forecaster: step times by placement, speeds of GPU types."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.domain import Document, Progress
from pipelines.measured_target import Judgement, Measured, measurement_files
from pipelines.settings import MeasuredSettings
from pipelines.topology_plots import topology_figures
from predictor import __version__
from predictor.contracts.cluster import Placement
from predictor.contracts.topology import PlacementRuns, TopologyJob, TypeRuns
from predictor.data.measurements import gpu_throughputs, placements
from predictor.data.measurements.placements import PlacementMeasurements
from predictor.errors import BundleCorruptError, EmptyInputError, FormatError
from predictor.evaluation.topology_backtest import OURS, UNSEEN_PLACEMENT, backtest_topology
from predictor.forecasting.topology.bundle import (
    NAME,
    PROTOCOL,
    read_topology_bundle,
    topology_spec,
    write_topology_bundle,
)
from predictor.forecasting.topology.forecaster import TopologyForecaster
from predictor.forecasting.topology.gpu_types import TypeSpeeds

_LEAST_ROWS = 40
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    measured: PlacementMeasurements
    types: TypeRuns | None


class TopologyTarget:
    """Relative throughput of the placements that a cluster could give."""

    name = NAME
    limits = (
        "On a cluster without measured runs the order is a rule and the physics of its links, with a wide "
        "interval; the answer says `no_history`.",
        "Only placements with the same number of GPUs are compared; a score says nothing of scaling out.",
        "Runs were measured alone: neighbours on the network or in the node slow a job down further.",
        "GPU types are compared only where all candidates are of types that were measured.",
    )

    def describe(self) -> Document:
        """Return the version of the code and the features."""
        return {"version": __version__, "bundle_protocol": PROTOCOL, "feature_spec": topology_spec()}

    def collect(self, settings: MeasuredSettings, jobs: pd.DataFrame) -> Measured:  # noqa: ARG002
        """Read tables of step times by placement, and at most one of throughputs by GPU type."""
        measured: list[PlacementMeasurements] = []
        types: TypeRuns | None = None
        digests, sources = [], []
        for path in measurement_files(settings):
            digests.append(sha256(path.read_bytes()).hexdigest())
            try:
                frame = pd.read_csv(path, dtype={"placement": "str"}, low_memory=False)
            except (OSError, ValueError) as error:
                raise FormatError(f"'{path.name}' cannot be read as CSV: {error}") from error
            if set(placements.COLUMNS) <= set(frame.columns):
                measured.append(placements.read_placements(frame))
                sources.append(f"{path.name}: {len(measured[-1].runs):,} placements of "
                               f"{', '.join(sorted(set(measured[-1].runs.clusters)))}")  # fmt: skip
            elif set(gpu_throughputs.COLUMNS) <= set(frame.columns):
                types = gpu_throughputs.read_gpu_throughputs(frame)
                sources.append(
                    f"{path.name}: {len(types):,} runs on {', '.join(sorted(set(types.gpu_types)))}"
                )
            else:
                raise FormatError(
                    f"'{path.name}' is neither a table of placements ({', '.join(placements.COLUMNS)}) nor "
                    f"one of GPU types ({', '.join(gpu_throughputs.COLUMNS)})"
                )
        rows = sum(len(one.runs) for one in measured)
        if rows < _LEAST_ROWS:
            raise EmptyInputError(
                f"not enough measured step times by placement: {rows}, {_LEAST_ROWS} are needed; name files "
                f"under [topology] measurements"
            )
        joined = _joined(measured)
        runs = joined.runs
        return Measured(
            fingerprint=sha256("".join(digests).encode()).hexdigest(), rows=len(runs),
            groups=len(set(zip(runs.clusters, runs.signatures, strict=True))), sources=tuple(sources),
            left_out=tuple(f"{count:,} rows: {why}" for why, count in joined.quarantined.items() if count),
            trained_until_s=0.0, content=_Content(measured=joined, types=types),
        )  # fmt: skip

    def judge(
        self, data: Measured, *, seed: int, progress: Progress
    ) -> tuple[Judgement, Mapping[str, Figure]]:
        """Score choices among placements that were kept out."""
        report = backtest_topology(_content(data).measured, seed=seed, tell=progress)
        main = report.splits[UNSEEN_PLACEMENT]
        clusters = sorted(set(_content(data).measured.runs.clusters))
        metrics = {
            f"{split}/{name}.{key}": value
            for split, part in report.splits.items()
            for name, scores in part.models.items()
            for key, value in scores.to_json().items()
        }
        ours = main.models[OURS].regret
        coverage = main.coverage[_HIGH] - main.coverage[_LOW]
        baselines = {name: scores.regret for name, scores in main.models.items() if name != OURS}
        judgement = Judgement(
            judged_on=tuple(f"{name}/{UNSEEN_PLACEMENT}" for name in clusters), score="regret", ours=ours,
            baselines=baselines, ours_beside=dict.fromkeys(baselines, ours), coverage=coverage,
            wanted=_HIGH - _LOW, metrics={"regret": ours, "coverage": coverage, **metrics},
        )  # fmt: skip
        return judgement, topology_figures(report.splits, OURS)

    def write(
        self, directory: Path, data: Measured, *, seed: int, version: str, card: str,  # noqa: ARG002
        metadata: Mapping[str, object],
    ) -> None:  # fmt: skip
        """Train on all runs and write the bundle; nothing in it is random."""
        content = _content(data)
        types = None if content.types is None else TypeSpeeds.fit(content.types)
        model = TopologyForecaster.fit(content.measured.runs, types=types, version=version)
        write_topology_bundle(directory, model, version=version, card=card, metadata=metadata)

    def verify(self, directory: Path, expected_digest: str | None) -> str:
        """Read a bundle, let it rank two placements on each cluster, and return its digest."""
        bundle = read_topology_bundle(directory, expected_digest=expected_digest)
        asked = [Placement(gpu_type="", gpus_per_node=shape) for shape in ((2,), (1, 1))]
        for cluster in bundle.model.fits:
            ranking = bundle.model.rank(TopologyJob(), asked, cluster=cluster)
            if not all(0 < one.score <= 1 for one in ranking):
                raise BundleCorruptError(f"bundle '{bundle.info.version}' does not rank on '{cluster}'")
        return bundle.info.digest


def _joined(measured: list[PlacementMeasurements]) -> PlacementMeasurements:
    if len(measured) == 1:
        return measured[0]
    quarantined: dict[str, int] = {}
    for one in measured:
        for why, count in one.quarantined.items():
            quarantined[why] = quarantined.get(why, 0) + count
    return PlacementMeasurements(
        runs=reduce(PlacementRuns.joined, (one.runs for one in measured)),
        placements=tuple(np.concatenate([one.placements for one in measured]).tolist()),
        quarantined=quarantined,
    )


def _content(data: Measured) -> _Content:
    if not isinstance(data.content, _Content):
        raise TypeError(f"measured placements are needed, got {type(data.content).__name__}")
    return data.content

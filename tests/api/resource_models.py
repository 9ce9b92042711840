"""This module publishes small real memory and topology forecasters for tests of the service."""

import math
from pathlib import Path

import numpy as np

from predictor.contracts.memory import MemoryObservation, PeakKind
from predictor.contracts.topology import PlacementRuns
from predictor.forecasting.memory.bundle import read_memory_bundle, write_memory_bundle
from predictor.forecasting.memory.forecaster import MemoryForecaster
from predictor.forecasting.memory.jobs import row_request
from predictor.forecasting.store import FileModelStore
from predictor.forecasting.topology.bundle import read_topology_bundle, write_topology_bundle
from predictor.forecasting.topology.forecaster import TopologyForecaster

SHAPES = ((4,), (1, 3), (2, 2), (1, 1, 2), (1, 1, 1, 1))


def memory_rows() -> list[dict[str, object]]:
    """Jobs of eight users whose peak grows with the batch."""
    return [
        {
            "user": f"user{user}", "job_name": f"job{user}", "requested_gpus": 1.0, "gpu_type": "a100",
            "model_family": f"family{user % 4}", "batch_size": float(batch),
            "peak_vram_mib": 2000.0 + 500.0 * user + 40.0 * batch,
        }
        for user in range(8)
        for batch in (8, 16, 32, 64)
    ]  # fmt: skip


def publish_memory(root: Path, version: str = "m1") -> MemoryForecaster:
    """Publish a memory forecaster as champion, and return it as it was read back."""
    known = []
    for row in memory_rows():
        peak = row.pop("peak_vram_mib")
        assert isinstance(peak, float)
        known.append(MemoryObservation(request=row_request(row), peak_mib=peak))
    model = MemoryForecaster.fit(known, kind=PeakKind.USED)
    store = FileModelStore(root, verify=_memory_digest)
    write_memory_bundle(store.staging(version), model, version=version, card="# card", metadata={})
    ref = store.publish(root / ".staging" / version, version)
    store.promote(version)
    return read_memory_bundle(ref.directory).model


def publish_topology(root: Path, version: str = "t1", cluster: str = "alpha") -> TopologyForecaster:
    """Publish a forecaster that knows a cluster where each GPU on the fullest node costs a tenth."""
    rows = [(app, batch, shape) for app in range(3) for batch in (8.0, 16.0, 32.0) for shape in SHAPES]
    runs = PlacementRuns(
        clusters=(cluster,) * len(rows), signatures=tuple(f"app{app}" for app, _, _ in rows),
        patterns=tuple(shape for _, _, shape in rows), node_gpus=np.full(len(rows), 4.0),
        local_batch=np.array([batch for _, batch, _ in rows]),
        step_time_s=np.array([0.1 * (1.0 + 0.1 * max(shape)) * math.log(batch) for _, batch, shape in rows]),
        one_gpu_step_s=np.full(len(rows), math.nan), gradient_bytes=np.full(len(rows), 1e8),
    )  # fmt: skip
    model = TopologyForecaster.fit(runs, version=version)
    store = FileModelStore(root, verify=_topology_digest)
    write_topology_bundle(store.staging(version), model, version=version, card="# card", metadata={})
    ref = store.publish(root / ".staging" / version, version)
    store.promote(version)
    return read_topology_bundle(ref.directory).model


def _memory_digest(path: Path, digest: str | None) -> str:
    return read_memory_bundle(path, expected_digest=digest).info.digest


def _topology_digest(path: Path, digest: str | None) -> str:
    return read_topology_bundle(path, expected_digest=digest).info.digest

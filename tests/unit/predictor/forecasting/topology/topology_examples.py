"""This module makes runs with a known truth, and small clusters, for tests of rankings of placements."""

from itertools import product

import numpy as np

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeGroup, NodeType, Placement
from predictor.contracts.topology import PlacementRuns
from predictor.forecasting.topology.rows import shape_name

SHAPES: tuple[tuple[int, ...], ...] = ((4,), (1, 3), (2, 2), (1, 1, 2), (1, 1, 1, 1))


def true_step_s(app: int, batch: float, pattern: tuple[int, ...]) -> float:
    """Return a step time in which each further GPU on the fullest node costs 10 %."""
    return (0.1 + 0.01 * app + 0.001 * batch) * (1.0 + 0.1 * (max(pattern) - 1))


def example_runs(*, clusters: tuple[str, ...] = ("a",), noise: float = 0.005, seed: int = 0) -> PlacementRuns:
    """Return runs of 3 programs at 3 batch sizes on all shapes of 4 GPUs."""
    random = np.random.default_rng(seed)
    rows = list(product(clusters, range(3), (8.0, 16.0, 32.0), SHAPES))
    batches = np.array([batch for _, _, batch, _ in rows])
    return PlacementRuns(
        clusters=tuple(name for name, _, _, _ in rows),
        signatures=tuple(f"app{app}" for _, app, _, _ in rows),
        patterns=tuple(pattern for _, _, _, pattern in rows),
        node_gpus=np.full(len(rows), 4.0), local_batch=batches,
        step_time_s=np.array([true_step_s(app, batch, pattern) for _, app, batch, pattern in rows])
        * np.exp(noise * random.standard_normal(len(rows))),
        one_gpu_step_s=np.array([0.1 + 0.01 * app + 0.001 * batch for _, app, batch, _ in rows]),
        gradient_bytes=np.full(len(rows), 1e8),
    )  # fmt: skip


def placements(*patterns: tuple[int, ...], gpu_type: str = "a100") -> list[Placement]:
    """Return a placement per pattern."""
    return [Placement(gpu_type=gpu_type, gpus_per_node=pattern) for pattern in patterns]


def profile(*, inside: LinkClass = LinkClass.NVSWITCH, network_bytes_per_s: float = 25e9,
            network_alpha_s: float = 1e-4, name: str = "new") -> ClusterProfile:  # fmt: skip
    """Return four nodes of four GPUs."""
    links = tuple(
        tuple(LinkClass.SELF if first == second else inside for second in range(4)) for first in range(4)
    )
    node = NodeType(name="node", gpu_type="a100", gpu_count=4, gpu_memory_mib=40_960, links=links)
    return ClusterProfile(
        name=name, node_types=(node,), groups=(NodeGroup(hosts="n[1-4]", node_type="node"),),
        network_costs=(LinkCost(alpha_s=network_alpha_s, bandwidth_bytes_per_s=network_bytes_per_s),),
    )  # fmt: skip


def names(ranked: object) -> list[str]:
    """Return the shapes of a ranking in its order."""
    return [shape_name(one.placement.gpus_per_node) for one in ranked]  # type: ignore[attr-defined]

"""This module tells how near to each other the GPUs of a job should be, from forecasts of its throughput."""

import math
from collections import Counter

from predictor.contracts.cluster import ClusterProfile, Placement
from predictor.contracts.topology import TopologyJob
from predictor.forecasting.topology.forecaster import TopologyForecaster
from predictor.forecasting.topology.levels import HOST, LevelChoice, choose_level


def advise_level(
    model: TopologyForecaster, job: TopologyJob, profile: ClusterProfile, *, gpu_type: str, gpu_count: int,
    cluster: str = "",
) -> LevelChoice | None:  # fmt: skip
    """Return the loosest level that costs little, None where the profile knows no such GPUs.

    At a level, the job lies on as few nodes as hold it, but on two at least; ``host`` is one node. A level
    none of whose domains has as many GPUs is not asked for.
    """
    sizes = [kind.gpu_count for kind in profile.node_types if kind.gpu_type == gpu_type and kind.gpu_count]
    if not sizes or gpu_count < 1:
        return None
    nodes = max(min(2, gpu_count), math.ceil(gpu_count / max(sizes)))
    spread = tuple(gpu_count // nodes + (node < gpu_count % nodes) for node in range(nodes))
    names, asked = [""], [Placement(gpu_type=gpu_type, gpus_per_node=spread, shared_levels=0)]
    for shared, name in enumerate(profile.levels, start=1):
        if _largest_domain(profile, gpu_type, shared) >= gpu_count:
            names.append(name)
            asked.append(Placement(gpu_type=gpu_type, gpus_per_node=spread, shared_levels=shared))
    if gpu_count <= max(sizes):
        names.append(HOST)
        asked.append(Placement(gpu_type=gpu_type, gpus_per_node=(gpu_count,)))
    ranking = model.rank(job, asked, cluster=cluster, profile=profile)
    return choose_level(profile.levels, {names[one.index]: one.score for one in ranking}.get)


def _largest_domain(profile: ClusterProfile, gpu_type: str, shared: int) -> int:
    """Return the GPUs of this type in the largest domain of a level, wide to narrow from 1."""
    found: Counter[tuple[str, ...]] = Counter()
    for group in profile.groups:
        kind = profile.node_type(group.node_type)
        if kind.gpu_type == gpu_type:
            found[group.domains[:shared]] += len(group.names) * kind.gpu_count
    return max(found.values(), default=0)

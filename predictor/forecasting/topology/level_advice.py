"""This module tells how near to each other the GPUs of a job should be, from forecasts of its throughput."""

import math

from predictor.contracts.cluster import ClusterProfile, Placement
from predictor.contracts.topology import TopologyJob
from predictor.forecasting.topology.forecaster import TopologyForecaster
from predictor.forecasting.topology.levels import HOST, LevelChoice, choose_level


def advise_level(
    model: TopologyForecaster, job: TopologyJob, profile: ClusterProfile, *, gpu_type: str, gpu_count: int,
    cluster: str = "",
) -> LevelChoice | None:  # fmt: skip
    """Return the loosest level that costs little, None where the profile knows no such GPUs.

    At a level, the job lies on as few nodes as hold it, but on two at least; ``host`` is one node. A job
    that is larger than a node is never asked to stay on one.
    """
    sizes = [kind.gpu_count for kind in profile.node_types if kind.gpu_type == gpu_type and kind.gpu_count]
    if not sizes or gpu_count < 1:
        return None
    if gpu_count == 1:
        return choose_level(profile.levels, lambda _: 1.0)
    nodes = max(2, math.ceil(gpu_count / max(sizes)))
    spread = tuple(gpu_count // nodes + (node < gpu_count % nodes) for node in range(nodes))
    names = ["", *profile.levels]
    asked = [
        Placement(gpu_type=gpu_type, gpus_per_node=spread, shared_levels=shared)
        for shared in range(len(names))
    ]
    if gpu_count <= max(sizes):
        asked.append(Placement(gpu_type=gpu_type, gpus_per_node=(gpu_count,)))
        names.append(HOST)
    found = {names[one.index]: one.score for one in model.rank(job, asked, cluster=cluster, profile=profile)}
    found.setdefault(HOST, found[names[-1]])
    return choose_level(profile.levels, found.__getitem__)

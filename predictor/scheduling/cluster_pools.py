"""This module turns a cluster profile into the pools that the Coordinator hands out."""

from predictor.contracts.cluster import ClusterProfile, NodeType
from predictor.errors import ArgumentError
from predictor.scheduling.capacity import Pool


def cluster_pools(profile: ClusterProfile) -> tuple[Pool, ...]:
    """Return one pool for each pool, GPU type and region that the groups of a cluster name.

    Units are GPUs where the nodes have any, else processors. A pool whose nodes have one unit each is only
    counted. The pool's own name is kept where it stays whole, else its GPU type (and region) is added.

    Raises:
        ArgumentError: a type of node has neither GPUs nor processors.
    """
    parts: dict[tuple[str, str, str], list[tuple[NodeType, int]]] = {}
    faults = []
    for group in profile.groups:
        kind = profile.node_type(group.node_type)
        if not kind.gpu_count and not kind.cpus:
            faults.append(f"node type {kind.name!r} has neither GPUs nor processors; give gpu_count or cpus")
        key = (group.pool or "default", kind.gpu_type, group.region)
        parts.setdefault(key, []).append((kind, len(group.names)))
    if faults:
        raise ArgumentError(f"cluster {profile.name!r} has no pools", faults=sorted(set(faults)))
    whole = [name for name, _, _ in parts]
    return tuple(
        _pool(
            name if whole.count(name) == 1 else "-".join(filter(None, (name, gpu_type or "cpu", region))),
            gpu_type,
            region,
            nodes,
        )
        for (name, gpu_type, region), nodes in parts.items()
    )


def _pool(name: str, gpu_type: str, region: str, nodes: list[tuple[NodeType, int]]) -> Pool:
    units = tuple(kind.gpu_count or kind.cpus for kind, count in nodes for _ in range(count))
    single = max(units) == 1
    return Pool(
        name=name,
        total=sum(units),
        node_units=() if single else units,
        gpu_type=gpu_type,
        vram_mib=min(kind.gpu_memory_mib for kind, _ in nodes),
        region=region,
    )

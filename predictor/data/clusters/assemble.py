"""This module makes a cluster profile of what schedulers tell: nodes that are alike become groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from predictor.contracts.cluster import ClusterProfile, LinkClass, NodeGroup, NodeType
from predictor.contracts.hostlist import compress_hosts
from predictor.data.clusters.faults import profile_faults
from predictor.data.clusters.kubernetes_nodes import KubernetesNode
from predictor.data.clusters.slurm_nodes import SlurmNode
from predictor.data.clusters.slurm_topology import NetworkTree
from predictor.data.clusters.toml_file import MOST_GPUS, build_links
from predictor.errors import ArgumentError, FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    name: str
    kind: NodeType
    domains: tuple[str, ...]
    pool: str


def profile_of_slurm(
    nodes: Sequence[SlurmNode], tree: NetworkTree | None = None, *, name: str = "slurm",
    boxes: Mapping[str, NodeType] | None = None,
) -> ClusterProfile:  # fmt: skip
    """Return the profile of Slurm's nodes that are up.

    Args:
        boxes: by GPU type, what is inside a node (from ``nvidia-smi topo -m``); without it, all links of a
            node count as SYS.

    Raises:
        FormatError: no node is up, one has more than MOST_GPUS GPUs, or names are none or there twice.
        ArgumentError: a box has another number of GPUs than the nodes with its type.
    """
    found = [
        _Found(
            name=node.name, kind=_kind(node.gpu_type, node.gpu_count, 0, node.cpus, node.memory_mib, boxes),
            domains=() if tree is None else tree.domains.get(node.name, ("",) * len(tree.levels)),
            pool=node.partitions[0] if node.partitions else "",
        )
        for node in nodes
        if node.is_up
    ]  # fmt: skip
    return _profile(name, () if tree is None else tree.levels, found)


def profile_of_kubernetes(
    levels: Sequence[str], nodes: Sequence[KubernetesNode], *, name: str = "kubernetes",
    boxes: Mapping[str, NodeType] | None = None,
) -> ClusterProfile:  # fmt: skip
    """Return the profile of Kubernetes' nodes that are ready; see :func:`profile_of_slurm`."""
    found = [
        _Found(
            name=node.name, domains=node.domains, pool="",
            kind=_kind(node.gpu_type, node.gpu_count, node.gpu_memory_mib, node.cpus, node.memory_mib, boxes),
        )
        for node in nodes
        if node.is_up
    ]  # fmt: skip
    return _profile(name, tuple(levels), found)


def _kind(
    gpu_type: str, gpus: int, gpu_memory_mib: int, cpus: int, memory_mib: int,
    boxes: Mapping[str, NodeType] | None,
) -> NodeType:  # fmt: skip
    if gpus > MOST_GPUS:
        raise FormatError(f"a node with {gpus} x {gpu_type} is none; a node has {MOST_GPUS} GPUs at most")
    box = (boxes or {}).get(gpu_type)
    name = f"{gpu_type or 'cpu'}x{gpus}-{cpus}c-{memory_mib}m" if gpus else f"cpu-{cpus}c-{memory_mib}m"
    if box is not None and box.gpu_count != gpus:
        raise ArgumentError(
            f"nodes with {gpus} x {gpu_type} are not described by a matrix of {box.gpu_count} GPUs; "
            "print 'nvidia-smi topo -m' on one of them"
        )
    if box is not None:
        return replace(
            box, name=name, gpu_type=gpu_type, cpus=cpus or box.cpus, memory_mib=memory_mib,
            gpu_memory_mib=gpu_memory_mib or box.gpu_memory_mib,
        )  # fmt: skip
    return NodeType(
        name=name, gpu_type=gpu_type, gpu_count=gpus, gpu_memory_mib=gpu_memory_mib, cpus=cpus,
        memory_mib=memory_mib, links=build_links(gpus, (), LinkClass.NVLINK, (), LinkClass.SYS),
    )  # fmt: skip


def _profile(name: str, levels: tuple[str, ...], found: Sequence[_Found]) -> ClusterProfile:
    if not found:
        raise FormatError("no node is up; a profile needs at least one")
    kinds = {one.kind.name: one.kind for one in found}
    members: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for one in found:
        members.setdefault((one.kind.name, one.domains, one.pool), []).append(one.name)
    profile = ClusterProfile(
        name=name, levels=levels, node_types=tuple(kinds.values()),
        groups=tuple(
            NodeGroup(hosts=compress_hosts(names), node_type=kind, domains=domains, pool=pool)
            for (kind, domains, pool), names in members.items()
        ),
    )  # fmt: skip
    faults = profile_faults(profile)
    if faults:
        raise FormatError(f"the nodes make no cluster: {len(faults)} faults", faults=faults)
    return profile

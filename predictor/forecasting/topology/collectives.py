"""This module says how many bytes a collective puts on the slowest link, and how long it takes.

Ring algorithms move 2 (K-1)/K of the message for an all-reduce and (K-1)/K for its halves (Thakur,
Rabenseifner and Gropp 2005, *Optimization of collective communication operations in MPICH*). Across nodes the
hierarchy counts: reduce-scatter inside nodes, all-reduce between them on the share of each card, all-gather.
"""

from dataclasses import dataclass
from enum import StrEnum

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeType, Placement

# Per GPU and direction, from data sheets as collected in Bekman's "Machine Learning Engineering" (2024);
# latencies are of the order that NCCL shows for small messages.
_NOMINAL_NVLINK_BYTES_PER_S = {"v100": 150e9, "a100": 300e9, "h100": 450e9, "h200": 450e9, "b200": 900e9}
_NOMINAL = {
    LinkClass.NVSWITCH: LinkCost(alpha_s=25e-6, bandwidth_bytes_per_s=300e9),
    LinkClass.NVLINK: LinkCost(alpha_s=25e-6, bandwidth_bytes_per_s=150e9),
    LinkClass.PIX: LinkCost(alpha_s=35e-6, bandwidth_bytes_per_s=24e9),
    LinkClass.PXB: LinkCost(alpha_s=40e-6, bandwidth_bytes_per_s=22e9),
    LinkClass.PHB: LinkCost(alpha_s=45e-6, bandwidth_bytes_per_s=18e9),
    LinkClass.NODE: LinkCost(alpha_s=45e-6, bandwidth_bytes_per_s=16e9),
    LinkClass.SYS: LinkCost(alpha_s=55e-6, bandwidth_bytes_per_s=12e9),
    LinkClass.NETWORK: LinkCost(alpha_s=150e-6, bandwidth_bytes_per_s=12.5e9),
}


class Collective(StrEnum):
    """Operations among K workers; bytes are those of the whole message of one worker."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    SEND_RECV = "send_recv"


def wire_factor(operation: Collective, workers: int) -> float:
    """Return which multiple of the message crosses the slowest link.

    Examples:
        >>> wire_factor(Collective.ALL_REDUCE, 8)
        1.75
    """
    if workers <= 1:
        return 0.0
    if operation is Collective.SEND_RECV:
        return 1.0
    share = (workers - 1) / workers
    return 2.0 * share if operation is Collective.ALL_REDUCE else share


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTime:
    """How long an operation takes, and on which link it spends most of that.

    Attributes:
        limiting: the link that takes longest; SELF where nothing is sent.
        limiting_share: its part of the time.
    """

    time_s: float
    limiting: LinkClass
    limiting_share: float


def collective_time_s(operation: Collective, message_bytes: float, workers: int, cost: LinkCost) -> float:
    """Return the seconds of an operation among workers that all reach each other at one cost."""
    factor = wire_factor(operation, workers)
    if factor == 0.0:
        return 0.0
    return cost.alpha_s + factor * message_bytes / cost.bandwidth_bytes_per_s


def placed_collective(
    operation: Collective, message_bytes: float, placement: Placement, profile: ClusterProfile
) -> CollectiveTime:
    """Return the time of an operation over all GPUs of a placement.

    Inside nodes the slowest link of the most crowded node counts, between nodes the network cost of the
    levels that they share, and the share of each GPU in the cards of its node.
    """
    counts = [count for count in placement.gpus_per_node if count > 0]
    kind = node_type_of(placement, profile)
    inside_class = _inside(kind, placement, max(counts, default=1))
    inside = link_cost(inside_class, profile, placement.gpu_type)
    nodes = len(counts)
    if nodes <= 1:
        time_s = collective_time_s(operation, message_bytes, placement.gpu_count, inside)
        return CollectiveTime(
            time_s=time_s, limiting=inside_class if time_s else LinkClass.SELF, limiting_share=1.0
        )
    outside = network_cost(placement, profile, kind)
    local = max(counts)
    inside_s = 0.0
    if local > 1:  # both halves: reduce-scatter before, all-gather after
        inside_s = 2.0 * collective_time_s(Collective.REDUCE_SCATTER, message_bytes, local, inside)
    # each of the GPUs of the least crowded node carries its part of the message through the cards of its node
    outside_s = collective_time_s(operation, message_bytes / min(counts), nodes, outside)
    total_s = inside_s + outside_s
    limiting = LinkClass.NETWORK if outside_s >= inside_s else inside_class
    return CollectiveTime(
        time_s=total_s,
        limiting=limiting,
        limiting_share=max(inside_s, outside_s) / total_s if total_s else 1.0,
    )


def link_cost(link: LinkClass, profile: ClusterProfile, gpu_type: str = "") -> LinkCost:
    """Return the cost of a link class: of the profile, else the nominal one of the GPU type."""
    found = profile.link_costs.get(link)
    if found is not None:
        return found
    nominal = _NOMINAL.get(link, _NOMINAL[LinkClass.SYS])
    if link in (LinkClass.NVSWITCH, LinkClass.NVLINK):
        for name, bandwidth in _NOMINAL_NVLINK_BYTES_PER_S.items():
            if gpu_type.startswith(name):
                return LinkCost(alpha_s=nominal.alpha_s, bandwidth_bytes_per_s=bandwidth)
    return nominal


def network_cost(placement: Placement, profile: ClusterProfile, kind: NodeType | None) -> LinkCost:
    """Return the cost between the nodes of a placement, per GPU where the node's cards are shared."""
    shared = placement.shared_levels
    if shared is None:
        shared = profile.shared_levels(placement.hosts) if placement.hosts else len(profile.levels)
    known = profile.network_cost(shared)
    if known is not None:
        return known
    nominal = _NOMINAL[LinkClass.NETWORK]
    if kind is None or not kind.nic_gbit_per_s:
        return nominal
    per_gpu = kind.nic_gbit_per_s / 8.0 * 1e9 / max(kind.gpu_count, 1)
    return LinkCost(alpha_s=nominal.alpha_s, bandwidth_bytes_per_s=per_gpu)


def node_type_of(placement: Placement, profile: ClusterProfile) -> NodeType | None:
    """Return the node type that a placement is on: that of its first host, else one with its GPU type."""
    if placement.hosts:
        group = profile.group_of(placement.hosts[0])
        if group is not None:
            return profile.node_type(group.node_type)
    return next((kind for kind in profile.node_types if kind.gpu_type == placement.gpu_type), None)


def _inside(kind: NodeType | None, placement: Placement, local: int) -> LinkClass:
    """Return the slowest link inside nodes: of the given GPUs, else of the best ``local`` GPUs."""
    if local <= 1:
        return LinkClass.SELF
    if kind is None:
        return LinkClass.SYS
    if placement.gpu_indices:
        return max(kind.slowest_link(gpus) for gpus in placement.gpu_indices)
    return best_link(kind, local)


def best_link(kind: NodeType, count: int) -> LinkClass:
    """Return the slowest link that cannot be avoided among ``count`` GPUs of a node."""
    if count <= 1:
        return LinkClass.SELF
    for link in LinkClass:
        if link is LinkClass.SELF:
            continue
        left = set(range(kind.gpu_count))
        while left:
            first = min(left)
            cluster, edge = {first}, [first]
            while edge:
                one = edge.pop()
                near = {other for other in left - cluster if kind.link(one, other) <= link}
                cluster |= near
                edge += sorted(near)
            if len(cluster) >= count:
                return link
            left -= cluster
    return LinkClass.SYS

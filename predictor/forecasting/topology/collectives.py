"""This module says how many bytes a collective puts on the slowest link, and how long it takes.

Ring algorithms move 2 (K-1)/K of the message for an all-reduce and (K-1)/K for its halves (Thakur,
Rabenseifner and Gropp 2005, *Optimization of collective communication operations in MPICH*).
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeType, Placement
from predictor.errors import ArgumentError
from predictor.forecasting.topology.nominal import card_share, link_cost, network_cost


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
    """How long an operation takes, and the slowest link on its way; SELF where nothing is sent."""

    time_s: float
    limiting: LinkClass


def collective_time_s(operation: Collective, message_bytes: float, workers: int, cost: LinkCost) -> float:
    """Return the seconds of an operation among workers that all reach each other at one cost."""
    factor = wire_factor(operation, workers)
    if factor == 0.0:
        return 0.0
    return cost.alpha_s + factor * message_bytes / cost.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What a placement has on one node: bandwidths in bytes/s are those to other nodes."""

    count: int
    inside: LinkClass
    alpha_s: float
    node_bandwidth: float
    gpu_bandwidth: float


def placed_collective(
    operation: Collective, message_bytes: float, placement: Placement, profile: ClusterProfile
) -> CollectiveTime:
    """Return the time of an operation over all GPUs of a placement.

    One ring runs through all GPUs, as NCCL lays it, and its slowest link sets the pace: the slowest one
    inside nodes, or the network cards that the GPUs of a node can use. An all-to-all sends what leaves a node
    through its cards. Latencies add up: one per level of a binary tree of nodes, and two inside nodes.

    Raises:
        ArgumentError: the placement does not match itself, or names GPUs that its nodes do not have.
    """
    parts = _parts(placement, profile)
    if placement.gpu_count <= 1:
        return CollectiveTime(time_s=0.0, limiting=LinkClass.SELF)
    inside_class = max(part.inside for part in parts)
    inside = link_cost(inside_class, profile, placement.gpu_type)
    if len(parts) == 1:
        time_s = collective_time_s(operation, message_bytes, placement.gpu_count, inside)
        return CollectiveTime(time_s=time_s, limiting=inside_class)
    alpha_s = max(part.alpha_s for part in parts)
    if operation is Collective.SEND_RECV:  # from a GPU to one on the next node
        outside_s = message_bytes / min(part.gpu_bandwidth for part in parts)
        return CollectiveTime(time_s=alpha_s + outside_s, limiting=LinkClass.NETWORK)
    workers = placement.gpu_count
    inside_bytes = outside_bytes = wire_factor(operation, workers) * message_bytes
    outside_s = outside_bytes / min(part.node_bandwidth for part in parts)
    if operation is Collective.ALL_TO_ALL:
        piece = message_bytes / workers
        inside_bytes = max(part.count - 1 for part in parts) * piece
        outside_s = max(part.count * (workers - part.count) * piece / part.node_bandwidth for part in parts)
    alpha_s *= math.ceil(math.log2(len(parts)))
    inside_s = 0.0
    if inside_class is not LinkClass.SELF:
        alpha_s += 2.0 * inside.alpha_s
        inside_s = inside_bytes / inside.bandwidth_bytes_per_s
    return CollectiveTime(
        time_s=alpha_s + max(inside_s, outside_s),
        limiting=inside_class if inside_s > outside_s else LinkClass.NETWORK,
    )


def _parts(placement: Placement, profile: ClusterProfile) -> list[_Part]:
    if placement.faults:
        raise ArgumentError("the placement cannot be used", faults=placement.faults)
    parts = []
    for place, count in enumerate(placement.gpus_per_node):
        if count == 0:
            continue
        kind = node_type_of(placement, profile, place)
        gpus = placement.gpu_indices[place] if placement.gpu_indices else ()
        if kind is not None and not set(gpus) <= set(range(kind.gpu_count)):
            raise ArgumentError(
                f"GPUs {gpus} of the placement do not exist; '{kind.name}' has 0 to {kind.gpu_count - 1}"
            )
        outside = network_cost(placement, profile, kind)
        parts.append(_Part(
            count=count, inside=_inside(kind, count, gpus), alpha_s=outside.alpha_s,
            node_bandwidth=outside.bandwidth_bytes_per_s * card_share(kind, count, gpus),
            gpu_bandwidth=outside.bandwidth_bytes_per_s * card_share(kind, 1),
        ))  # fmt: skip
    return parts


def node_type_of(placement: Placement, profile: ClusterProfile, place: int = 0) -> NodeType | None:
    """Return the type of a node of a placement: that of its host, else the first one with its GPU type."""
    if placement.hosts:
        group = profile.group_of(placement.hosts[place])
        if group is not None:
            return profile.node_type(group.node_type)
    return next((kind for kind in profile.node_types if kind.gpu_type == placement.gpu_type), None)


def _inside(kind: NodeType | None, count: int, gpus: tuple[int, ...]) -> LinkClass:
    """Return the slowest link on one node: of the given GPUs, else of the best ``count`` GPUs."""
    if count <= 1:
        return LinkClass.SELF
    if kind is None:
        return LinkClass.SYS
    return kind.slowest_link(gpus) if gpus else best_link(kind, count)


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

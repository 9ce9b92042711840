"""This module defines what a cluster is made of: node types, links, domains of the network, placements.

Nodes that are alike and lie together form one group, so that a cluster of thousands of nodes stays small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from predictor.contracts.hostlist import expand_hosts


class LinkClass(IntEnum):
    """How two GPUs of one node reach each other, the fastest first; names as ``nvidia-smi topo -m`` has them.

    ::

        SELF < NVSWITCH < NVLINK < PIX < PXB < PHB < NODE < SYS < NETWORK
    """

    SELF = 0
    NVSWITCH = 1  # all GPUs of the island at full speed
    NVLINK = 2  # a bonded set of direct links
    PIX = 3  # one PCIe bridge
    PXB = 4  # several PCIe bridges, no host bridge
    PHB = 5  # a PCIe host bridge
    NODE = 6  # several host bridges of one NUMA node
    SYS = 7  # the interconnect between NUMA nodes
    NETWORK = 8  # another node


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCost:
    """Time of a message: ``alpha_s + bytes / bandwidth``.

    Attributes:
        alpha_s: latency in seconds.
        bandwidth_bytes_per_s: bytes per second and direction, as bus bandwidth of a collective.
        source: ``nominal`` (a data sheet), ``measured``, or ``fitted`` to a curve.
        error_ratio: mean relative error of the fit, None = not fitted.
    """

    alpha_s: float
    bandwidth_bytes_per_s: float
    source: str = "nominal"
    error_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaDomain:
    """Cores and GPUs of one NUMA node."""

    cores: tuple[int, ...]
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card, its speed, and the GPUs that are nearest to it."""

    name: str
    gbit_per_s: float
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """A kind of node.

    Attributes:
        gpu_type: lower case, "" = a node without GPUs.
        gpu_memory_mib: of one GPU, 0 = not known.
        links: shape (gpu_count, gpu_count), symmetric, SELF on the diagonal.
    """

    name: str
    gpu_type: str = ""
    gpu_count: int = 0
    gpu_memory_mib: int = 0
    cpus: int = 0
    memory_mib: int = 0
    links: tuple[tuple[LinkClass, ...], ...] = ()
    numa: tuple[NumaDomain, ...] = ()
    nics: tuple[Nic, ...] = ()

    @property
    def islands(self) -> tuple[tuple[int, ...], ...]:
        """Groups of GPUs that reach each other by NVLink, each GPU in one, ordered by their first GPU."""
        left = list(range(self.gpu_count))
        found = []
        while left:
            island, edge = {left[0]}, [left[0]]
            while edge:
                one = edge.pop()
                near = {
                    other
                    for other in left
                    if other not in island and self.link(one, other) <= LinkClass.NVLINK
                }
                island |= near
                edge += sorted(near)
            found.append(tuple(sorted(island)))
            left = [gpu for gpu in left if gpu not in island]
        return tuple(found)

    @property
    def nic_gbit_per_s(self) -> float:
        """Speed of all cards together, 0 = not known."""
        return sum(nic.gbit_per_s for nic in self.nics)

    def link(self, first: int, second: int) -> LinkClass:
        """Return the link between two GPUs."""
        return self.links[first][second]

    def slowest_link(self, gpus: tuple[int, ...]) -> LinkClass:
        """Return the slowest link among GPUs; SELF for one."""
        return max((self.link(a, b) for a in gpus for b in gpus), default=LinkClass.SELF)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one type that lie in the same domains.

    Attributes:
        hosts: a host list such as ``gpu[001-064]``.
        domains: one name per level of the cluster, wide to narrow.
        pool: the pool that they are scheduled in.
    """

    hosts: str
    node_type: str
    domains: tuple[str, ...] = ()
    pool: str = ""
    region: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return expand_hosts(self.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProfile:
    """A cluster.

    Attributes:
        levels: names of the levels of the network, wide to narrow, such as ``("pod", "spine", "rack")``.
        link_costs: of links inside a node, by class.
        network_costs: between nodes, by how many levels they share (0 = none); () = not known. The
            bandwidth is that of a whole node, all of its cards together, as nccl-tests print it (busbw) for
            an all-reduce over all GPUs of two nodes.
    """

    name: str
    node_types: tuple[NodeType, ...]
    groups: tuple[NodeGroup, ...]
    levels: tuple[str, ...] = ()
    link_costs: Mapping[LinkClass, LinkCost] = field(default_factory=dict)
    network_costs: tuple[LinkCost, ...] = ()

    def node_type(self, name: str) -> NodeType:
        """Return a type by name.

        Raises:
            KeyError: there is none.
        """
        for found in self.node_types:
            if found.name == name:
                return found
        raise KeyError(name)

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return sum(len(group.names) for group in self.groups)

    @property
    def gpu_count(self) -> int:
        """How many GPUs there are."""
        return sum(len(group.names) * self.node_type(group.node_type).gpu_count for group in self.groups)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types in the cluster, in the order of its node types."""
        return tuple(dict.fromkeys(kind.gpu_type for kind in self.node_types if kind.gpu_type))

    def group_of(self, host: str) -> NodeGroup | None:
        """Return the group of a node, None = it is not of this cluster."""
        return next((group for group in self.groups if host in group.names), None)

    def shared_levels(self, hosts: tuple[str, ...]) -> int:
        """Return how many levels, from the widest, all these nodes have in common.

        A node that is not of this cluster shares none, and a domain without a name is shared by nobody.
        """
        groups = [self.group_of(host) for host in dict.fromkeys(hosts)]
        domains = {() if group is None else group.domains for group in groups}
        shared = 0
        for names in zip(*domains, strict=False):
            if len(set(names)) > 1 or (len(groups) > 1 and not names[0]):
                break
            shared += 1
        return shared

    def network_cost(self, shared_levels: int) -> LinkCost | None:
        """Return the cost between nodes that share so many levels, None = not known."""
        if not self.network_costs:
            return None
        return self.network_costs[min(shared_levels, len(self.network_costs) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """GPUs that a job could get.

    Attributes:
        gpus_per_node: how many on each node, in any order.
        hosts: names of the nodes in the same order, () = not fixed yet.
        gpu_indices: the GPUs on each node in the same order, () = not fixed yet.
        shared_levels: how many levels the nodes have in common, None = as the profile says of the hosts,
            or not known.
    """

    gpu_type: str
    gpus_per_node: tuple[int, ...]
    hosts: tuple[str, ...] = ()
    gpu_indices: tuple[tuple[int, ...], ...] = ()
    shared_levels: int | None = None

    @property
    def faults(self) -> list[str]:
        """What does not match in it, in words; [] = nothing."""
        counts = self.gpus_per_node
        found = []
        if sum(counts) <= 0 or min(counts) < 0:
            found.append(f"GPUs per node {list(counts)}: give counts of 0 or more, at least one above 0")
        if self.hosts and len(self.hosts) != len(counts):
            found.append(f"{len(self.hosts)} hosts for {len(counts)} counts of GPUs")
        if len(set(self.hosts)) < len(self.hosts):
            found.append("a host is named twice")
        if self.gpu_indices and tuple(len(set(gpus)) for gpus in self.gpu_indices) != counts:
            found.append(
                f"GPU indices {list(map(list, self.gpu_indices))} are not those of {list(counts)} GPUs"
            )
        if self.shared_levels is not None and self.shared_levels < 0:
            found.append(f"shared_levels={self.shared_levels} is below 0")
        return found

    @property
    def gpu_count(self) -> int:
        """How many GPUs it has."""
        return sum(self.gpus_per_node)

    @property
    def node_count(self) -> int:
        """Over how many nodes it spreads."""
        return sum(count > 0 for count in self.gpus_per_node)

    @property
    def pattern(self) -> tuple[int, ...]:
        """GPUs per node, sorted: equal for placements that differ in the names of nodes only."""
        return tuple(sorted(count for count in self.gpus_per_node if count > 0))

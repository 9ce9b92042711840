"""This module reads and writes cluster profiles as TOML, and names every fault of a file at once.

::

    name = "small"
    levels = ["block", "rack"]                 # wide to narrow

    [[node_types]]
    name = "dgx"
    gpu_type = "a100"
    gpu_count = 8
    gpu_memory_mib = 81920
    islands = [[0, 1, 2, 3, 4, 5, 6, 7]]
    island_link = "NVSWITCH"                   # inside an island; between islands: NODE or SYS by NUMA
    numa = [{cores = "0-63", gpus = [0, 1, 2, 3]}, {cores = "64-127", gpus = [4, 5, 6, 7]}]
    nics = [{name = "mlx5_0", gbit_per_s = 200, gpus = [0, 1]}]

    [[groups]]
    hosts = "dgx[01-16]"
    node_type = "dgx"
    domains = ["b1", "r1"]

    [[links]]                                  # cost of a link class inside nodes
    link = "NVSWITCH"
    alpha_us = 31.0
    bandwidth_gb_per_s = 152.0

    [[network]]                                # cost between nodes, by how many levels they share
    shared_levels = 0
    alpha_us = 145.0
    bandwidth_gb_per_s = 20.0
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from predictor.contracts.cluster import (
    ClusterProfile,
    LinkClass,
    LinkCost,
    Nic,
    NodeGroup,
    NodeType,
    NumaDomain,
)
from predictor.data.clusters.cores import format_cores, read_cores
from predictor.data.clusters.faults import profile_faults
from predictor.data.toml_values import toml_value
from predictor.errors import ArgumentError, FormatError

Source = Literal["nominal", "measured", "fitted"]
Positive = Annotated[float, Field(gt=0)]
MOST_GPUS = 256  # of one node
_GB = 1e9


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Numa(_Table):
    cores: str = ""
    gpus: tuple[int, ...] = ()


class _Nic(_Table):
    name: str = Field(min_length=1)
    gbit_per_s: Positive
    gpus: tuple[int, ...] = ()


class _NodeType(_Table):
    name: str = Field(min_length=1)
    gpu_type: str = ""
    gpu_count: int = Field(default=0, ge=0, le=MOST_GPUS)
    gpu_memory_mib: int = Field(default=0, ge=0)
    cpus: int = Field(default=0, ge=0)
    memory_mib: int = Field(default=0, ge=0)
    islands: tuple[tuple[int, ...], ...] = ()
    island_link: Literal["NVSWITCH", "NVLINK"] = "NVLINK"
    other_link: Literal["PIX", "PXB", "PHB", "NODE", "SYS"] | None = None
    links: tuple[str, ...] = ()
    numa: tuple[_Numa, ...] = ()
    nics: tuple[_Nic, ...] = ()


class _Group(_Table):
    hosts: str = Field(min_length=1)
    node_type: str
    domains: tuple[str, ...] = ()
    pool: str = ""
    region: str = ""


class _Cost(_Table):
    alpha_us: float = Field(ge=0)
    bandwidth_gb_per_s: Positive
    source: Source = "nominal"
    error_ratio: float | None = Field(default=None, ge=0)

    def cost(self) -> LinkCost:
        return LinkCost(
            alpha_s=self.alpha_us / 1e6, bandwidth_bytes_per_s=self.bandwidth_gb_per_s * _GB,
            source=self.source,
            error_ratio=self.error_ratio,
        )  # fmt: skip


class _LinkCost(_Cost):
    link: str


class _NetworkCost(_Cost):
    shared_levels: int = Field(ge=0)


class _File(_Table):
    name: str = Field(min_length=1)
    levels: tuple[str, ...] = ()
    node_types: tuple[_NodeType, ...] = Field(min_length=1)
    groups: tuple[_Group, ...] = Field(min_length=1)
    links: tuple[_LinkCost, ...] = ()
    network: tuple[_NetworkCost, ...] = ()


def read_cluster(path: Path) -> ClusterProfile:
    """Read a profile from a TOML file.

    Raises:
        FormatError: the file cannot be read or is no TOML, or it has faults; all are named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"cluster file '{path}' cannot be read: {error}") from error
    return parse_cluster(text, where=str(path))


def parse_cluster(text: str, *, where: str = "cluster") -> ClusterProfile:
    """Return the profile that a TOML text describes; raises as :func:`read_cluster`."""
    try:
        parsed = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{where} is no TOML: {error}") from error
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].lower()}, got {fault.get('input')!r:.80}"
            for fault in error.errors()
        ]
        raise FormatError(f"{where} has {len(faults)} faults", faults=faults) from None
    faults = []
    types = []
    for kind in parsed.node_types:
        links, found = _links_of(kind)
        faults += found
        try:
            types.append(_node_type(kind, links))
        except ArgumentError as error:
            faults.append(f"node type {kind.name}: {error.message}")
    costs = {}
    for cost in parsed.links:
        if cost.link in LinkClass.__members__:
            costs[LinkClass[cost.link]] = cost.cost()
        else:
            faults.append(f"link '{cost.link}' is no class; known are {', '.join(LinkClass.__members__)}")
    profile = ClusterProfile(
        name=parsed.name, node_types=tuple(types), levels=parsed.levels, link_costs=costs,
        network_costs=tuple(
            cost.cost() for cost in sorted(parsed.network, key=lambda cost: cost.shared_levels)
        ),
        groups=tuple(
            NodeGroup(hosts=group.hosts, node_type=group.node_type, domains=group.domains,
                      pool=group.pool, region=group.region)
            for group in parsed.groups
        ),
    )  # fmt: skip
    wanted = sorted(cost.shared_levels for cost in parsed.network)
    if wanted != list(range(len(wanted))):
        faults.append(f"network: shared_levels must be 0, 1, 2, ... each once; got {wanted}")
    faults += profile_faults(profile)
    if faults:
        raise FormatError(f"{where} has {len(faults)} faults", faults=faults)
    return profile


def write_cluster(profile: ClusterProfile) -> str:
    """Return the profile as TOML, which reads back as the same profile."""
    lines = [f"name = {toml_value(profile.name)}"]
    if profile.levels:
        lines.append(f"levels = {toml_value(profile.levels)}")
    for kind in profile.node_types:
        lines += ["", "[[node_types]]", f"name = {toml_value(kind.name)}"]
        if kind.gpu_type:
            lines.append(f"gpu_type = {toml_value(kind.gpu_type)}")
        for name in ("gpu_count", "gpu_memory_mib", "cpus", "memory_mib"):
            if getattr(kind, name):
                lines.append(f"{name} = {getattr(kind, name)}")
        if kind.gpu_count > 1:
            rows = [toml_value(" ".join(link.name for link in row)) for row in kind.links]
            lines.append("links = [\n" + "".join(f"  {row},\n" for row in rows) + "]")
        for domain in kind.numa:
            lines += ["[[node_types.numa]]", f"cores = {toml_value(format_cores(domain.cores))}",
                      f"gpus = {list(domain.gpus)}"]  # fmt: skip
        for nic in kind.nics:
            lines += ["[[node_types.nics]]", f"name = {toml_value(nic.name)}",
                      f"gbit_per_s = {nic.gbit_per_s:.12g}", f"gpus = {list(nic.gpus)}"]  # fmt: skip
    for group in profile.groups:
        lines += [
            "",
            "[[groups]]",
            f"hosts = {toml_value(group.hosts)}",
            f"node_type = {toml_value(group.node_type)}",
        ]
        if group.domains:
            lines.append(f"domains = {toml_value(group.domains)}")
        lines += [
            f"{name} = {toml_value(value)}"
            for name, value in (("pool", group.pool), ("region", group.region))
            if value
        ]
    return "\n".join(lines) + "\n" + cost_tables(profile.link_costs, profile.network_costs)


def cost_tables(links: Mapping[LinkClass, LinkCost], network: Sequence[LinkCost]) -> str:
    """Return the part of a cluster file that states the costs of links."""
    lines: list[str] = []
    for link, cost in sorted(links.items()):
        lines += ["", "[[links]]", f"link = {toml_value(link.name)}", *_cost_lines(cost)]
    for shared, cost in enumerate(network):
        lines += ["", "[[network]]", f"shared_levels = {shared}", *_cost_lines(cost)]
    return "".join(f"{line}\n" for line in lines)


def _cost_lines(cost: LinkCost) -> list[str]:
    lines = [
        f"alpha_us = {cost.alpha_s * 1e6:.12g}",
        f"bandwidth_gb_per_s = {cost.bandwidth_bytes_per_s / _GB:.12g}",
        f"source = {toml_value(cost.source)}",
    ]
    return lines if cost.error_ratio is None else [*lines, f"error_ratio = {cost.error_ratio!r}"]


def _node_type(kind: _NodeType, links: tuple[tuple[LinkClass, ...], ...]) -> NodeType:
    return NodeType(
        name=kind.name, gpu_type=kind.gpu_type.lower(), gpu_count=kind.gpu_count,
        gpu_memory_mib=kind.gpu_memory_mib, cpus=kind.cpus, memory_mib=kind.memory_mib, links=links,
        numa=tuple(NumaDomain(cores=read_cores(domain.cores), gpus=domain.gpus) for domain in kind.numa),
        nics=tuple(Nic(name=nic.name, gbit_per_s=nic.gbit_per_s, gpus=nic.gpus) for nic in kind.nics),
    )  # fmt: skip


def _links_of(kind: _NodeType) -> tuple[tuple[tuple[LinkClass, ...], ...], list[str]]:
    """Return the matrix of links, as written or built from islands and NUMA, and what is wrong with it."""
    count = kind.gpu_count
    if kind.links:
        rows = [row.split() for row in kind.links]
        unknown = sorted({name for row in rows for name in row if name not in LinkClass.__members__})
        faults = [f"node type {kind.name}: link '{name}' is no class" for name in unknown]
        if len(rows) != count or any(len(row) != count for row in rows):
            faults.append(f"node type {kind.name}: links must be a square of {count} x {count}")
        if faults:
            return build_links(count, (), LinkClass.NVLINK, (), None), faults
        return tuple(tuple(LinkClass[name] for name in row) for row in rows), []
    islands = kind.islands
    faults = [
        f"node type {kind.name}: GPU {gpu} of an island does not exist; it has {count}"
        for island in islands
        for gpu in island
        if not 0 <= gpu < count
    ]
    members = [gpu for island in islands for gpu in island]
    if len(set(members)) < len(members):
        faults.append(f"node type {kind.name}: a GPU is in two islands")
    numa = tuple(domain.gpus for domain in kind.numa)
    other = None if kind.other_link is None else LinkClass[kind.other_link]
    if faults:
        islands = ()
    return build_links(count, islands, LinkClass[kind.island_link], numa, other), faults


def build_links(
    count: int, islands: tuple[tuple[int, ...], ...], inside: LinkClass, numa: tuple[tuple[int, ...], ...],
    other: LinkClass | None,
) -> tuple[tuple[LinkClass, ...], ...]:  # fmt: skip
    """Return the links of a node: ``inside`` an island; outside ``other``, or NODE and SYS by NUMA node."""
    island = {gpu: place for place, gpus in enumerate(islands) for gpu in gpus}
    domain = {gpu: place for place, gpus in enumerate(numa) for gpu in gpus}

    def link(a: int, b: int) -> LinkClass:
        if a == b:
            return LinkClass.SELF
        if a in island and island.get(a) == island.get(b):
            return inside
        if other is not None:
            return other
        return LinkClass.NODE if domain.get(a, -1) == domain.get(b, -1) else LinkClass.SYS

    return tuple(tuple(link(a, b) for b in range(count)) for a in range(count))

"""This module draws a cluster: in the terminal as trees and matrices, and as a picture."""

from collections import Counter
from collections.abc import Iterator, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeGroup, NodeType
from predictor.data.clusters.cores import format_cores

_MOST_BRANCHES = 12
_LEAST_COLUMNS, _NAMED_COLUMNS, _MOST_COLUMNS = 4, 8, 16
_COLOURS = {
    LinkClass.SELF: "white", LinkClass.NVSWITCH: "#1a7f4b", LinkClass.NVLINK: "#57b07d",
    LinkClass.PIX: "#9ccbe8", LinkClass.PXB: "#7fb3d8", LinkClass.PHB: "#e8d49c", LinkClass.NODE: "#e8bd7f",
    LinkClass.SYS: "#d97b5f", LinkClass.NETWORK: "#a04040",
}  # fmt: skip


def level_tree(profile: ClusterProfile) -> Tree:
    """Return the levels of the network as a tree, the narrowest with their nodes."""
    below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    groups: dict[tuple[str, ...], list[NodeGroup]] = {}
    nodes: Counter[tuple[str, ...]] = Counter()
    for group in profile.groups:
        groups.setdefault(group.domains, []).append(group)
        for depth in range(len(group.domains)):
            path = group.domains[: depth + 1]
            below.setdefault(path[:-1], {})[path] = None
            nodes[path] += len(group.names)
    root = Tree(f"[bold]{profile.name}[/bold]: {_count(profile.node_count, 'node')}, "
                f"{_count(profile.gpu_count, 'GPU')}")  # fmt: skip
    _grow(root, (), profile, below, groups, nodes)
    return root


def _grow(
    branch: Tree, path: tuple[str, ...], profile: ClusterProfile,
    below: Mapping[tuple[str, ...], Mapping[tuple[str, ...], None]],
    groups: Mapping[tuple[str, ...], list[NodeGroup]], nodes: Mapping[tuple[str, ...], int],
) -> None:  # fmt: skip
    """Add the nodes of a domain and the domains in it; a domain of one group of nodes takes one line."""
    here = groups.get(path, [])
    if not path or len(here) != 1 or path in below:
        for group in here[:_MOST_BRANCHES]:
            branch.add(_group_text(group, profile))
        if len(here) > _MOST_BRANCHES:
            branch.add(f"[dim]and {_count(len(here) - _MOST_BRANCHES, 'more group')} of nodes[/dim]")
    children = list(below.get(path, {}))
    level = profile.levels[len(path)] if children else ""
    for child in children[:_MOST_BRANCHES]:
        name = escape(child[-1] if child[-1].startswith(level) else f"{level} {child[-1] or '?'}")
        if child in below:
            inside = _count(len(below[child]), profile.levels[len(child)])
            text = f"{name}: {inside}, {_count(nodes[child], 'node')}"
        else:
            of = groups[child]
            text = f"{name}: {_group_text(of[0], profile)}" if len(of) == 1 else name
        _grow(branch.add(text), child, profile, below, groups, nodes)
    if len(children) > _MOST_BRANCHES:
        branch.add(f"[dim]and {_count(len(children) - _MOST_BRANCHES, f'more {level}')}[/dim]")


def _group_text(group: NodeGroup, profile: ClusterProfile) -> str:
    kind = profile.node_type(group.node_type)
    gpus = f"{kind.gpu_count} {kind.gpu_type}" if kind.gpu_count else "no GPU"
    pool = f", pool {group.pool}" if group.pool else ""
    return escape(f"{group.hosts}, {len(group.names)} x {kind.name} ({gpus}){pool}")


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}{'' if number == 1 else 's'}"


def has_link_table(kind: NodeType) -> bool:
    """Return whether its links differ, so that a table says more than a line."""
    return len({kind.link(a, b) for a in range(kind.gpu_count) for b in range(a)}) > 1


def link_table(kind: NodeType) -> Table:
    """Return the link of each pair of GPUs of a node."""
    table = _table(f"links inside {kind.name}")
    table.add_column("")
    for gpu in range(kind.gpu_count):
        table.add_column(f"GPU{gpu}", justify="center")
    for gpu, row in enumerate(kind.links):
        table.add_row(f"GPU{gpu}", *("X" if link is LinkClass.SELF else link.name for link in row))
    return table


def parts_of(kind: NodeType) -> Iterator[str]:
    """Yield what a node has beside its links, a line each."""
    gpus = f"{kind.gpu_count} x {kind.gpu_type}" if kind.gpu_count else "no GPU"
    if kind.gpu_memory_mib:
        gpus += f" of {kind.gpu_memory_mib:,} MiB"
    yield f"{kind.name}: {gpus}, {kind.cpus} CPUs, {kind.memory_mib:,} MiB"
    for island in kind.islands:
        if len(island) > 1:
            yield f"  NVLink island: {_gpus(island)}"
    for place, domain in enumerate(kind.numa):
        yield f"  NUMA {place}: cores {format_cores(domain.cores) or '-'}, {_gpus(domain.gpus)}"
    for nic in kind.nics:
        near = f", nearest to {_gpus(nic.gpus)}" if nic.gpus else ""
        yield f"  NIC {nic.name}: {nic.gbit_per_s:g} Gb/s{near}"
    if kind.gpu_count > 1 and not has_link_table(kind):
        yield f"  links: every GPU reaches every other by {kind.link(0, 1).name}"


def _gpus(gpus: tuple[int, ...]) -> str:
    return f"GPU{'' if len(gpus) == 1 else 's'} {format_cores(gpus) or '-'}"


def cost_table(profile: ClusterProfile) -> Table:
    """Return the costs of links that the profile states."""
    table = _table("link costs")
    for head in ("link", "latency", "bandwidth", "source", "error"):
        table.add_column(head, justify="left" if head in ("link", "source") else "right")
    for link, cost in sorted(profile.link_costs.items()):
        table.add_row(link.name, *_cost_cells(cost))
    for shared, cost in enumerate(profile.network_costs):
        name = "network, nothing shared" if shared == 0 else f"network, same {profile.levels[shared - 1]}"
        table.add_row(name, *_cost_cells(cost))
    return table


def _cost_cells(cost: LinkCost) -> tuple[str, ...]:
    error = "-" if cost.error_ratio is None else f"{cost.error_ratio:.0%}"
    return (
        f"{cost.alpha_s * 1e6:.0f} us",
        f"{cost.bandwidth_bytes_per_s / 1e9:.1f} GB/s",
        cost.source,
        error,
    )


def _table(title: str) -> Table:
    return Table(title=title, box=SIMPLE_HEAD, padding=0, show_edge=False, title_justify="left")


def cluster_figure(profile: ClusterProfile) -> Figure:
    """Return a picture: the matrix of links of each node type, and the nodes by domain."""
    kinds = [kind for kind in profile.node_types if kind.gpu_count > 1]
    figure = Figure(figsize=(6.0 * len(kinds) + 7.0, 5.5), layout="constrained")
    axes = figure.subplots(1, len(kinds) + 1, squeeze=False)[0]
    for axis, kind in zip(axes, kinds, strict=False):
        _draw_links(axis, kind)
    _draw_domains(axes[-1], profile)
    return figure


def _draw_links(axis: Axes, kind: NodeType) -> None:
    for a in range(kind.gpu_count):
        for b in range(kind.gpu_count):
            link = kind.link(a, b)
            name = "" if link is LinkClass.SELF else link.name
            _draw_box(axis, (a, b), _COLOURS[link], name, is_dark=link is LinkClass.NVSWITCH)
    middles = [gpu + 0.5 for gpu in range(kind.gpu_count)]
    numa = {gpu: f" NUMA {place}" for place, domain in enumerate(kind.numa) for gpu in domain.gpus}
    beside = [" ".join(nic.name for nic in kind.nics if gpu in nic.gpus) for gpu in range(kind.gpu_count)]
    names = [f"GPU{gpu}{numa.get(gpu, '')}\n{cards}".strip() for gpu, cards in enumerate(beside)]
    axis.set(xlim=(0, kind.gpu_count), ylim=(kind.gpu_count, 0), title=f"{kind.name}: links of its GPUs")
    axis.set_xticks(middles, [f"GPU{gpu}" for gpu in range(kind.gpu_count)], fontsize=7)
    axis.set_yticks(middles, names, fontsize=7)


def _draw_domains(axis: Axes, profile: ClusterProfile) -> None:
    """Draw a box per narrowest domain with its number of nodes, a row or more per domain above it."""
    sizes: dict[tuple[str, ...], int] = {}
    for group in profile.groups:
        path = group.domains or (group.pool or group.node_type,)
        sizes[path] = sizes.get(path, 0) + len(group.names)
    rows: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for path, nodes in sizes.items():
        rows.setdefault(path[:-1], []).append((path[-1], nodes))
    columns = max(_LEAST_COLUMNS, min(_MOST_COLUMNS, max(map(len, rows.values()))))
    largest, line, ticks = max(sizes.values()), 0, []
    for row in rows.values():
        ticks.append(line + 0.5)
        for place, (name, nodes) in enumerate(row):
            shade = 0.15 + 0.75 * nodes / largest
            at = (line + place // columns, place % columns)
            text = f"{name}\n{nodes}" if columns <= _NAMED_COLUMNS else str(nodes)
            _draw_box(axis, at, (0.09, 0.35, 0.72, shade), text, is_dark=shade > 0.6)
        line += (len(row) - 1) // columns + 1
    level = profile.levels[-1] if profile.levels else "pool"
    axis.set(
        xlim=(0, columns), ylim=(max(line, _LEAST_COLUMNS), 0), xticks=[], frame_on=False,
        title=f"{profile.name}: nodes in each {level} ({len(sizes)})",
    )  # fmt: skip
    axis.set_yticks(ticks, [" / ".join(path) for path in rows], fontsize=7)


def _draw_box(
    axis: Axes, at: tuple[int, int], colour: str | tuple[float, ...], text: str, *, is_dark: bool
) -> None:
    row, column = at
    axis.add_patch(FancyBboxPatch(
        (column + 0.08, row + 0.08), 0.84, 0.84, boxstyle="round,pad=0.02", facecolor=colour,
        edgecolor="grey",
    ))  # fmt: skip
    ink = "white" if is_dark else "black"
    axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7, color=ink)

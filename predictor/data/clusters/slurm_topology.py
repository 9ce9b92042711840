"""This module reads Slurm's topology: ``topology.conf`` or ``scontrol show topology``, tree and block."""

import re
from dataclasses import dataclass

from predictor.contracts.hostlist import expand_hosts
from predictor.errors import ArgumentError, FormatError

_PAIR = re.compile(r"([A-Za-z]+)=(\S+)")
_MOST_LEVELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTree:
    """Where nodes lie.

    Attributes:
        levels: names of the levels, wide to narrow.
        domains: names of the domains of each node, one per level.
    """

    levels: tuple[str, ...]
    domains: dict[str, tuple[str, ...]]


def read_slurm_topology(text: str) -> NetworkTree:
    """Return the tree of switches, or the blocks.

    Raises:
        FormatError: there is neither, or the tree is none; all faults are named.
    """
    records = []
    for line in text.splitlines():
        plain = line.split("#", 1)[0].strip()
        if plain:
            records.append({key.lower(): value for key, value in _PAIR.findall(plain)})
    blocks = [record for record in records if "blockname" in record]
    if blocks:
        sizes = next((record["blocksizes"] for record in records if "blocksizes" in record), "")
        return _blocks(blocks, [int(size) for size in sizes.split(",") if size.isdigit()])
    switches = {record["switchname"]: record for record in records if "switchname" in record}
    if not switches:
        raise FormatError("the text has neither SwitchName= nor BlockName=; pass a topology.conf")
    return _tree(switches)


def _blocks(records: list[dict[str, str]], sizes: list[int]) -> NetworkTree:
    """Return blocks, and above them what larger BlockSizes put together: neighbours in their order."""
    counts = sorted({size // sizes[0] for size in sizes if size >= 2 * sizes[0] > 0}, reverse=True)
    domains: dict[str, tuple[str, ...]] = {}
    faults: list[str] = []
    for place, record in enumerate(records):
        above = tuple(f"{count}-blocks-{place // count + 1}" for count in counts)
        for node in _hosts(record.get("nodes", ""), faults):
            if node in domains:
                faults.append(f"node '{node}' is in the blocks {domains[node][-1]} and {record['blockname']}")
            domains[node] = (*above, record["blockname"])
    if faults:
        raise FormatError(f"the topology has {len(faults)} faults", faults=faults)
    levels = tuple(f"{count}-blocks" for count in counts)
    return NetworkTree(levels=(*levels, "block"), domains=domains)


def _tree(switches: dict[str, dict[str, str]]) -> NetworkTree:
    faults: list[str] = []
    parent: dict[str, str] = {}
    for name, record in switches.items():
        for child in _hosts(record.get("switches", ""), faults):
            if child not in switches:
                faults.append(f"switch '{name}' names the switch '{child}', which is not there")
            elif child in parent:
                faults.append(f"switch '{child}' is below {parent[child]} and {name}")
            else:
                parent[child] = name
    paths: dict[str, tuple[str, ...]] = {}
    for name, record in switches.items():
        path = _path(name, parent, faults)
        for node in _hosts(record.get("nodes", ""), faults):
            # a switch that lists all nodes below it, as scontrol prints it, says less than the leaf itself
            if len(path) > len(paths.get(node, ())):
                paths[node] = path
    depth = max((len(path) for path in paths.values()), default=0)
    if depth == 0 and not faults:
        faults.append("no switch has nodes")
    if faults:
        raise FormatError(f"the topology has {len(faults)} faults", faults=sorted(set(faults)))
    names = _level_names(depth)
    return NetworkTree(
        levels=names,
        domains={node: (path + (path[-1],) * depth)[:depth] for node, path in paths.items()},
    )


def _path(name: str, parent: dict[str, str], faults: list[str]) -> tuple[str, ...]:
    path = [name]
    while path[0] in parent:
        path.insert(0, parent[path[0]])
        if len(path) > _MOST_LEVELS:
            faults.append(f"the switches above '{name}' form a ring, or more than {_MOST_LEVELS} levels")
            return (name,)
    return tuple(path)


def _level_names(depth: int) -> tuple[str, ...]:
    known = ("pod", "spine", "block", "rack")[-depth:] if depth <= 4 else ()
    return known or tuple(f"level{place}" for place in range(depth))


def _hosts(text: str, faults: list[str]) -> tuple[str, ...]:
    if not text or text == "(null)":
        return ()
    try:
        return expand_hosts(text)
    except ArgumentError as error:
        faults.append(error.message)
        return ()

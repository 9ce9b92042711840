"""This module finds what is wrong with a cluster profile, all of it at once."""

from collections import Counter

from predictor.contracts.cluster import ClusterProfile, LinkClass, NodeType
from predictor.errors import ArgumentError


def profile_faults(profile: ClusterProfile) -> list[str]:
    """Return every fault of a profile in words, [] = none."""
    faults = []
    names = Counter(kind.name for kind in profile.node_types)
    faults += [f"node type '{name}' is there {count} times" for name, count in names.items() if count > 1]
    for kind in profile.node_types:
        faults += [f"node type {kind.name}: {fault}" for fault in _type_faults(kind)]
    if len(set(profile.levels)) < len(profile.levels):
        faults.append("two levels have the same name")
    seen: Counter[str] = Counter()
    for group in profile.groups:
        if group.node_type not in names:
            faults.append(
                f"group '{group.hosts[:60]}': node type '{group.node_type}' is not there; "
                f"known are {', '.join(names)}"
            )
        if len(group.domains) != len(profile.levels):
            faults.append(
                f"group '{group.hosts[:60]}': {len(group.domains)} domains for {len(profile.levels)} levels "
                f"({', '.join(profile.levels) or 'none'})"
            )
        try:
            seen.update(group.names)
        except ArgumentError as error:
            faults.append(f"group '{group.hosts[:60]}': {error.message}")
    twice = [name for name, count in seen.items() if count > 1]
    if twice:
        faults.append(f"{len(twice)} nodes are in two groups, such as '{twice[0]}'")
    if profile.network_costs and len(profile.network_costs) > len(profile.levels) + 1:
        faults.append(
            f"network costs for {len(profile.network_costs) - 1} shared levels, but there are "
            f"{len(profile.levels)}"
        )
    return faults


def _type_faults(kind: NodeType) -> list[str]:
    faults = []
    count = kind.gpu_count
    if count and not kind.gpu_type:
        faults.append("it has GPUs but no gpu_type")
    if len(kind.links) != count or any(len(row) != count for row in kind.links):
        faults.append(f"its links are no square of {count} x {count}")
    else:
        for a in range(count):
            if kind.links[a][a] is not LinkClass.SELF:
                faults.append(f"the link of GPU {a} to itself must be SELF, got {kind.links[a][a].name}")
            for b in range(a):
                if kind.links[a][b] is not kind.links[b][a]:
                    faults.append(f"the link of GPUs {b} and {a} differs by direction")
                if kind.links[a][b] in (LinkClass.SELF, LinkClass.NETWORK):
                    faults.append(f"GPUs {b} and {a} cannot be linked by {kind.links[a][b].name}")
    placed = [gpu for domain in kind.numa for gpu in domain.gpus]
    named = [*placed, *(gpu for nic in kind.nics for gpu in nic.gpus)]
    faults += [
        f"GPU {gpu} does not exist; it has {count}" for gpu in sorted(set(named)) if not 0 <= gpu < count
    ]
    if len(set(placed)) < len(placed):
        faults.append("a GPU is in two NUMA nodes")
    cores = [core for domain in kind.numa for core in domain.cores]
    if len(set(cores)) < len(cores):
        faults.append("a core is in two NUMA nodes")
    return faults

"""This module reads nodes from Slurm: ``scontrol show node`` as text, in one line each, or as JSON."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from predictor.errors import FormatError

_PAIR = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_:/]*)=(\S*)")
_GRES = re.compile(r"gpu(?::(?P<type>[^:(,]+))?:(?P<count>\d+)")
_GONE = ("DOWN", "FAIL", "DRAIN", "FUTURE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as Slurm knows it; ``is_up`` is False for nodes that are down, failed or drained."""

    name: str
    gpu_type: str
    gpu_count: int
    cpus: int
    memory_mib: int
    partitions: tuple[str, ...]
    is_up: bool


def read_slurm_nodes(text: str) -> tuple[SlurmNode, ...]:
    """Return the nodes of an output of ``scontrol show node``, with or without ``--oneliner`` or ``--json``.

    Raises:
        FormatError: it holds no nodes.
    """
    if text.lstrip().startswith("{"):
        return _from_json(text)
    nodes = []
    for record in re.split(r"(?m)^(?=NodeName=)", text):
        values = dict(_PAIR.findall(record))
        if "NodeName" not in values:
            continue
        kind, count = read_gres(values.get("Gres", ""))
        states = re.split(r"[+*]", values.get("State", "").upper())
        nodes.append(SlurmNode(
            name=values["NodeName"], gpu_type=kind, gpu_count=count, cpus=_whole(values.get("CPUTot")),
            memory_mib=_whole(values.get("RealMemory")),
            is_up=not any(state.startswith(_GONE) for state in states),
            partitions=tuple(filter(None, values.get("Partitions", "").split(","))),
        ))  # fmt: skip
    if not nodes:
        raise FormatError("the text holds no NodeName=; pass the output of 'scontrol show node'")
    return tuple(nodes)


def read_gres(text: str) -> tuple[str, int]:
    """Return GPU type and count of a Gres field, the type of the most GPUs where there are several.

    Examples:
        >>> read_gres("gpu:a100:4(S:0-1),gpu:v100:2")
        ('a100', 6)
    """
    found = [(match["type"] or "", int(match["count"])) for match in _GRES.finditer(text)]
    if not found:
        return "", 0
    kind = max(found, key=lambda item: item[1])[0]
    return kind.lower() or "gpu", sum(count for _, count in found)


def _from_json(text: str) -> tuple[SlurmNode, ...]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise FormatError(f"the JSON cannot be read: {error}") from error
    rows = document.get("nodes") if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise FormatError("the JSON has no list 'nodes'; pass the output of 'scontrol show node --json'")
    nodes = []
    for row in rows:
        kind, count = read_gres(str(row.get("gres", "")))
        states = row.get("state", [])
        states = states if isinstance(states, list) else [states]
        nodes.append(SlurmNode(
            name=str(row.get("name", "")), gpu_type=kind, gpu_count=count, cpus=_whole(row.get("cpus")),
            memory_mib=_whole(row.get("real_memory")),
            partitions=tuple(str(name) for name in row.get("partitions", [])),
            is_up=not any(str(state).upper().startswith(_GONE) for state in states),
        ))  # fmt: skip
    return tuple(nodes)


def _whole(value: object) -> int:
    text = str(value)
    return int(text) if text.isdigit() else 0

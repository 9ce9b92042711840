"""This module reads nodes from Slurm: ``scontrol show node`` as text, in one line each, or as JSON.

Slurm 22.05 has no ``scontrol --json``; its ``sinfo --json`` lists nodes in the same way. From 23.02 on
``sinfo --json`` lists nodes that are alike together, which is read as well.
"""

import json
import re
from collections.abc import Mapping, Sequence
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
    """Return the nodes of ``scontrol show node``, with or without ``--oneliner``, or of JSON.

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
        nodes.append(SlurmNode(
            name=values["NodeName"], gpu_type=kind, gpu_count=count, cpus=_whole(values.get("CPUTot")),
            memory_mib=_whole(values.get("RealMemory")),
            is_up=_is_up(re.split(r"[+*]", values.get("State", ""))),
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
    if isinstance(document, Mapping) and isinstance(document.get("sinfo"), list):
        return _from_sinfo(document["sinfo"])
    rows = document.get("nodes") if isinstance(document, Mapping) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise FormatError("the JSON has no list 'nodes'; pass the output of 'scontrol show node --json'")
    nodes = []
    for row in rows:
        kind, count = read_gres(str(row.get("gres", "")))
        nodes.append(SlurmNode(
            name=str(row.get("name", "")), gpu_type=kind, gpu_count=count, cpus=_whole(row.get("cpus")),
            memory_mib=_whole(row.get("real_memory")), is_up=_is_up(row.get("state"), row.get("state_flags")),
            partitions=_texts(row.get("partitions")),
        ))  # fmt: skip
    return tuple(nodes)


def _from_sinfo(rows: Sequence[object]) -> tuple[SlurmNode, ...]:
    """Return nodes of records that each name nodes that are alike; a node of two partitions is in two."""
    found: dict[str, SlurmNode] = {}
    for row in rows:
        kind, count = read_gres(str(_at(row, "gres", "total")))
        for name in _texts(_at(row, "nodes", "nodes")):
            before = found[name].partitions if name in found else ()
            found[name] = SlurmNode(
                name=name, gpu_type=kind, gpu_count=count, cpus=_whole(_at(row, "cpus", "maximum")),
                memory_mib=_whole(_at(row, "memory", "maximum")), is_up=_is_up(_at(row, "node", "state")),
                partitions=(*before, *_texts(_at(row, "partition", "name"))),
            )  # fmt: skip
    if not found:
        raise FormatError("the JSON of sinfo names no nodes; use 'scontrol show node --json'")
    return tuple(found.values())


def _at(row: object, first: str, second: str) -> object:
    inner = row.get(first) if isinstance(row, Mapping) else None
    return inner.get(second) if isinstance(inner, Mapping) else None


def _is_up(*states: object) -> bool:
    return not any(state.upper().startswith(_GONE) for found in states for state in _texts(found))


def _texts(value: object) -> tuple[str, ...]:
    """Return a list of texts, which older versions write as one text."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _whole(value: object) -> int:
    text = str(value)
    return int(text) if text.isdigit() else 0

"""This module reads Kubernetes' nodes (``kubectl get nodes -o json``) and the levels of a Kueue Topology."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from predictor.errors import FormatError

# labels of zones, blocks and racks that clouds set, wide to narrow
DEFAULT_LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
)
HOSTNAME = "kubernetes.io/hostname"
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesNode:
    """A node; ``domains`` are the values of its level labels, wide to narrow."""

    name: str
    gpu_type: str
    gpu_count: int
    gpu_memory_mib: int
    cpus: int
    memory_mib: int
    domains: tuple[str, ...]
    is_up: bool


def read_topology_levels(text: str) -> tuple[str, ...]:
    """Return the node labels of a Kueue Topology (JSON), wide to narrow, without the host name.

    Raises:
        FormatError: it is none.
    """
    levels = _mapping(_document(text), "spec").get("levels")
    if not isinstance(levels, list) or not all(
        isinstance(level, Mapping) and level.get("nodeLabel") for level in levels
    ):
        raise FormatError("the JSON is no Kueue Topology: spec.levels must list nodeLabel")
    return tuple(str(level["nodeLabel"]) for level in levels if level["nodeLabel"] != HOSTNAME)


def read_kubernetes_nodes(
    text: str, levels: Sequence[str] | None = None
) -> tuple[tuple[str, ...], tuple[KubernetesNode, ...]]:
    """Return the labels that serve as levels, and the nodes.

    Args:
        levels: labels, wide to narrow; None = those of the usual ones that nodes with GPUs have.

    Raises:
        FormatError: it is no list of nodes.
    """
    items = _document(text).get("items")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items) or not items:
        raise FormatError("the JSON has no list 'items'; pass the output of 'kubectl get nodes -o json'")
    labels = [_mapping(_mapping(item, "metadata"), "labels") for item in items]
    used = tuple(levels) if levels is not None else tuple(
        label for label in DEFAULT_LEVELS if any(label in own for own in labels)
    )  # fmt: skip
    nodes = tuple(_node(item, own, used) for item, own in zip(items, labels, strict=True))
    return used, nodes


def _node(item: Mapping[str, object], labels: Mapping[str, object], levels: Sequence[str]) -> KubernetesNode:
    status, spec = _mapping(item, "status"), _mapping(item, "spec")
    capacity = _mapping(status, "capacity")
    name = str(_mapping(item, "metadata").get("name", ""))
    gpus = next((key for key in capacity if re.fullmatch(r"(nvidia|amd)\.com/gpu", key)), "")
    conditions = status.get("conditions")
    ready = any(
        isinstance(one, Mapping) and one.get("type") == "Ready" and one.get("status") == "True"
        for one in (conditions if isinstance(conditions, list) else [])
    )
    return KubernetesNode(
        name=name,
        gpu_type=gpu_type_of(str(labels.get(f"{gpus}.product") or labels.get(f"{gpus}.product-name", "")))
        if gpus else "",
        gpu_count=int(_quantity(capacity.get(gpus, 0))),
        gpu_memory_mib=int(_quantity(labels.get("nvidia.com/gpu.memory", 0))),
        cpus=int(_quantity(capacity.get("cpu", 0))),
        memory_mib=int(_quantity(capacity.get("memory", 0)) / 2**20),
        domains=tuple(str(labels.get(label, "")) for label in levels),
        is_up=ready and not spec.get("unschedulable", False),
    )  # fmt: skip


def gpu_type_of(product: str) -> str:
    """Return the short type of a product label.

    Examples:
        >>> gpu_type_of("NVIDIA-A100-SXM4-80GB"), gpu_type_of("NVIDIA-GeForce-RTX-2080-Ti")
        ('a100', 'rtx-2080-ti')
    """
    found = re.search(
        r"(?i)\b(GB?[HB]?\d{3}|[AHBLVPKT]\d{1,3}[A-Z]?|[GR]TX-?\w+(?:-Ti)?|MI\d{3}\w*)\b",
        product.replace("_", "-"),
    )
    return found[1].lower() if found else product.lower() or "gpu"


def _quantity(value: object) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(m|[KMGT]i?|k)?", str(value).strip())
    if found is None:
        return 0.0
    return float(found[1]) * (1e-3 if found[2] == "m" else _UNITS.get(found[2] or "", 1))


def _mapping(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _document(text: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise FormatError(f"the JSON cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise FormatError("the JSON is no object")
    return document

"""This module reads what ``nvidia-smi topo -m`` prints: links of GPUs and cards, cores, NUMA nodes."""

import re

from predictor.contracts.cluster import LinkClass, Nic, NodeType, NumaDomain
from predictor.data.clusters.cores import read_cores
from predictor.errors import FormatError

_CODES = {
    "X": LinkClass.SELF, "PIX": LinkClass.PIX, "PXB": LinkClass.PXB, "PHB": LinkClass.PHB,
    "NODE": LinkClass.NODE, "SYS": LinkClass.SYS, "SOC": LinkClass.SYS,  # SOC: what old versions call SYS
}  # fmt: skip
_NVLINK = re.compile(r"NV(\d+)")
_LEGEND = re.compile(r"^\s*(NIC\d+|mlx\S*):\s*(\S+)\s*$", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_MOST_NVLINKS = 18  # that any GPU has; more to all others together can only be counted behind a switch


def parse_nvidia_topology(
    text: str, *, name: str = "node", gpu_type: str = "", gpu_memory_mib: int = 0,
    nic_gbit_per_s: float = 100.0,
) -> NodeType:  # fmt: skip
    """Return the node type that a printed matrix describes.

    Args:
        nic_gbit_per_s: speed of each card, which the matrix does not tell.

    Raises:
        FormatError: there is no matrix of GPUs, or rows of it cannot be read; all faults are named.
    """
    lines = [line for line in _ESCAPES.sub("", text).splitlines() if line.strip()]
    head_at = next((at for at, line in enumerate(lines) if re.match(r"^\s+GPU0\b", line)), None)
    if head_at is None:
        raise FormatError("the text holds no matrix of GPUs; pass the output of 'nvidia-smi topo -m'")
    columns = re.split(r"\t+|\s{2,}", lines[head_at].strip())
    devices = [column.strip() for column in columns if re.fullmatch(r"(GPU|NIC)\d+|mlx\S*", column.strip())]
    rows: dict[str, list[str]] = {}
    affinity: dict[str, str] = {}
    for line in lines[head_at + 1 :]:
        found = re.match(r"^\s*(GPU\d+|NIC\d+|mlx\S*)\s+(.*)$", line)
        if found is None or found[1] not in devices:
            continue
        fields = found[2].split()
        rows[found[1]] = fields[: len(devices)]
        affinity[found[1]] = " ".join(fields[len(devices) :])
    gpus = [device for device in devices if device.startswith("GPU")]
    faults = [f"the row of {gpu} is missing" for gpu in gpus if gpu not in rows]
    for gpu in gpus:
        for place, code in enumerate(rows.get(gpu, [])):
            if code not in _CODES and not _NVLINK.fullmatch(code):
                faults.append(f"{gpu} to {devices[place]}: '{code}' is no link")
        if gpu in rows and len(rows[gpu]) < len(devices):
            faults.append(f"the row of {gpu} has {len(rows[gpu])} links for {len(devices)} devices")
    if faults:
        raise FormatError(f"the matrix has {len(faults)} faults", faults=faults)
    places = [devices.index(gpu) for gpu in gpus]
    codes = [[rows[gpu][place] for place in places] for gpu in gpus]
    legend = dict(_LEGEND.findall(text))
    domains = _numa(gpus, affinity)
    return NodeType(
        name=name, gpu_type=gpu_type.lower() or "gpu", gpu_count=len(gpus), gpu_memory_mib=gpu_memory_mib,
        cpus=sum(len(domain.cores) for domain in domains), links=_links(codes), numa=domains,
        nics=tuple(
            Nic(name=legend.get(device, device), gbit_per_s=nic_gbit_per_s,
                gpus=_nearest(place, [rows[gpu] for gpu in gpus]))
            for place, device in enumerate(devices)
            if device not in gpus
        ),
    )  # fmt: skip


def _links(codes: list[list[str]]) -> tuple[tuple[LinkClass, ...], ...]:
    """Return link classes; where the NVLinks of a GPU are more than it has, a switch shares them."""
    widths = [sum(int(found[1]) for found in map(_NVLINK.fullmatch, row) if found) for row in codes]
    nvlink = LinkClass.NVSWITCH if max(widths, default=0) > _MOST_NVLINKS else LinkClass.NVLINK
    return tuple(tuple(_CODES.get(code, nvlink) for code in row) for row in codes)


def _nearest(place: int, rows: list[list[str]]) -> tuple[int, ...]:
    """Return the GPUs whose link to a card is the best that it has to any."""
    links = [_CODES.get(row[place], LinkClass.SYS) for row in rows]
    best = min(links)
    return tuple(gpu for gpu, link in enumerate(links) if link == best) if best < LinkClass.SYS else ()


def _numa(gpus: list[str], affinity: dict[str, str]) -> tuple[NumaDomain, ...]:
    """Return NUMA nodes from the columns CPU Affinity and NUMA Affinity, () where they are not there."""
    domains: dict[str, tuple[str, list[int]]] = {}
    for place, gpu in enumerate(gpus):
        fields = affinity[gpu].split()
        if not fields or fields[0] in ("N/A", "") or not re.fullmatch(r"[\d,-]+", fields[0]):
            return ()
        domains.setdefault(fields[0], (fields[0], []))[1].append(place)
    return tuple(NumaDomain(cores=read_cores(cores), gpus=tuple(own)) for cores, own in domains.values())

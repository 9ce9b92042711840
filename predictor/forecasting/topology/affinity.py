"""This module chooses GPUs, cores and network cards inside a node, as a launcher can use them."""

from dataclasses import dataclass
from itertools import combinations
from math import comb

from predictor.contracts.cluster import LinkClass, NodeType
from predictor.data.clusters.cores import format_cores
from predictor.errors import ArgumentError

_MOST_CHOICES = 2_000  # tried one by one: 8 of 8 to 4 of 8 GPUs are 70 at most


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityHint:
    """Where the processes of a job should run.

    Attributes:
        gpus: indices, ascending.
        slowest: the slowest link among them; SELF for one.
        numa: NUMA nodes that these GPUs hang on, () = not known.
        gpu_cores: for each GPU the cores nearest to it, () = not known.
        nics: cards nearest to them, () = not known.
        sentence: why these.
    """

    gpus: tuple[int, ...]
    slowest: LinkClass
    numa: tuple[int, ...]
    gpu_cores: tuple[tuple[int, ...], ...]
    nics: tuple[str, ...]
    sentence: str

    @property
    def cores(self) -> tuple[int, ...]:
        """Cores near to any of the GPUs, () = not known."""
        return tuple(sorted({core for cores in self.gpu_cores for core in cores}))

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the processes; ``=`` lets NCCL take names as they are, not as prefixes."""
        # without the order CUDA numbers the fastest GPU first, unlike nvidia-smi and the profile
        values = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, self.gpus))}
        if self.nics:
            values["NCCL_IB_HCA"] = "=" + ",".join(self.nics)
        return values

    @property
    def cpu_bind(self) -> str:
        """Argument of ``taskset -c`` and of ``numactl -C`` for all processes, "" = not known."""
        return format_cores(self.cores)

    @property
    def slurm_cpu_bind(self) -> str:
        """Argument of ``srun --cpu-bind`` with a task per GPU in the order of ``gpus``, "" = not known."""
        if not self.cores:
            return ""
        masks = [sum(1 << core for core in cores or self.cores) for cores in self.gpu_cores]
        return "mask_cpu:" + ",".join(f"{mask:#x}" for mask in masks)


def choose_gpus(kind: NodeType, free: tuple[int, ...], count: int) -> AffinityHint:
    """Return the best ``count`` of the free GPUs of a node.

    The slowest link decides, then the sum of all links, then how few NUMA nodes are touched; among equals,
    GPUs whose islands and NUMA nodes leave the least behind, so that whole ones stay free for others; then
    the lowest indices. Where there are very many choices, GPUs are added one by one in that order instead.

    Raises:
        ArgumentError: there are not so many free GPUs, or some do not exist.
    """
    available = tuple(sorted(set(free)))
    wrong = [gpu for gpu in available if not 0 <= gpu < kind.gpu_count]
    if wrong or not 1 <= count <= len(available):
        raise ArgumentError(
            f"{count} of the free GPUs {list(available)} cannot be chosen on '{kind.name}', "
            f"which has {kind.gpu_count}"
        )
    order = _Order.of(kind, available)
    if comb(len(available), count) <= _MOST_CHOICES:
        best = min(combinations(available, count), key=order.cost)
    else:
        best = min((order.grown(first, count) for first in available), key=order.cost)
    slowest = kind.slowest_link(best)
    near = {gpu: domain.cores for domain in kind.numa for gpu in domain.gpus}
    reached = "one GPU needs no link" if count == 1 else f"their slowest link is {slowest.name}"
    return AffinityHint(
        gpus=best, slowest=slowest,
        numa=tuple(place for place, domain in enumerate(kind.numa) if set(domain.gpus) & set(best)),
        gpu_cores=tuple(near.get(gpu, ()) for gpu in best) if kind.numa else (),
        nics=tuple(nic.name for nic in kind.nics if set(nic.gpus) & set(best)),
        sentence=f"GPU{'' if count == 1 else 's'} {', '.join(map(str, best))} of {len(available)} free ones: "
        f"{reached}, and {order.left_over(order.islands, best)} free GPUs of the same islands stay behind",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What makes one choice better than another; islands and NUMA nodes are masks of free GPUs."""

    kind: NodeType
    free: tuple[int, ...]
    islands: tuple[int, ...]
    numa: tuple[int, ...]

    @classmethod
    def of(cls, kind: NodeType, free: tuple[int, ...]) -> "_Order":
        every = _mask(free)
        return cls(
            kind=kind, free=free, islands=tuple(_mask(gpus) & every for gpus in kind.islands),
            numa=tuple(_mask(domain.gpus) & every for domain in kind.numa),
        )  # fmt: skip

    def cost(self, gpus: tuple[int, ...]) -> tuple[int, int, int, int, int, tuple[int, ...]]:
        links = [self.kind.links[a][b] for a, b in combinations(gpus, 2)]
        taken = _mask(gpus)
        touched = sum(1 for domain in self.numa if domain & taken)
        return (
            int(max(links, default=LinkClass.SELF)), sum(links), touched,
            self.left_over(self.islands, gpus), self.left_over(self.numa, gpus), gpus,
        )  # fmt: skip

    def left_over(self, parts: tuple[int, ...], gpus: tuple[int, ...]) -> int:
        """Return how many free GPUs of the parts that are touched are left over."""
        taken = _mask(gpus)
        return sum((part & ~taken).bit_count() for part in parts if part & taken)

    def grown(self, first: int, count: int) -> tuple[int, ...]:
        """Return GPUs around a first one, each the best to add."""
        chosen: tuple[int, ...] = (first,)
        while len(chosen) < count:
            choices = (tuple(sorted((*chosen, gpu))) for gpu in self.free if gpu not in chosen)
            chosen = min(choices, key=self.cost)
        return chosen


def _mask(gpus: tuple[int, ...]) -> int:
    return sum(1 << gpu for gpu in set(gpus))

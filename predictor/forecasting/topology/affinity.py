"""This module chooses GPUs, cores and network cards inside a node, as a launcher can use them."""

from dataclasses import dataclass
from itertools import combinations

from predictor.contracts.cluster import LinkClass, NodeType
from predictor.data.clusters.cores import format_cores
from predictor.errors import ArgumentError

_MOST_COMBINATIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityHint:
    """Where the processes of a job should run.

    Attributes:
        gpus: indices, ascending.
        slowest: the slowest link among them; SELF for one.
        cores: cores of the NUMA nodes that these GPUs hang on, () = not known.
        nics: cards nearest to them, () = not known.
        sentence: why these.
    """

    gpus: tuple[int, ...]
    slowest: LinkClass
    cores: tuple[int, ...]
    nics: tuple[str, ...]
    sentence: str

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the processes."""
        values = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, self.gpus))}
        if self.nics:
            values["NCCL_IB_HCA"] = ",".join(self.nics)
        return values

    @property
    def cpu_bind(self) -> str:
        """Argument of ``taskset -c`` (and of ``numactl -C``), "" = not known."""
        return format_cores(self.cores)


def choose_gpus(kind: NodeType, free: tuple[int, ...], count: int) -> AffinityHint:
    """Return the best ``count`` of the free GPUs of a node.

    The slowest link decides, then the sum of all links; among equals, GPUs whose island leaves the least
    behind, so that whole islands stay free for others; then the lowest indices.

    Raises:
        ArgumentError: there are not so many free GPUs, or some do not exist.
    """
    wrong = [gpu for gpu in free if not 0 <= gpu < kind.gpu_count]
    if wrong or not 1 <= count <= len(set(free)):
        raise ArgumentError(
            f"{count} of the free GPUs {sorted(set(free))} cannot be chosen on '{kind.name}', "
            f"which has {kind.gpu_count}"
        )
    available = tuple(sorted(set(free)))
    best = min(_candidates(available, count), key=lambda gpus: _cost(kind, available, gpus))
    slowest = kind.slowest_link(best)
    cores: set[int] = set()
    for domain in kind.numa:
        if set(domain.gpus) & set(best):
            cores.update(domain.cores)
    nics = tuple(nic.name for nic in kind.nics if set(nic.gpus) & set(best))
    reached = "one GPU needs no link" if count == 1 else f"its slowest link is {slowest.name}"
    return AffinityHint(
        gpus=best, slowest=slowest, cores=tuple(sorted(cores)), nics=nics,
        sentence=f"GPUs {', '.join(map(str, best))} of {len(available)} free ones: {reached}, and "
        f"{_left_over(kind, available, best)} free GPUs of the islands they are in stay behind",
    )  # fmt: skip


def _candidates(free: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    found = []
    for gpus in combinations(free, count):
        found.append(gpus)
        if (
            len(found) > _MOST_COMBINATIONS
        ):  # nodes of this size have switches: any run of neighbours is as good
            return [free[at : at + count] for at in range(len(free) - count + 1)]
    return found


def _cost(
    kind: NodeType, free: tuple[int, ...], gpus: tuple[int, ...]
) -> tuple[int, int, int, tuple[int, ...]]:
    total = sum(kind.link(a, b) for a, b in combinations(gpus, 2))
    return int(kind.slowest_link(gpus)), int(total), _left_over(kind, free, gpus), gpus


def _left_over(kind: NodeType, free: tuple[int, ...], gpus: tuple[int, ...]) -> int:
    """Return how many free GPUs of the islands that are touched are left over."""
    taken = set(gpus)
    return sum(len((set(island) & set(free)) - taken) for island in kind.islands if set(island) & taken)

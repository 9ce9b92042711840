"""This module turns forecast throughput into the loosest request of closeness that costs little.

A job that asks for more closeness than it needs waits longer; one that asks for less runs slower. So the
loosest level whose expected loss stays below a bound is required or preferred, and nothing more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from predictor.errors import ArgumentError

LOSS = 0.05
HOST = "host"
HOST_LABEL = "kubernetes.io/hostname"
REQUIRED_ABOVE = 0.25  # a loss beyond the level that a scheduler must not fall back to


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChoice:
    """The closeness that a job should ask for.

    Attributes:
        level: name of the level that all of its GPUs should share, "" = any placement will do.
        is_required: whether anything looser costs so much that waiting is better.
        loss: expected loss of throughput at that level against the best.
        loss_beyond: the same one level looser, 0 where there is none.
        kueue: annotation of a pod set, None = none is needed.
        slurm: arguments of sbatch; () = none are needed, or Slurm cannot ask for that level.
    """

    level: str
    is_required: bool
    loss: float
    loss_beyond: float
    kueue: tuple[str, str] | None
    slurm: tuple[str, ...]


def choose_level(
    levels: Sequence[str], throughput_at: Callable[[str], float | None], *, max_loss: float = LOSS,
    labels: Sequence[str] = (),
) -> LevelChoice:  # fmt: skip
    """Return the loosest level that costs at most ``max_loss``.

    Args:
        levels: names from wide to narrow, without the host.
        throughput_at: expected relative throughput (best = 1) where all GPUs share a level; "" = where
            they share none, ``host`` = all on one node; None = the job does not fit into one such domain.
        labels: node labels of the levels in Kubernetes, by default their names.

    Raises:
        ArgumentError: a throughput is not above 0, none is known, labels do not match the levels, or the
            bound is no share.
    """
    if not 0 <= max_loss < 1:
        raise ArgumentError(f"max_loss={max_loss} must lie between 0 and 1")
    if labels and len(labels) != len(levels):
        raise ArgumentError(f"{len(labels)} labels for {len(levels)} levels; give one for each")
    label_of = {**dict(zip(levels, labels or levels, strict=True)), HOST: HOST_LABEL}
    throughput = {name: throughput_at(name) for name in ("", *levels, HOST)}
    fitting = {name: value for name, value in throughput.items() if value is not None}
    names, found = list(fitting), list(fitting.values())
    if not found or not all(value > 0 for value in found):
        raise ArgumentError(f"relative throughputs must be above 0, got {throughput}")
    best = max(found)
    losses = [max(0.0, 1.0 - value / best) for value in found]
    at = next(place for place, loss in enumerate(losses) if loss <= max_loss)
    beyond = losses[at - 1] if at else 0.0
    level = names[at]
    required = beyond > REQUIRED_ABOVE
    if not level:
        return LevelChoice(level="", is_required=False, loss=losses[0], loss_beyond=0.0, kueue=None, slurm=())
    kind = "required" if required else "preferred"
    slurm = ("--nodes=1",) if level == HOST else ("--switches=1",) if level == levels[-1] else ()
    return LevelChoice(
        level=level, is_required=required, loss=losses[at], loss_beyond=beyond,
        kueue=(f"kueue.x-k8s.io/podset-{kind}-topology", label_of[level]), slurm=slurm,
    )  # fmt: skip

"""This module is the registry of GPU classes and of their memory."""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from predictor.errors import ArgumentError
from predictor.forecasting.memory.breakdown import MIB
from predictor.forecasting.memory.names import plain

_VENDORS = ("nvidia-", "geforce-", "amd-", "instinct-", "tesla-", "quadro-", "gres-gpu-", "gpu-")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClass:
    """A kind of GPU, or a slice of one.

    Attributes:
        total_mib: as the vendor names it. usable_mib: what a process gets on an idle card, approximately.
        slice_of: the card that it is a slice of; empty for whole cards.
    """

    name: str
    total_mib: float
    usable_mib: float
    slice_of: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def usable_bytes(self) -> float:
        """Usable memory in bytes."""
        return self.usable_mib * MIB


@lru_cache(maxsize=1)
def gpu_classes() -> tuple[GpuClass, ...]:
    """Return all known GPU classes, smallest memory first."""
    text = (resources.files("predictor.forecasting.memory") / "cards" / "gpus.toml").read_text("utf-8")
    classes = [
        GpuClass(
            name=name, total_mib=float(row["total"]), usable_mib=float(row["usable"]),
            slice_of=row.get("slice_of", ""), aliases=tuple(row.get("aliases", ())),
        )
        for name, row in tomllib.loads(text)["gpus"].items()
    ]  # fmt: skip
    return tuple(sorted(classes, key=lambda gpu: (gpu.usable_mib, gpu.name)))


@lru_cache(maxsize=1)
def _by_name() -> dict[str, GpuClass]:
    return {name: gpu for gpu in gpu_classes() for name in (gpu.name, *gpu.aliases)}


def find_gpu(name: str) -> GpuClass | None:
    """Return the GPU class of a name as schedulers and drivers write it, None if it is unknown.

    Examples:
        >>> [find_gpu(name).name for name in ("NVIDIA A100-SXM4-80GB", "a100_80gb", "nvidia_a100_1g.5gb")]
        ['a100-80gb', 'a100-80gb', 'a100-40gb-1g-5gb']
    """
    key = plain(name)
    for vendor in _VENDORS:
        key = key.removeprefix(vendor)
    known = _by_name()
    for candidate in (key, key.removesuffix("-hbm3"), f"rtx-{key}", f"{key}gb"):
        if candidate in known:
            return known[candidate]
    return None


def require_gpu(name: str) -> GpuClass:
    """Return the GPU class of a name.

    Raises:
        ArgumentError: it is unknown; all known names are listed.
    """
    gpu = find_gpu(name)
    if gpu is None:
        raise ArgumentError(unknown_gpu(name))
    return gpu


def unknown_gpu(name: str) -> str:
    """Return the sentence that refuses a name and lists the known ones."""
    return f"gpu '{name}' is unknown; known: {', '.join(sorted(gpu.name for gpu in gpu_classes()))}"

"""This module defines what a memory forecast is asked, what it answers, and what a run teaches about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from predictor.contracts.workload import InferenceSpec, ModelSpec, RunSpec

_NO_WORDS: Mapping[str, str] = MappingProxyType({})
_NO_NUMBERS: Mapping[str, float] = MappingProxyType({})


class PeakKind(StrEnum):
    """What a recorded peak counts; used exceeds allocated by a third at the median, 1.8 times at p95."""

    ALLOCATED = "allocated"  # tensors, as torch.cuda.max_memory_allocated
    RESERVED = "reserved"  # blocks that the allocator holds, free ones among them
    USED = "used"  # what nvidia-smi and DCGM see: reserved, context and workspaces
    HOST = "host"  # peak resident memory of the host


class Regime(StrEnum):
    """What a forecast rests on, best first."""

    SEEN_SIGNATURE = "seen-signature"  # the same job ran before
    FULL_SPEC = "full-spec"  # model and run are known
    POOR_SPEC = "poor-spec"  # only hints such as a name or a parameter count
    COLD = "cold"  # nothing but what all jobs have in common


class Stratum(StrEnum):
    """How near the calibration comes to a request: forecasts of strangers need wider bounds."""

    SEEN_SIGNATURE = "seen-signature"
    SEEN_FAMILY = "seen-family"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """One job whose peak memory per GPU is asked for; everything may be missing.

    Attributes:
        model, run: the specs, both or none.
        words: texts by field, such as ``model``, ``user``, ``precision``; their parts become features.
        numbers: numbers by field, such as ``parameter_count`` or ``batch_size``.
        held_mib, stored_mib: MiB whatever the batch, and MiB per sample, by what holds them, where a replay
            of the layers tells; they stand in for all but the overhead of the analytical estimate.
        signature: what names the same job with any batch size; None = not known.
        family: kin of the model; None = not known.
        guess_log: ln of the factor by which the peak may be higher because parts of the specs were guessed,
            as wide as 95 % of cases need; 0 = nothing was guessed.
    """

    model: ModelSpec | None = None
    run: RunSpec | None = None
    words: Mapping[str, str] = field(default_factory=lambda: _NO_WORDS)
    numbers: Mapping[str, float] = field(default_factory=lambda: _NO_NUMBERS)
    held_mib: Mapping[str, float] = field(default_factory=lambda: _NO_NUMBERS)
    stored_mib: Mapping[str, float] = field(default_factory=lambda: _NO_NUMBERS)
    signature: str | None = None
    family: str | None = None
    guess_log: float = 0.0

    @property
    def has_spec(self) -> bool:
        """Whether an analytical estimate can be made."""
        return self.model is not None and self.run is not None

    @property
    def batch(self) -> float | None:
        """Samples per GPU and step, None where not known."""
        if isinstance(self.run, InferenceSpec):
            return float(self.run.batch)
        if self.run is not None:
            return float(self.run.micro_batch)
        return self.numbers.get("batch_size")

    @property
    def sequence_length(self) -> float | None:
        """Tokens per sample, None where not known."""
        if isinstance(self.run, InferenceSpec):
            return float(self.run.context_length)
        if self.run is not None:
            return float(self.run.sequence_length)
        return self.numbers.get("sequence_length")

    def without_spec(self) -> "MemoryRequest":
        """Return the request as someone would send it who knows no spec and no counts of layers."""
        return replace(
            self, model=None, run=None, held_mib=_NO_NUMBERS, stored_mib=_NO_NUMBERS, guess_log=0.0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One component of the analytical estimate at its peak phase."""

    name: str
    mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFit:
    """Whether a job fits on one class of GPU.

    Attributes:
        capacity_mib: memory of one GPU of the class.
        oom_probability: chance that the peak exceeds the capacity.
        fits: the upper bound is within the capacity.
    """

    name: str
    capacity_mib: float
    oom_probability: float
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryForecast:
    """Peak memory of one GPU (or of the host).

    Attributes:
        p50_mib: median forecast.
        upper_mib: exceeded with probability ``risk`` at most, as far as the calibration reaches.
        floor_mib: bytes that are certain to be needed (weights); 0 where no spec is known.
        analytical_mib: the formula alone, None without a spec.
        support: groups (signatures or families) that the calibration of the stratum rests on.
        few_groups: too few of them to hold the risk; the bound is then wide on purpose.
        parts: components of the analytical estimate.
        devices: one entry for each class of GPU that was asked about.
    """

    p50_mib: float
    upper_mib: float
    risk: float
    floor_mib: float
    analytical_mib: float | None
    regime: Regime
    stratum: Stratum
    support: int
    few_groups: bool
    parts: tuple[MemoryPart, ...] = ()
    devices: tuple[DeviceFit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryObservation:
    """What a run taught.

    Attributes:
        peak_mib: highest memory that was seen, MiB.
        is_oom: it died for want of memory: ``peak_mib`` (or the capacity) is only a lower bound of the need.
        capacity_mib: memory of the GPU it ran on, None where not known.
    """

    request: MemoryRequest
    peak_mib: float
    is_oom: bool = False
    capacity_mib: float | None = None

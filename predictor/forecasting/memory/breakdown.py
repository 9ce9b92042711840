"""This module defines what the analytical memory model answers: bytes per GPU by component and by phase."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

MIB = 2.0**20
GIB = 2.0**30


class Component(StrEnum):
    """What memory is used for; the names are the fields of :class:`Components`."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    KV_CACHE = "kv_cache"
    LIVE_SHARDS = "live_shards"
    TEMPORARIES = "temporaries"
    OVERHEAD = "overhead"


STATES = (Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER, Component.LIVE_SHARDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Bytes on one GPU.

    Attributes:
        weights: what the GPU holds at rest, frozen and trained.
        gradients, optimizer: optimizer includes master weights.
        activations: stored for the backward pass, or alive in a forward pass of inference.
        logits: logits and what the loss makes of them.
        kv_cache: keys and values of the sequences that are served.
        live_shards: weights and gradients gathered from other GPUs while they are in use.
        temporaries: of the optimizer step, of dequantisation, buckets of the gradient exchange.
        overhead: context, workspaces and communicators; not seen by the allocator of the framework.
    """

    weights: float = 0.0
    gradients: float = 0.0
    optimizer: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    kv_cache: float = 0.0
    live_shards: float = 0.0
    temporaries: float = 0.0
    overhead: float = 0.0

    @property
    def tensor_bytes(self) -> float:
        """Bytes that the framework's allocator hands out: everything but the overhead."""
        return (
            self.weights + self.gradients + self.optimizer + self.activations + self.logits
            + self.kv_cache + self.live_shards + self.temporaries
        )  # fmt: skip

    @property
    def total_bytes(self) -> float:
        """All bytes."""
        return self.tensor_bytes + self.overhead


COMPONENT_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Components))


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One moment of a step at which memory may peak, and what is held then."""

    name: str
    parts: Components


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """Something that was guessed, and by which factors the components it touches may be off."""

    what: str
    components: tuple[Component, ...]
    low_ratio: float
    high_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBreakdown:
    """Memory of one GPU, the one that needs most.

    Attributes:
        phases: moments at which memory may peak, in the order of a step; the peak is their maximum.
        stage: which stage of the pipeline needs most: ``only``, ``first`` or ``last``.
        other_phases: phases of the other end of a pipeline.
        uncertain_parts: what was guessed.
        gpu_count: GPUs of the whole run.
    """

    phases: tuple[Phase, ...]
    stage: str
    uncertain_parts: tuple[Uncertainty, ...]
    gpu_count: int
    other_phases: tuple[Phase, ...] = ()

    @property
    def peak_phase(self) -> Phase:
        """The phase that needs most."""
        return max(self.phases, key=lambda phase: phase.parts.total_bytes)

    @property
    def peak_bytes(self) -> float:
        """Peak on the device: the maximum over the phases, with context and workspaces."""
        return self.peak_phase.parts.total_bytes

    @property
    def tensor_peak_bytes(self) -> float:
        """Peak as the framework counts it (``torch.cuda.max_memory_allocated``)."""
        return max(phase.parts.tensor_bytes for phase in self.phases)

    @property
    def components(self) -> Components:
        """Each component at its own maximum over the phases."""
        return _largest(self.phases)

    @property
    def resident_bytes(self) -> float:
        """Tensors that stay between two steps: weights and optimizer, or weights and cache."""
        parts = self.components
        return parts.weights + parts.optimizer + parts.kv_cache

    @property
    def conservative_bytes(self) -> float:
        """The sum over all components, as if all phases fell together; never below the peak."""
        sums = [_largest(phases).total_bytes for phases in (self.phases, self.other_phases) if phases]
        return max(sums)

    @property
    def low_bytes(self) -> float:
        """Lower end of the range that the guesses leave for the peak."""
        return max(self._spread(low=True), self._floor())

    @property
    def high_bytes(self) -> float:
        """Upper end of the range that the guesses leave for the peak."""
        return self._spread(low=False)

    def _floor(self) -> float:
        """Return the weights as sure as they are: nothing that was guessed may undercut them."""
        ratio: float = math.prod(
            part.low_ratio for part in self.uncertain_parts if Component.WEIGHTS in part.components
        )
        return min(self.components.weights * ratio, self.peak_bytes)

    def _spread(self, *, low: bool) -> float:
        """Move each guess to its end alone; independent guesses add up in squares."""
        peak = self.peak_bytes
        moves = [
            _peak_with(self.phases, part.components, part.low_ratio if low else part.high_ratio) - peak
            for part in self.uncertain_parts
        ]
        return peak + math.copysign(math.sqrt(sum(move * move for move in moves)), sum(moves))


def _largest(phases: Sequence[Phase]) -> Components:
    return Components(
        **{name: max(getattr(phase.parts, name) for phase in phases) for name in COMPONENT_NAMES}
    )


def _peak_with(phases: Sequence[Phase], components: Sequence[Component], ratio: float) -> float:
    return max(
        phase.parts.total_bytes
        + (ratio - 1.0) * sum(float(getattr(phase.parts, name)) for name in components)
        for phase in phases
    )

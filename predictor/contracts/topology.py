"""This module defines what a ranking of placements is asked and answers, and what runs teach about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from predictor.contracts.cluster import LinkClass, Placement

FloatArray = npt.NDArray[np.float64]


class Strategy(StrEnum):
    """How the work of a job is divided, which decides what travels between its GPUs."""

    DATA = "data"  # gradients are summed once per step
    SHARDED = "sharded"  # ZeRO-3 and FSDP: weights are gathered twice and gradients scattered once
    TENSOR = "tensor"  # activations are summed four times per layer
    PIPELINE = "pipeline"  # activations pass from stage to stage


class Evidence(StrEnum):
    """What a forecast rests on, best first; each has an interval of its own."""

    SEEN_SHAPE = "seen-shape"  # this job ran on this shape of placement on this cluster
    SEEN_JOB = "seen-job"  # this job ran on this cluster, on other shapes
    SEEN_CLUSTER = "seen-cluster"  # other jobs ran on this cluster
    NO_HISTORY = "no-history"  # nothing was measured on this cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyJob:
    """The job whose placement is asked for; everything but its signature may be missing.

    Attributes:
        signature: what names the same program, "" = not known.
        local_batch: samples per GPU and step, nan = not known.
        one_gpu_step_s: seconds of one step on one GPU of this cluster at this batch, nan = not known.
        gradient_bytes: bytes of all gradients, nan = not known.
        activation_bytes: bytes of the activations between two layers, for TENSOR and PIPELINE.
        layer_count: layers, for TENSOR.
    """

    signature: str = ""
    local_batch: float = float("nan")
    one_gpu_step_s: float = float("nan")
    gradient_bytes: float = float("nan")
    strategy: Strategy = Strategy.DATA
    activation_bytes: float = float("nan")
    layer_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRuns:
    """Measured step times of n runs on at least two GPUs, one entry per column and run.

    Attributes:
        patterns: GPUs per node, as recorded.
        node_gpus: shape (n,), GPUs that a whole node of the cluster has.
        step_time_s: shape (n,).
        local_batch, one_gpu_step_s, gradient_bytes: shape (n,), see :class:`TopologyJob`.
    """

    clusters: tuple[str, ...]
    signatures: tuple[str, ...]
    patterns: tuple[tuple[int, ...], ...]
    node_gpus: FloatArray
    local_batch: FloatArray
    step_time_s: FloatArray
    one_gpu_step_s: FloatArray
    gradient_bytes: FloatArray

    def __len__(self) -> int:
        return len(self.clusters)

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "PlacementRuns":
        """Return the chosen runs."""
        at = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return PlacementRuns(
            clusters=tuple(self.clusters[row] for row in at),
            signatures=tuple(self.signatures[row] for row in at),
            patterns=tuple(self.patterns[row] for row in at),
            node_gpus=self.node_gpus[at], local_batch=self.local_batch[at], step_time_s=self.step_time_s[at],
            one_gpu_step_s=self.one_gpu_step_s[at], gradient_bytes=self.gradient_bytes[at],
        )  # fmt: skip

    def joined(self, more: "PlacementRuns") -> "PlacementRuns":
        """Return these runs and more."""
        return PlacementRuns(
            clusters=self.clusters + more.clusters, signatures=self.signatures + more.signatures,
            patterns=self.patterns + more.patterns,
            node_gpus=np.concatenate([self.node_gpus, more.node_gpus]),
            local_batch=np.concatenate([self.local_batch, more.local_batch]),
            step_time_s=np.concatenate([self.step_time_s, more.step_time_s]),
            one_gpu_step_s=np.concatenate([self.one_gpu_step_s, more.one_gpu_step_s]),
            gradient_bytes=np.concatenate([self.gradient_bytes, more.gradient_bytes]),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitingLink:
    """The link that bounds the communication of a placement.

    Attributes:
        between: its two ends, such as ``("n1", "n2")`` or ``("gpu0", "gpu5")``.
        step_comm_s: seconds of communication per step over it, nan = not known.
    """

    link: LinkClass
    between: tuple[str, str]
    step_comm_s: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPlacement:
    """One candidate and its forecast.

    Attributes:
        index: place of the candidate in the list that was asked.
        score: relative throughput, 1 = the best candidate of the list.
        relative_throughput: expected throughput over that of the candidate that proves best, in (0, 1].
        interval: 90 % interval of ``relative_throughput``.
        log_residual_quantiles: natural log of actual over expected relative throughput at
            :data:`predictor.contracts.forecast.LEVELS`.
        expected_slowdown: step time over that on the best candidate, at least 1.
        limiting_link: None for one GPU or where the profile does not say.
        evidence: what it rests on; ``evidence_count`` measured runs of this cluster and that kind. The
            interval is as wide as the weakest evidence among the candidates asks.
        code: stable name of the reason; ``reason`` is its sentence.
    """

    index: int
    placement: Placement
    score: float
    relative_throughput: float
    interval: tuple[float, float]
    log_residual_quantiles: tuple[float, ...]
    expected_slowdown: float
    limiting_link: LimitingLink | None
    nodes_spanned: int
    evidence: Evidence
    evidence_count: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedPlacement:
    """A candidate that the job cannot use."""

    index: int
    placement: Placement
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRanking:
    """All candidates, the best first.

    Attributes:
        no_history: nothing was ever measured on this cluster; the order is a rule, not a forecast.
    """

    ranked: tuple[RankedPlacement, ...]
    excluded: tuple[ExcludedPlacement, ...]
    no_history: bool
    model_version: str = ""

    def __iter__(self) -> Iterator[RankedPlacement]:
        return iter(self.ranked)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRuns:
    """Throughputs of n runs on GPU types.

    Attributes:
        signatures: the program of each run.
        gpu_types: type of each run, and where it was if that is of note, such as ``v100/spread``.
        config: shape (n, 2), natural log of the batch size and of the number of GPUs.
        throughput: shape (n,), steps per second.
    """

    signatures: tuple[str, ...]
    gpu_types: tuple[str, ...]
    config: FloatArray
    throughput: FloatArray

    def __len__(self) -> int:
        return len(self.signatures)

    def take(self, rows: npt.NDArray[np.intp]) -> "TypeRuns":
        """Return the chosen runs."""
        return TypeRuns(
            signatures=tuple(self.signatures[row] for row in rows),
            gpu_types=tuple(self.gpu_types[row] for row in rows),
            config=self.config[rows], throughput=self.throughput[rows],
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Upper bounds of the peak memory per GPU.

    Attributes:
        upper_mib: MiB by GPU type; a type that is not named is not checked.
        capacity_mib: MiB by GPU type, where the profile of the cluster does not say.
    """

    upper_mib: Mapping[str, float] = field(default_factory=dict)
    capacity_mib: Mapping[str, float] = field(default_factory=dict)

"""This module says which part of a model and of its training states one GPU holds."""

import math
from dataclasses import dataclass

from predictor.contracts.workload import TrainingSpec
from predictor.forecasting.memory.parameters import ParameterParts
from predictor.forecasting.memory.recipes import StateBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalParameters:
    """Parameters on one GPU of a pipeline stage, after tensor, pipeline and expert parallelism, before ZeRO.

    Attributes:
        linear: of attention and feed-forward matrices without experts (what QLoRA quantises).
        other: embedding, head and norms on this stage.
        experts: of routed experts.
        layer, layer_experts: of one layer, dense part and routed experts (the unit that FSDP gathers).
        largest_linear: the largest single matrix.
    """

    linear: float
    other: float
    experts: float
    layer: float
    layer_experts: float
    largest_linear: float

    @property
    def dense(self) -> float:
        """All but the routed experts."""
        return self.linear + self.other


def stage_layers(layers: int, pipeline: int) -> int:
    """Return the layers of the fullest stage."""
    return math.ceil(layers / pipeline)


def local_parameters(
    parts: ParameterParts, stage: str, *, tensor: int, pipeline: int, expert: int
) -> LocalParameters:
    """Return what one GPU of a stage holds.

    Linear layers and the vocabulary are split over the tensor group, norms are copies; experts are split
    over the expert group too. A head tied to the embedding is a second copy if it is on another stage.

    References:
        Shoeybi et al., "Megatron-LM", 2019 (tensor); Narayanan et al., "Efficient Large-Scale Language
        Model Training on GPU Clusters Using Megatron-LM", 2021 (pipeline).
    """
    layers = parts.expert_layers + parts.dense_layers
    share = stage_layers(layers, pipeline) / max(layers, 1)
    linear = (
        parts.attention * layers + parts.dense_mlp * parts.dense_layers + parts.shared * parts.expert_layers
    ) / tensor
    ends = 0.0
    if stage in ("only", "first"):
        ends += parts.embedding
    if stage in ("only", "last"):
        ends += parts.head
    if stage == "last" and not parts.head:
        ends += parts.embedding
    layer_experts = parts.experts / (tensor * expert)
    layer = (parts.attention + max(parts.dense_mlp if parts.dense_layers else 0.0, parts.shared)) / tensor
    return LocalParameters(
        linear=linear * share, other=ends / tensor + parts.norms * layers * share,
        experts=layer_experts * parts.expert_layers * share, layer=layer + parts.norms,
        layer_experts=layer_experts if parts.expert_layers else 0.0,
        largest_linear=parts.largest_linear / tensor,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedStates:
    """Bytes of states on one GPU after ZeRO."""

    weights: float
    gradients: float
    optimizer: float
    live: float
    temporary: float


def shard_group(run: TrainingSpec) -> int:
    """Return over how many GPUs ZeRO shards dense parameters.

    Replicas only: GPUs of a tensor or pipeline group hold different parameters already, to count them
    again would shard twice. Context parallel GPUs hold the same parameters, so they belong to the group.
    """
    return run.shard_group if run.shard_group is not None else run.data * run.context


def shard_states(run: TrainingSpec, dense: float, experts: float, per: StateBytes) -> ShardedStates:
    """Shard weights, gradients and optimizer states of trained parameters as the ZeRO stage says.

    Stage 0: W + G + O; 1: W + G + O/N; 2: W + (G + O)/N; 3: (W + G + O)/N. Routed experts have replicas
    in ``N / expert`` GPUs only.

    References:
        Rajbhandari et al., "ZeRO", 2020, section 5 and table 1.
    """
    group = shard_group(run)
    shards = (group, max(group // run.expert, 1))

    def held(each: float, stage: int) -> float:
        split = shards if run.zero_stage >= stage else (1, 1)
        return each * (dense / split[0] + experts / split[1])

    weights = 0.0 if run.offload_parameters else held(per.weights, 3)
    return ShardedStates(
        weights=weights, gradients=held(per.gradients, 2),
        optimizer=0.0 if run.offload_optimizer else held(per.optimizer, 1), live=0.0,
        temporary=0.0 if run.offload_optimizer else held(per.temporary, 1),
    )  # fmt: skip


def live_bytes(
    run: TrainingSpec, local: LocalParameters, *, weight_bytes: float, gradient_bytes: float
) -> float:
    """Return the bytes that stage 3 gathers: two layers and the ends in use, and one layer's gradients.

    Counted is only what the GPU's own shards do not cover already, so that a group of one gathers nothing.

    References:
        Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", 2023, section 3.
    """
    group = shard_group(run)
    if run.zero_stage < 3 or group == 1:
        return 0.0
    replicas = max(group // run.expert, 1)
    absent = 1.0 - 1.0 / group if not run.offload_parameters else 1.0
    absent_experts = 1.0 - 1.0 / replicas if not run.offload_parameters else 1.0
    two_layers = min(2.0 * local.layer + local.other, local.dense) * absent
    two_layers += min(2.0 * local.layer_experts, local.experts) * absent_experts
    gradients = local.layer * (1.0 - 1.0 / group) + local.layer_experts * (1.0 - 1.0 / replicas)
    return two_layers * weight_bytes + gradients * gradient_bytes

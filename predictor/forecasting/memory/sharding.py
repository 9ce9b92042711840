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
        optimizer=0.0 if run.offload_optimizer else held(per.optimizer, 1),
        temporary=0.0 if run.offload_optimizer else held(per.temporary, 1),
    )  # fmt: skip


def gathered_weights(
    run: TrainingSpec, local: LocalParameters, *, linear_bytes: float, other_bytes: float
) -> float:
    """Return the bytes of weights that stage 3 gathers: two layers in use, and the ends of the model.

    Counted is only what the GPU's own shards do not cover already, so that a group of one gathers nothing.

    References:
        Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", 2023, section 3.
    """
    if run.zero_stage < 3:
        return 0.0
    absent, absent_experts = _absent(run)
    if run.offload_parameters:
        absent = absent_experts = 1.0
    dense = linear_bytes * min(2.0 * local.layer, local.linear) + other_bytes * local.other
    experts = linear_bytes * min(2.0 * local.layer_experts, local.experts)
    return dense * absent + experts * absent_experts


def layer_gradients(run: TrainingSpec, local: LocalParameters, gradient_bytes: float) -> tuple[float, float]:
    """Return the gradients of one layer before they are reduced: own share, and the part beyond it.

    Without sharded gradients (stages 0 and 1) all of it is the GPU's own.
    """
    dense = gradient_bytes * min(local.layer, local.linear)
    experts = gradient_bytes * min(local.layer_experts, local.experts)
    absent, absent_experts = _absent(run) if run.zero_stage >= 2 else (0.0, 0.0)
    beyond = dense * absent + experts * absent_experts
    return dense + experts - beyond, beyond


def _absent(run: TrainingSpec) -> tuple[float, float]:
    """Return which part of dense parameters and of experts lies on other GPUs of the sharding group."""
    group = shard_group(run)
    return 1.0 - 1.0 / group, 1.0 - 1.0 / max(group // run.expert, 1)

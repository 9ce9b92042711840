"""This module tells every fault of a model and a run at once."""

import math
from collections.abc import Iterator

from predictor.contracts.workload import (
    InferenceSpec,
    ModelSpec,
    RunSpec,
    TrainingSpec,
    TransformerSpec,
    VisionSpec,
)
from predictor.errors import ArgumentError
from predictor.forecasting.memory.vision import vision_faults

_BIASES = ("none", "qkv", "attention", "all")
_LARGEST = 1e15  # no count of anything in a model or run is larger
_MODEL_POSITIVE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary")
_MODEL_NOT_NEGATIVE = (
    "experts", "experts_per_token", "shared_experts", "dense_layers", "dense_ffn", "cross_attention_layers",
    "kv_latent", "rope_dim", "q_latent", "value_dim", "full_attention_layers", "positions", "token_types",
    "norms_per_layer", "extra_parameters",
)  # fmt: skip
_TRAINING_POSITIVE = (
    "micro_batch", "sequence_length", "micro_batches", "tensor", "pipeline", "data", "context", "expert",
    "virtual_stages",
)  # fmt: skip


def check(model: ModelSpec, run: RunSpec) -> None:
    """Refuse a model and a run that cannot be.

    Raises:
        ArgumentError: lists every fault of both.
    """
    found = faults(model, run)
    if found:
        raise ArgumentError(
            f"the memory cannot be estimated: {len(found)} fault{'s' * (len(found) > 1)}", faults=found
        )


def faults(model: ModelSpec, run: RunSpec) -> tuple[str, ...]:
    """Return what is wrong with a model, with a run, and with the two together."""
    found = list(_transformer_faults(model) if isinstance(model, TransformerSpec) else _vision_faults(model))
    found += run_faults(run)
    if isinstance(model, TransformerSpec):
        found += _split_faults(model, run)
    elif isinstance(run, TrainingSpec):
        found += vision_faults(run)
    elif run.tensor > 1 or run.pipeline > 1:
        found.append("tensor and pipeline must be 1: a model known by its counts only cannot be split")
    return tuple(found)


def run_faults(run: RunSpec) -> tuple[str, ...]:
    """Return what is wrong with a run whatever the model is."""
    return tuple(_training_faults(run) if isinstance(run, TrainingSpec) else _inference_faults(run))


def _counts(spec: object, names: tuple[str, ...], least: int) -> Iterator[str]:
    for name in names:
        value = getattr(spec, name)
        if not least <= value <= _LARGEST:  # also refuses NaN
            yield f"{name}={value!r} must be {least} or more"
        elif value != int(value):
            yield f"{name}={value!r} must be a whole number"


def _optional(spec: object, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = getattr(spec, name)
        if value is not None and not 1 <= value <= _LARGEST:
            yield f"{name}={value!r} must be 1 or more, or left out"


def _transformer_faults(model: TransformerSpec) -> Iterator[str]:
    yield from _counts(model, _MODEL_POSITIVE, 1)
    yield from _counts(model, _MODEL_NOT_NEGATIVE, 0)
    yield from _optional(model, ("head_dim", "sliding_window", "parameter_count"))
    if model.heads > 0 and model.kv_heads > 0 and not model.kv_latent and model.heads % model.kv_heads:
        yield f"kv_heads={model.kv_heads} must divide heads={model.heads}"
    if model.head_dim is None and model.heads > 0 and model.hidden > 0 and model.hidden % model.heads:
        yield f"heads={model.heads} must divide hidden={model.hidden}, or give head_dim"
    if model.experts and not 1 <= model.experts_per_token <= model.experts:
        yield f"experts_per_token={model.experts_per_token} must be 1 to experts={model.experts}"
    if model.layers > 0:
        for name in ("dense_layers", "full_attention_layers", "cross_attention_layers"):
            if getattr(model, name) > model.layers:
                yield f"{name}={getattr(model, name)} must not exceed layers={model.layers}"
    if model.biases not in _BIASES:
        yield f"biases={model.biases!r} must be one of {', '.join(_BIASES)}"


def _vision_faults(model: VisionSpec) -> Iterator[str]:
    for name, least in (("parameter_count", 1), ("activation_count", 0), ("image_size", 0)):
        value = getattr(model, name)
        if not (least <= value <= _LARGEST and math.isfinite(value)):
            yield f"{name}={value!r} must be {least} or more"


def _training_faults(run: TrainingSpec) -> Iterator[str]:
    yield from _counts(run, _TRAINING_POSITIVE, 1)
    yield from _optional(run, ("image_size",))
    if run.zero_stage not in (0, 1, 2, 3):
        yield f"zero_stage={run.zero_stage!r} must be 0, 1, 2 or 3"
    if run.method.is_adapter and not 1 <= run.lora_rank <= _LARGEST:
        yield f"lora_rank={run.lora_rank!r} must be 1 or more"
    replicas = run.data * run.context
    if replicas > 0 and run.expert > 0 and replicas % run.expert:
        yield f"expert={run.expert} must divide data x context = {replicas}"
    if run.shard_group is not None and (run.shard_group < 1 or replicas % run.shard_group):
        yield f"shard_group={run.shard_group} must divide data x context = {replicas}"
    if run.sequence_parallel and run.tensor == 1:
        yield "sequence_parallel needs a tensor group; set tensor above 1 or leave it off"
    if run.virtual_stages > 1 and run.pipeline == 1:
        yield f"virtual_stages={run.virtual_stages} needs a pipeline; set pipeline above 1"
    if run.offload_parameters and run.zero_stage != 3:
        yield f"offload_parameters needs zero_stage=3, not {run.zero_stage}"


def _inference_faults(run: InferenceSpec) -> Iterator[str]:
    yield from _counts(run, ("batch", "context_length", "tensor", "pipeline"), 1)
    yield from _optional(run, ("prefill_tokens", "image_size"))
    ratio = run.utilisation_ratio
    if ratio is not None and not 0.0 < ratio <= 1.0:
        yield f"utilisation_ratio={ratio!r} must be above 0 and at most 1"


def _split_faults(model: TransformerSpec, run: RunSpec) -> Iterator[str]:
    if run.tensor > 1 and model.heads > 0:
        if model.heads % run.tensor:
            yield f"tensor={run.tensor} must divide heads={model.heads}"
        if (
            not model.kv_latent
            and model.kv_heads > 0
            and model.kv_heads % run.tensor
            and run.tensor % model.kv_heads
        ):
            yield f"tensor={run.tensor} must divide kv_heads={model.kv_heads}, or be a multiple of it"
    if run.pipeline > max(model.layers, 1):
        yield f"pipeline={run.pipeline} must not exceed layers={model.layers}"
    if not isinstance(run, TrainingSpec):
        return
    if run.expert > 1 and (not model.experts or model.experts % run.expert):
        yield f"expert={run.expert} must divide experts={model.experts}"
    if run.context > 1 and run.sequence_length > 0 and run.sequence_length % run.context:
        yield f"context={run.context} must divide sequence_length={run.sequence_length}"
    if run.pipeline * run.virtual_stages > max(model.layers, 1) >= run.pipeline:
        yield f"pipeline x virtual_stages = {run.pipeline * run.virtual_stages} exceeds layers={model.layers}"

"""This module draws random models and runs that can be, for property tests of the memory model."""

from hypothesis import strategies as st

from predictor.contracts.workload import (
    AttentionKernel,
    CacheFormat,
    Checkpointing,
    InferenceSpec,
    LoraTargets,
    LossKernel,
    Method,
    Optimizer,
    OptimizerKernel,
    Recipe,
    TrainingSpec,
    TransformerSpec,
    VisionArchitecture,
    VisionSpec,
    WeightFormat,
)

POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def transformers(draw: st.DrawFn) -> TransformerSpec:
    """Draw a transformer whose heads and experts 8 GPUs can share."""
    kv_heads = 8 * draw(st.integers(1, 4))
    heads = kv_heads * draw(st.integers(1, 8))
    experts = draw(st.sampled_from([0, 8, 64]))
    layers = draw(st.integers(8, 120))
    windowed = draw(st.booleans())
    latent = draw(st.sampled_from([0, 0, 512]))
    return TransformerSpec(
        layers=layers, hidden=heads * draw(st.sampled_from([16, 64, 128])), heads=heads, kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([None, 128])), ffn=draw(st.integers(64, 60_000)), experts=experts,
        vocabulary=draw(st.integers(100, 300_000)), gated=draw(st.booleans()),
        tied_embeddings=draw(st.booleans()), experts_per_token=min(experts, draw(st.integers(1, 8))),
        shared_experts=draw(st.integers(0, 2)) if experts else 0, kv_latent=latent,
        dense_layers=draw(st.integers(0, 3)) if experts else 0, rope_dim=64 if latent else 0,
        sliding_window=draw(st.integers(1, 4096)) if windowed else None,
        full_attention_layers=draw(st.integers(0, layers)) if windowed else 0,
        norm_biases=draw(st.booleans()), biases=draw(st.sampled_from(["none", "qkv", "all"])),
        cross_attention_layers=draw(st.sampled_from([0, 4])),
        parameter_count=draw(st.sampled_from([None, None, 7e9])),
    )  # fmt: skip


@st.composite
def trainings(draw: st.DrawFn) -> TrainingSpec:
    """Draw a training run that every transformer drawn here can have."""
    tensor, pipeline = draw(POWERS), draw(POWERS)
    data, context = 8 * draw(POWERS), draw(POWERS)
    stage = draw(st.integers(0, 3))
    return TrainingSpec(
        method=draw(st.sampled_from(Method)), recipe=draw(st.sampled_from(Recipe)),
        optimizer=draw(st.sampled_from(Optimizer)),
        optimizer_kernel=draw(st.sampled_from([None, *OptimizerKernel])),
        lora_rank=draw(st.integers(1, 256)), lora_targets=draw(st.sampled_from(LoraTargets)),
        checkpointing=draw(st.sampled_from(Checkpointing)), attention=draw(st.sampled_from(AttentionKernel)),
        loss=draw(st.sampled_from(LossKernel)), micro_batch=draw(st.integers(1, 64)),
        sequence_length=8 * draw(st.integers(1, 4096)), micro_batches=draw(st.integers(1, 64)),
        tensor=tensor, pipeline=pipeline, data=data, context=context, zero_stage=stage,
        sequence_parallel=draw(st.booleans()) and tensor > 1, dropout=draw(st.booleans()),
        fused_norms=draw(st.booleans()), offload_optimizer=draw(st.booleans()),
        offload_parameters=draw(st.booleans()) and stage == 3,
    )  # fmt: skip


@st.composite
def servings(draw: st.DrawFn) -> InferenceSpec:
    """Draw a server."""
    return InferenceSpec(
        weights=draw(st.sampled_from(WeightFormat)), cache=draw(st.sampled_from(CacheFormat)),
        batch=draw(st.integers(1, 256)), context_length=draw(st.integers(1, 100_000)),
        prefill_tokens=draw(st.sampled_from([None, 2048])), tensor=draw(POWERS), pipeline=draw(POWERS),
        graphs=draw(st.booleans()),
    )  # fmt: skip


@st.composite
def visions(draw: st.DrawFn) -> VisionSpec:
    """Draw a model of which only counts are known."""
    return VisionSpec(
        parameter_count=draw(st.floats(1, 1e10)), activation_count=draw(st.floats(0, 1e10)),
        image_size=draw(st.sampled_from([0, 32, 224])),
        architecture=draw(st.sampled_from(VisionArchitecture)),
    )  # fmt: skip

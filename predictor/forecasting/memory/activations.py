"""This module counts the activations of a transformer layer, in bytes per token."""

from dataclasses import dataclass

from predictor.contracts.workload import (
    AttentionKernel,
    Checkpointing,
    LossKernel,
    TrainingSpec,
    TransformerSpec,
)
from predictor.forecasting.memory.recipes import compute_bytes
from predictor.forecasting.memory.sharding import stage_layers

# Bytes per token and vocabulary entry while the loss is computed. Measured on Llama-3-8B, PowerLM-3B,
# Mistral-7B and Mixtral fine-tunes (fms-hf-tuning on A100-80GB): 8.0 in a fused cross-entropy, 12 to 14.3
# in that of transformers (bf16 logits, 32-bit copy, shifted copy, gradient), nothing that lasts by chunks.
LOSS_BYTES = {LossKernel.PLAIN: 14.0, LossKernel.FUSED: 8.0, LossKernel.CHUNKED: 0.0}
# without a copy in 32 bits: logits, shifted copy, log-softmax and gradient, 2 each; a kernel saves the third
HALF_LOSS_BYTES = {LossKernel.PLAIN: 8.0, LossKernel.FUSED: 6.0, LossKernel.CHUNKED: 0.0}
# RMSNorm in eager mode keeps copies in 32 bits: 56 h were measured per layer of Llama-3-8B where the
# matrices alone account for 41 h.
EAGER_NORM_BYTES = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerActivations:
    """Bytes per token of one layer on one GPU.

    Attributes:
        full: stored without recomputation.
        stored: stored under the run's checkpointing.
        recomputed: alive besides ``stored`` while a layer is recomputed.
        gradients: gradients of activations that are alive during the layer's backward pass.
    """

    full: float
    stored: float
    recomputed: float
    gradients: float


def layer_activations(spec: TransformerSpec, run: TrainingSpec) -> LayerActivations:
    """Return the activations of one layer.

    With 16-bit values, flash attention and no dropout: 12 h + 4 k d + 4 f m + 4 a per token, with m = 2
    gated or 1 plain; eager attention adds 5 a s, dropout masks 2 h. For a = k, f = 4 h, plain, with dropout
    and eager attention this is the 34 h + 5 a s of the reference. Tensor parallelism splits what lies
    inside attention and feed-forward block; inputs of blocks and norms only with sequence parallelism.
    Full checkpointing stores the input of a layer, 2 h, and recomputes one layer at a time; selective
    checkpointing recomputes the 5 a s.

    References:
        Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022,
        equations 1 to 6; Dao et al., "FlashAttention", 2022.
    """
    h, a, t = spec.hidden, spec.heads, run.tensor
    scale = compute_bytes(run.recipe) / 2.0
    query, keys, values = attention_widths(spec, t)
    inside = 2.0 * query + 2.0 * keys + 2.0 * values + 2.0 * (values if spec.kv_latent else query)
    inside += 2.0 * (spec.kv_latent + spec.q_latent + spec.rope_dim) / scale  # latents; small
    inside += (8.0 if spec.gated else 4.0) * _active_ffn(spec) / t
    outside = 8.0 * h
    if spec.experts:  # inputs of the experts are gathered copies of the tokens
        outside += 2.0 * h * max(spec.experts_per_token - 1, 0)
    lse = 4.0 * a / t if run.attention is AttentionKernel.FLASH else 0.0
    masks = 2.0 * h if run.dropout else 0.0
    upcasts = 0.0
    if not (spec.norm_biases or run.fused_norms) and scale == 1.0:
        upcasts = EAGER_NORM_BYTES * h
    split = t if run.sequence_parallel else 1
    full = scale * (inside + outside / split) + lse + (masks + upcasts) / split
    core = 0.0
    if run.attention is AttentionKernel.EAGER:
        core = scale * 5.0 * a * run.sequence_length / t
    if spec.cross_attention_layers:
        extra = scale * (2.0 * (2.0 * query + keys + values) + 4.0 * h / split) + core
        full += extra * spec.cross_attention_layers / spec.layers
    ends = 2.0 * h / split + 2.0 * _active_ffn(spec) / t
    stored, recomputed = full + core, 0.0
    if run.checkpointing is Checkpointing.SELECTIVE:
        stored, recomputed = full, core
    elif run.checkpointing is Checkpointing.FULL:
        stored, recomputed = scale * 2.0 * h / split, full + core
    return LayerActivations(full=full + core, stored=stored, recomputed=recomputed, gradients=scale * ends)


def attention_widths(spec: TransformerSpec, tensor: int) -> tuple[float, float, float]:
    """Return the widths of query, key and value on one GPU; KV heads are copied beyond their number."""
    if spec.kv_latent:
        width = spec.heads / tensor
        key = spec.head_width + spec.rope_dim
        return width * key, width * key, width * (spec.value_dim or spec.head_width)
    kv_heads = max(spec.kv_heads / tensor, 1.0)
    return spec.heads * spec.head_width / tensor, kv_heads * spec.head_width, kv_heads * spec.head_width


def stored_layers(spec: TransformerSpec, run: TrainingSpec, stage: str) -> float:
    """Return for how many layers (counted per micro-batch) a stage stores activations at its fullest.

    With one forward, one backward, stage i of p holds min(m, p - i) micro-batches of L/p layers; v model
    chunks per stage multiply the first stage by 1 + (p - 1)/(p v).

    References:
        Narayanan et al., "PipeDream-2BW", 2021; Korthikanti et al., 2022, section 4.2.3.
    """
    pipeline = run.pipeline
    layers = stage_layers(spec.layers, pipeline)
    if stage != "first":
        return float(layers)
    flight = min(run.micro_batches, pipeline)
    chunks = 1.0 + (pipeline - 1) / (pipeline * run.virtual_stages) if run.virtual_stages > 1 else 1.0
    return layers * flight * chunks


def head_bytes(spec: TransformerSpec, run: TrainingSpec) -> float:
    """Return the bytes per token that the head keeps besides its logits: last norm and input, 4 h."""
    split = run.tensor if run.sequence_parallel else 1
    return compute_bytes(run.recipe) / 2.0 * 4.0 * spec.hidden / split


def logits_bytes(spec: TransformerSpec, run: TrainingSpec) -> float:
    """Return the bytes per token of logits and loss; the vocabulary is split over the tensor group.

    A chunked loss holds the logits of as many tokens as make them as large as the hidden states, in 16 and
    32 bits, and the gradient of the hidden states: 8 h.

    References:
        Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024.
    """
    copies = HALF_LOSS_BYTES if run.half_logits else LOSS_BYTES
    if run.loss is LossKernel.CHUNKED:
        return min(8.0 * spec.hidden, copies[LossKernel.FUSED] * spec.vocabulary / run.tensor)
    return copies[run.loss] * spec.vocabulary / run.tensor


def _active_ffn(spec: TransformerSpec) -> float:
    """Return the feed-forward width that one token passes, averaged over the layers."""
    if not spec.experts:
        return float(spec.ffn)
    dense = spec.dense_layers / spec.layers
    wide = spec.dense_ffn or spec.ffn
    return dense * wide + (1.0 - dense) * spec.ffn * (spec.experts_per_token + spec.shared_experts)

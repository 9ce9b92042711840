"""This module adds up the memory of a transformer that serves."""

import math

from predictor.contracts.workload import CacheFormat, InferenceSpec, TransformerSpec, WeightFormat
from predictor.forecasting.memory.activations import attention_widths
from predictor.forecasting.memory.breakdown import Component, Components, Phase, Uncertainty
from predictor.forecasting.memory.overhead import overhead_bytes
from predictor.forecasting.memory.parameters import parameter_parts
from predictor.forecasting.memory.recipes import served_weight_bytes
from predictor.forecasting.memory.sharding import local_parameters, stage_layers

_CACHE_BYTES = {CacheFormat.FP32: 4.0, CacheFormat.BF16: 2.0, CacheFormat.FP8: 1.0}
_PREFILL_TOKENS = 8192


def weight_bytes(spec: TransformerSpec, run: InferenceSpec, stage: str = "only") -> float:
    """Return the weights on one GPU; embeddings, head and norms stay in 16 bits in the narrow formats."""
    local = local_parameters(parameter_parts(spec), stage, tensor=run.tensor, pipeline=run.pipeline, expert=1)
    each = served_weight_bytes(run.weights)
    other = 4.0 if run.weights is WeightFormat.FP32 else 2.0
    return each * (local.linear + local.experts) + other * local.other


def cache_bytes_per_token(
    spec: TransformerSpec, cache: CacheFormat = CacheFormat.BF16, *, tensor: int = 1
) -> float:
    """Return the KV cache of one token over all layers on one GPU, windows aside: 2 L k d bytes.

    The tensor group splits it up to k ways; beyond, KV heads are copied. Latent attention keeps one latent
    and the rotary part, on every GPU.

    References:
        Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models", 2023; DeepSeek-AI,
        "DeepSeek-V2", 2024.
    """
    if spec.kv_latent:
        return spec.layers * (spec.kv_latent + spec.rope_dim) * _CACHE_BYTES[cache]
    _, keys, values = attention_widths(spec, tensor)
    return spec.layers * (keys + values) * _CACHE_BYTES[cache]


def cache_bytes(spec: TransformerSpec, run: InferenceSpec) -> float:
    """Return the KV cache of all sequences on one GPU; windowed layers keep their window only.

    References:
        Jiang et al., "Mistral 7B", 2023 (rolling buffer).
    """
    layer = cache_bytes_per_token(spec, run.cache, tensor=run.tensor) / spec.layers
    layers = stage_layers(spec.layers, run.pipeline)
    window = (
        run.context_length if spec.sliding_window is None else min(run.context_length, spec.sliding_window)
    )
    whole = 1.0 if spec.sliding_window is None else spec.full_attention_layers / spec.layers
    tokens = whole * run.context_length + (1.0 - whole) * window
    return run.batch * layers * layer * tokens


def inference_phases(spec: TransformerSpec, run: InferenceSpec, stage: str) -> tuple[Phase, ...]:
    """Return prefill (one pass over many tokens) and decode (one token per sequence) on one GPU.

    A pass keeps the activations of one layer: residual, block input and the width of the feed-forward
    block; logits are computed for one token per sequence, in 32 bits.

    References:
        Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
    """
    weights = weight_bytes(spec, run, stage)
    cache = cache_bytes(spec, run)
    logits = 4.0 * run.batch * spec.vocabulary / run.tensor if stage != "first" else 0.0
    prefill = run.prefill_tokens or min(
        run.batch * run.context_length, max(run.context_length, _PREFILL_TOKENS)
    )
    overhead = overhead_bytes(run.gpu_count, graphs=run.graphs)
    each = _alive_per_token(spec, run)

    def phase(name: str, tokens: float) -> Phase:
        return Phase(name=name, parts=Components(
            weights=weights, activations=each * tokens, logits=logits, kv_cache=cache, overhead=overhead,
        ))  # fmt: skip

    return (phase("prefill", float(prefill)), phase("decode", float(run.batch)))


def cache_capacity_tokens(spec: TransformerSpec, run: InferenceSpec, gpu_bytes: float, ratio: float) -> int:
    """Return how many tokens of cache fit beside the weights in the part of each card that a server takes."""
    room = gpu_bytes * ratio - weight_bytes(spec, run)
    each = cache_bytes_per_token(spec, run.cache, tensor=run.tensor) / run.pipeline
    return max(math.floor(room / each), 0)


def inference_uncertainty(run: InferenceSpec) -> tuple[Uncertainty, ...]:
    """Return what is never certain about a server."""
    parts = [Uncertainty(what="activations of a forward pass", components=(Component.ACTIVATIONS,),
                         low_ratio=0.5, high_ratio=2.0)]  # fmt: skip
    if run.weights in (WeightFormat.INT4, WeightFormat.NF4, WeightFormat.INT8, WeightFormat.FP8):
        parts.append(Uncertainty(what="layers that stay in 16 bits, scales", components=(Component.WEIGHTS,),
                                 low_ratio=1.0, high_ratio=1.08))  # fmt: skip
    return tuple(parts)


def _alive_per_token(spec: TransformerSpec, run: InferenceSpec) -> float:
    element = 4.0 if run.weights is WeightFormat.FP32 else 2.0
    query, keys, values = attention_widths(spec, run.tensor)
    active = spec.ffn * max(spec.experts_per_token + spec.shared_experts, 1)
    inner = max(query + keys + values, (2.0 if spec.gated else 1.0) * active / run.tensor)
    return element * (3.0 * spec.hidden + inner)

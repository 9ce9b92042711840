"""This module counts the parameters of a transformer from its shape, part by part."""

from dataclasses import dataclass
from functools import lru_cache

from predictor.contracts.workload import LoraTargets, TransformerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterParts:
    """Parameters by how they are sharded.

    Attributes:
        embedding: tokens, positions and segments; first stage of a pipeline.
        head: output projection, 0 where it is tied to the embedding; last stage.
        attention, norms: of one layer.
        dense_mlp: of one layer without experts.
        experts, shared: of one layer with experts: all routed ones; router and shared ones.
        largest_linear: the largest single matrix of a layer (what dequantisation unfolds).
        expert_layers, dense_layers: how many layers have experts, and have not.
    """

    embedding: float
    head: float
    attention: float
    norms: float
    dense_mlp: float
    experts: float
    shared: float
    largest_linear: float
    expert_layers: int
    dense_layers: int

    @property
    def layers(self) -> float:
        """Parameters of all layers."""
        each = self.attention + self.norms
        return (
            (each + self.dense_mlp) * self.dense_layers
            + (each + self.experts + self.shared) * self.expert_layers
        )  # fmt: skip

    @property
    def total(self) -> float:
        """All parameters."""
        return self.embedding + self.head + self.layers


def count_parameters(spec: TransformerSpec) -> float:
    """Return the stated parameter count, or else the one of the structure."""
    return parameter_parts(spec).total


@lru_cache(maxsize=4096)
def parameter_parts(spec: TransformerSpec) -> ParameterParts:
    """Count parameters part by part; a stated total wins, the layers are scaled to meet it.

    For dense models: L (h a d + 2 h k d + a d h + g h f + 2 h) + V h (1 or 2) + h, with L layers, h hidden,
    a heads, k KV heads, d head width, f feed-forward width, V vocabulary, g = 3 gated or 2 plain; experts
    multiply the feed-forward term and add a router of h per expert.

    References:
        Vaswani et al., "Attention Is All You Need", 2017; Shazeer, "GLU Variants Improve Transformer",
        2020; Ainslie et al., "GQA", 2023; DeepSeek-AI, "DeepSeek-V2", 2024 (latent attention).
    """
    parts = structural_parts(spec)
    if spec.parameter_count is None or parts.layers <= 0:
        return parts
    ratio = max(spec.parameter_count - parts.embedding - parts.head, 0.0) / parts.layers
    return ParameterParts(
        embedding=parts.embedding, head=parts.head, attention=parts.attention * ratio,
        norms=parts.norms * ratio, dense_mlp=parts.dense_mlp * ratio, experts=parts.experts * ratio,
        shared=parts.shared * ratio, largest_linear=parts.largest_linear * ratio,
        expert_layers=parts.expert_layers, dense_layers=parts.dense_layers,
    )  # fmt: skip


def structural_parts(spec: TransformerSpec) -> ParameterParts:
    """Count parameters from the structure alone."""
    h = spec.hidden
    norm = h * (2 if spec.norm_biases else 1)
    norms = float(norm * spec.norms_per_layer)
    if spec.query_key_norms:
        norms += 2 * spec.head_width
    attention = float(_attention(spec))
    rest = (norm if spec.final_norm else 0) + spec.extra_parameters
    if spec.cross_attention_layers:
        rest += spec.cross_attention_layers * (_attention(spec) + norm)
    expert_layers = spec.layers - spec.dense_layers if spec.experts else 0
    wide = spec.dense_ffn or spec.ffn
    dense_mlp = _mlp(spec, wide if spec.experts else spec.ffn)
    expert = _mlp(spec, spec.ffn)
    largest = max(h * (wide if spec.layers > expert_layers else spec.ffn), h * spec.heads * spec.head_width)
    return ParameterParts(
        embedding=float((spec.vocabulary + spec.positions + spec.token_types) * h + rest),
        head=0.0 if spec.tied_embeddings else float(spec.vocabulary * h),
        attention=attention, norms=norms, dense_mlp=float(dense_mlp),
        experts=float(expert * spec.experts),
        shared=float(expert * spec.shared_experts + h * spec.experts),
        largest_linear=float(largest), expert_layers=expert_layers,
        dense_layers=spec.layers - expert_layers,
    )  # fmt: skip


def lora_parameters(spec: TransformerSpec, rank: int, targets: LoraTargets) -> float:
    """Return the parameters of LoRA adapters: rank x (in + out) for each target matrix.

    References:
        Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.
    """
    h, heads, keys = spec.hidden, spec.heads * spec.head_width, spec.kv_heads * spec.head_width
    sides = (h + heads) + (h + keys)  # q and v
    if targets is not LoraTargets.QV:
        sides += (h + keys) + (heads + h)
    total = float(sides * spec.layers)
    if targets is LoraTargets.ALL_LINEAR:
        matrices = 3 if spec.gated else 2
        parts = structural_parts(spec)
        wide = spec.dense_ffn or spec.ffn
        total += matrices * (h + (wide if spec.experts else spec.ffn)) * parts.dense_layers
        total += matrices * (h + spec.ffn) * (spec.experts + spec.shared_experts) * parts.expert_layers
    return rank * total


def _attention(spec: TransformerSpec) -> int:
    h, a, d = spec.hidden, spec.heads, spec.head_width
    if spec.kv_latent:
        key, value = d + spec.rope_dim, spec.value_dim or d
        query = (
            (h * spec.q_latent + spec.q_latent + spec.q_latent * a * key) if spec.q_latent else h * a * key
        )
        down = h * (spec.kv_latent + spec.rope_dim) + spec.kv_latent
        return query + down + spec.kv_latent * a * (d + value) + a * value * h
    keys = spec.kv_heads * d
    total = h * a * d + 2 * h * keys + a * d * h
    if spec.biases != "none":
        total += a * d + 2 * keys
    if spec.biases in ("attention", "all"):
        total += h
    return total


def _mlp(spec: TransformerSpec, width: int) -> int:
    total = (3 if spec.gated else 2) * spec.hidden * width
    if spec.biases == "all":
        total += width * (2 if spec.gated else 1) + spec.hidden
    return total

"""This module guesses the shape of a transformer of which only the size is known."""

import math

from predictor.contracts.workload import TransformerSpec
from predictor.forecasting.memory.breakdown import Component, Uncertainty

# parameters -> layers, width: the shapes that most published dense models of a size are close to
_SHAPES = (
    (70e6, 6, 512), (160e6, 12, 768), (410e6, 24, 1024), (1.1e9, 22, 2048), (3e9, 28, 3072),
    (7e9, 32, 4096), (13e9, 40, 5120), (32e9, 62, 6656), (70e9, 80, 8192), (120e9, 88, 12288),
    (400e9, 126, 16384),
)  # fmt: skip
_VOCABULARY = 64_000  # published ones run from 32,000 to 262,144
_HEAD = 128


def generic_transformer(parameter_count: float, *, experts: int = 0) -> TransformerSpec:
    """Return the usual shape of a size; with experts, ``parameter_count`` is that of ``experts`` = 1.

    The total of a mixture is below experts x size, as attention is shared (Mixtral 8x7B has 46.7e9).
    """
    _, layers, hidden = min(_SHAPES, key=lambda shape: abs(math.log(shape[0] / parameter_count)))
    total = parameter_count * (0.83 * experts if experts else 1.0)
    width = max(64 * round(8 * hidden / 3 / 64), 64)
    heads = max(hidden // _HEAD, 1)
    return TransformerSpec(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, ffn=width, vocabulary=_VOCABULARY,
        experts=experts, experts_per_token=min(2, experts), parameter_count=total,
    )  # fmt: skip


def generic_uncertainty(name: str) -> tuple[Uncertainty, ...]:
    """Return how far models of one stated size lie apart (Qwen-7B 7.7e9, Gemma-7B 8.5e9, Llama-7B 6.7e9)."""
    states = (Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER, Component.TEMPORARIES)
    return (
        Uncertainty(what=f"parameters of '{name}'", components=states, low_ratio=0.9, high_ratio=1.25),
        Uncertainty(
            what="layers and widths", components=(Component.ACTIVATIONS,), low_ratio=0.6, high_ratio=1.7
        ),
        Uncertainty(what="vocabulary", components=(Component.LOGITS,), low_ratio=0.5, high_ratio=4.1),
        Uncertainty(what="KV heads", components=(Component.KV_CACHE,), low_ratio=0.125, high_ratio=1.2),
    )

"""This module says what a process holds on a GPU besides tensors."""

from predictor.contracts.workload import ModelSpec, VisionSpec
from predictor.forecasting.memory.breakdown import GIB, MIB, Component, Uncertainty

# Measured on A100: a network of a few thousand parameters is seen with 1,443 MiB in use (GPUMemNet's runs),
# of which 0.45 to 0.92 GiB are the CUDA context and the rest workspaces of cuBLAS and cuDNN.
CONTEXT_BYTES = 1443.0 * MIB
# Communicators: 1 to 1.5 GiB once a process group exists (notes of Bekman, "Machine Learning Engineering").
GROUP_BYTES = 1.25 * GIB
GRAPHS_BYTES = 1.5 * GIB  # CUDA graphs of a server, 1 to 3 GiB


def overhead_bytes(gpu_count: int, *, graphs: bool = False) -> float:
    """Return the bytes that the framework's allocator does not see."""
    return CONTEXT_BYTES + (GROUP_BYTES if gpu_count > 1 else 0.0) + (GRAPHS_BYTES if graphs else 0.0)


def overhead_uncertainty(model: ModelSpec) -> tuple[Uncertainty, ...]:
    """Return how far overhead and allocator may differ from site to site."""
    high = 1.5 if isinstance(model, VisionSpec) else 1.4  # cuDNN's choice of algorithm
    tensors = tuple(part for part in Component if part is not Component.OVERHEAD)
    return (
        Uncertainty(
            what="context and workspaces", components=(Component.OVERHEAD,), low_ratio=0.45, high_ratio=high
        ),
        Uncertainty(what="fragmentation", components=tensors, low_ratio=1.0, high_ratio=1.08),
    )

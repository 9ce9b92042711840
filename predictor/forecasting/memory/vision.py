"""This module adds up the memory of vision models, of which only counts are known."""

from predictor.contracts.workload import (
    InferenceSpec,
    Method,
    Recipe,
    TrainingSpec,
    VisionArchitecture,
    VisionSpec,
)
from predictor.forecasting.memory.breakdown import Component, Components, Phase, Uncertainty
from predictor.forecasting.memory.overhead import overhead_bytes
from predictor.forecasting.memory.recipes import compute_bytes, served_weight_bytes, state_bytes
from predictor.forecasting.memory.sharding import (
    LocalParameters,
    gathered_weights,
    layer_gradients,
    shard_group,
    shard_states,
)
from predictor.forecasting.memory.training import BACKWARD_END, BACKWARD_START, STEP

# Stored tensors per counted activation, and the range over families of models. Measured on 4,247 timm
# runs (fp32, Adam, A100; medians of families): 3.2 copies in ResNets, 1.4 in ViT and Swin; timm counts the
# outputs of convolutions and linear layers only, normalisation and activation functions store as much again.
# Networks whose every layer is counted store each output once.
_COPIES = {
    VisionArchitecture.CONVOLUTION: (3.2, 0.75, 1.35),
    VisionArchitecture.ATTENTION: (1.4, 0.8, 1.5),
    VisionArchitecture.COUNTED: (1.0, 0.8, 1.7),
    VisionArchitecture.UNKNOWN: (2.6, 0.45, 1.6),
}
_UNITS = 16  # pieces that FSDP wraps, for want of knowledge


def vision_training_phases(spec: VisionSpec, run: TrainingSpec) -> tuple[Phase, ...]:
    """Return the phases of a training step: start and end of the backward pass, and the optimizer step."""
    per = state_bytes(run.recipe, run.optimizer, run.optimizer_kernel)
    count = float(spec.parameter_count)
    held = shard_states(run, count, 0.0, per)
    unit = LocalParameters(
        linear=count, other=0.0, experts=0.0, layer=count / _UNITS, layer_experts=0.0,
        largest_linear=count / _UNITS,
    )  # fmt: skip
    gathered = gathered_weights(run, unit, linear_bytes=per.weights, other_bytes=per.weights)
    own, beyond = layer_gradients(run, unit, per.gradients)
    stored = run.micro_batch * _elements(spec, run.image_size) * _COPIES[spec.architecture][0]
    stored *= compute_bytes(run.recipe)
    cast = (
        2.0 * count
        if run.recipe is Recipe.AMP and not (run.zero_stage >= 3 and shard_group(run) > 1)
        else 0.0
    )
    kept = held.gradients if run.micro_batches > 1 else 0.0
    buckets = held.gradients if run.data > 1 and not run.zero_stage else 0.0
    overhead = overhead_bytes(run.gpu_count)

    def phase(name: str, gradients: float, activations: float, live: float, temporaries: float) -> Phase:
        return Phase(name=name, parts=Components(
            weights=held.weights, gradients=gradients, optimizer=held.optimizer, activations=activations,
            live_shards=live, temporaries=temporaries + buckets, overhead=overhead,
        ))  # fmt: skip

    return (
        phase(BACKWARD_START, kept or own, stored, gathered + beyond, cast),
        phase(BACKWARD_END, held.gradients, stored / _UNITS, gathered + beyond, 0.0),
        phase(STEP, held.gradients, 0.0, 0.0, held.temporary),
    )


def vision_inference_phases(spec: VisionSpec, run: InferenceSpec) -> tuple[Phase, ...]:
    """Return the one phase of a forward pass: weights and the activations of a few layers."""
    weights = spec.parameter_count * served_weight_bytes(run.weights)
    alive = run.batch * _elements(spec, run.image_size) * _COPIES[spec.architecture][0] * 2.0 * 2.0 / _UNITS
    parts = Components(
        weights=weights, activations=alive, overhead=overhead_bytes(run.gpu_count, graphs=run.graphs)
    )
    return (Phase(name="forward", parts=parts),)


def vision_uncertainty(spec: VisionSpec) -> tuple[Uncertainty, ...]:
    """Return how far the stored copies of an activation differ between families of models."""
    _, low, high = _COPIES[spec.architecture]
    what = "stored copies of each counted activation"
    return (Uncertainty(what=what, components=(Component.ACTIVATIONS,), low_ratio=low, high_ratio=high),)


def vision_faults(run: TrainingSpec) -> list[str]:
    """Return what cannot be estimated for models of which only counts are known."""
    faults = [
        f"{name}={value}: a model known by its counts only cannot be split; leave it at 1"
        for name, value in (("tensor", run.tensor), ("pipeline", run.pipeline), ("context", run.context),
                            ("expert", run.expert))
        if value > 1
    ]  # fmt: skip
    if run.method is not Method.FULL:
        faults.append(f"method={run.method}: adapters need the shape of a transformer; use full")
    return faults


def _elements(spec: VisionSpec, image_size: int | None) -> float:
    """Return the activations per sample; they grow with the area of the image."""
    if image_size is None or not spec.image_size:
        return float(spec.activation_count)
    return float(spec.activation_count) * (image_size / spec.image_size) ** 2

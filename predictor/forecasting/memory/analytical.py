"""This module is the analytical estimate of peak GPU memory: a model and a run in, bytes by phase out."""

from collections.abc import Sequence

from predictor.contracts.workload import InferenceSpec, ModelSpec, RunSpec, TrainingSpec, TransformerSpec
from predictor.forecasting.memory.breakdown import MemoryBreakdown, Phase, Uncertainty
from predictor.forecasting.memory.inference import inference_phases, inference_uncertainty
from predictor.forecasting.memory.overhead import overhead_uncertainty
from predictor.forecasting.memory.training import training_phases, training_uncertainty
from predictor.forecasting.memory.validation import check
from predictor.forecasting.memory.vision import (
    vision_inference_phases,
    vision_training_phases,
    vision_uncertainty,
)


def estimate(model: ModelSpec, run: RunSpec, *, guessed: Sequence[Uncertainty] = ()) -> MemoryBreakdown:
    """Return the memory of the GPU that needs most.

    Args:
        guessed: what else is not certain about the two specs, such as a model known by its size only.

    Raises:
        ArgumentError: the specs cannot be; every fault of both is listed.

    Notes:
        Bytes are exact for weights and states as far as the specs are, a few per cent off for activations
        of language models, and up to a half off for activations of vision models: a learned correction
        belongs on top. Time and memory are constant (about 30 microseconds).

    Examples:
        >>> shape = TransformerSpec(
        ...     layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=128256
        ... )
        >>> run = TrainingSpec(micro_batch=1, sequence_length=2048)
        >>> breakdown = estimate(shape, run)
        >>> round(breakdown.components.weights / 1e9, 2)
        16.06
    """
    check(model, run)
    uncertain = (*overhead_uncertainty(model), *guessed)
    if isinstance(model, TransformerSpec):
        stages = ("only",) if run.pipeline == 1 else ("first", "last")
        candidates = [(stage, _phases(model, run, stage)) for stage in stages]
        uncertain += (
            training_uncertainty(run) if isinstance(run, TrainingSpec) else inference_uncertainty(run)
        )
    elif isinstance(run, TrainingSpec):
        candidates = [("only", vision_training_phases(model, run))]
        uncertain += vision_uncertainty(model)
    else:
        candidates = [("only", vision_inference_phases(model, run))]
        uncertain += vision_uncertainty(model)
    candidates.sort(key=lambda candidate: _peak(candidate[1]), reverse=True)
    stage, phases = candidates[0]
    return MemoryBreakdown(
        phases=phases, stage=stage, uncertain_parts=uncertain, gpu_count=run.gpu_count,
        other_phases=candidates[1][1] if len(candidates) > 1 else (),
    )  # fmt: skip


def _phases(model: TransformerSpec, run: RunSpec, stage: str) -> tuple[Phase, ...]:
    if isinstance(run, InferenceSpec):
        return inference_phases(model, run, stage)
    return training_phases(model, run, stage)


def _peak(phases: Sequence[Phase]) -> float:
    return max(phase.parts.total_bytes for phase in phases)

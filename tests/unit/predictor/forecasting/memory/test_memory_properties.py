"""This module holds the analytical memory model to what must be true of every model and run."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.workload import (
    InferenceSpec,
    ModelSpec,
    RunSpec,
    TrainingSpec,
    TransformerSpec,
    VisionSpec,
)
from predictor.forecasting.memory.analytical import estimate
from predictor.forecasting.memory.breakdown import COMPONENT_NAMES, MemoryBreakdown
from predictor.forecasting.memory.sharding import shard_group
from tests.unit.predictor.forecasting.memory.specs import servings, trainings, transformers, visions

EXAMPLES = settings(max_examples=80, deadline=None)


def assert_sound(breakdown: MemoryBreakdown) -> None:
    parts = breakdown.components
    for name in COMPONENT_NAMES:
        assert math.isfinite(getattr(parts, name))
        assert getattr(parts, name) >= 0
    assert breakdown.peak_bytes >= parts.weights
    assert breakdown.tensor_peak_bytes >= parts.weights
    ends = (breakdown.low_bytes, breakdown.peak_bytes, breakdown.high_bytes)
    assert parts.weights * (1 - 1e-9) <= ends[0] <= ends[1] <= ends[2]
    assert breakdown.peak_bytes <= breakdown.conservative_bytes * (1 + 1e-9)
    assert math.isfinite(breakdown.high_bytes)


def not_less(smaller: MemoryBreakdown, larger: MemoryBreakdown) -> bool:
    return all(
        getattr(larger, name) >= getattr(smaller, name) * (1 - 1e-9)
        for name in ("peak_bytes", "tensor_peak_bytes", "conservative_bytes")
    )


@EXAMPLES
@given(model=transformers(), run=st.one_of(trainings(), servings()))
def test_an_estimate_is_finite_and_never_below_the_weights(model: TransformerSpec, run: RunSpec) -> None:
    assert_sound(estimate(model, run))


@EXAMPLES
@given(model=visions(), run=trainings(), batch=st.integers(1, 4096))
def test_an_estimate_from_counts_is_sound_too(model: VisionSpec, run: TrainingSpec, batch: int) -> None:
    run = TrainingSpec(
        recipe=run.recipe,
        optimizer=run.optimizer,
        micro_batch=batch,
        data=run.data,
        zero_stage=run.zero_stage,
    )
    once = estimate(model, run)
    assert_sound(once)
    assert not_less(once, estimate(model, replace(run, micro_batch=batch + 1)))
    assert_sound(estimate(model, InferenceSpec(batch=batch)))


@EXAMPLES
@given(model=transformers(), run=trainings(), more=st.integers(1, 64))
def test_training_memory_never_falls_as_batch_or_sequence_grow(
    model: TransformerSpec, run: TrainingSpec, more: int
) -> None:
    once = estimate(model, run)
    assert not_less(once, estimate(model, replace(run, micro_batch=run.micro_batch + more)))
    assert not_less(once, estimate(model, replace(run, sequence_length=run.sequence_length + 8 * more)))
    assert not_less(once, estimate(model, replace(run, micro_batches=run.micro_batches + more)))


@EXAMPLES
@given(model=transformers(), run=servings(), more=st.integers(1, 64))
def test_serving_memory_never_falls_as_batch_or_context_grow(
    model: TransformerSpec, run: InferenceSpec, more: int
) -> None:
    once = estimate(model, run)
    assert not_less(once, estimate(model, replace(run, batch=run.batch + more)))
    assert not_less(once, estimate(model, replace(run, context_length=run.context_length + more)))


@EXAMPLES
@given(model=transformers(), run=trainings())
def test_a_higher_zero_stage_or_a_larger_group_never_costs_memory(
    model: TransformerSpec, run: TrainingSpec
) -> None:
    """At stage 0 replicas hold buckets for the exchange, so the group is compared from stage 1 on."""
    run = replace(run, offload_parameters=False)
    stages = [estimate(model, replace(run, zero_stage=stage)) for stage in range(4)]
    for lower, higher in itertools.pairwise(stages):
        assert not_less(higher, lower)
    if run.zero_stage:
        assert not_less(estimate(model, replace(run, data=run.data * 2)), estimate(model, run))


@EXAMPLES
@given(model=transformers(), run=trainings())
def test_tensor_parallelism_never_costs_memory(model: TransformerSpec, run: TrainingSpec) -> None:
    """Compared beyond one GPU, as the first second GPU brings communicators."""
    halves = [
        estimate(model, replace(run, tensor=tensor, sequence_parallel=False)) for tensor in (1, 2, 4, 8)
    ]
    for fewer, more in itertools.pairwise(halves):
        assert not_less(more, fewer)


@EXAMPLES
@given(model=transformers(), run=trainings())
def test_zero_over_one_gpu_changes_nothing(model: TransformerSpec, run: TrainingSpec) -> None:
    alone = replace(run, tensor=1, pipeline=1, data=1, context=1, sequence_parallel=False, zero_stage=0,
                    offload_parameters=False)  # fmt: skip
    assert shard_group(alone) == 1
    plain = estimate(model, alone)
    for stage in (1, 2, 3):
        assert estimate(model, replace(alone, zero_stage=stage)).phases == plain.phases


@EXAMPLES
@given(model=transformers(), run=trainings())
def test_shards_of_all_gpus_add_up_to_the_whole(model: TransformerSpec, run: TrainingSpec) -> None:
    """ZeRO stage 3 over N GPUs holds each state exactly once."""
    run = replace(run, tensor=1, pipeline=1, context=1, sequence_parallel=False, offload_parameters=False,
                  offload_optimizer=False)  # fmt: skip
    whole = estimate(model, replace(run, data=1, zero_stage=0)).components
    shard = estimate(model, replace(run, zero_stage=3)).components
    for name in ("weights", "gradients", "optimizer"):
        assert run.data * getattr(shard, name) == pytest.approx(getattr(whole, name), rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), model=st.one_of(transformers(), visions()))
def test_the_same_specs_give_the_same_estimate(data: st.DataObject, model: ModelSpec) -> None:
    run = TrainingSpec(micro_batch=data.draw(st.integers(1, 8)))
    assert estimate(model, run) == estimate(model, run)

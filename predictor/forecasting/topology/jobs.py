"""This module says what is known of a job for a ranking of its placements."""

import math

from predictor.contracts.memory import MemoryRequest
from predictor.contracts.topology import Strategy, TopologyJob
from predictor.contracts.workload import Method, TrainingSpec, TransformerSpec
from predictor.forecasting.memory.parameters import count_parameters

_HALF = ("bf16", "fp16", "bfloat16", "float16", "half", "pure-bf16")
_WORDS = (
    (("fsdp", "zero3", "zero-3", "zero_3"), Strategy.SHARDED),
    (("tensor", "tp"), Strategy.TENSOR),
    (("pipeline", "pp"), Strategy.PIPELINE),
)


def topology_job(request: MemoryRequest) -> TopologyJob:
    """Return the job of a memory request: who it is, its batch per GPU, and what travels in a step.

    Its name is the family of the model, else the name of the job without its numbers. Adapters train so
    little that their gradients count as not known.
    """
    run = request.run if isinstance(request.run, TrainingSpec) else None
    model = request.model
    activation_bytes, layers = math.nan, 0
    strategy = _strategy(request)
    if run is not None and isinstance(model, TransformerSpec):
        activation_bytes = 2.0 * run.micro_batch * run.sequence_length * model.hidden
        layers = model.layers
    return TopologyJob(
        signature=request.family or request.words.get("job_name", ""),
        local_batch=math.nan if request.batch is None else request.batch,
        gradient_bytes=_gradient_bytes(request), strategy=strategy, activation_bytes=activation_bytes,
        layer_count=layers,
    )  # fmt: skip


def _strategy(request: MemoryRequest) -> Strategy:
    run = request.run
    if isinstance(run, TrainingSpec):
        if run.tensor > 1:
            return Strategy.TENSOR
        if run.pipeline > 1:
            return Strategy.PIPELINE
        if run.zero_stage >= 3:
            return Strategy.SHARDED
    said = request.words.get("parallelism", "").lower()
    parts = said.replace("+", " ").replace(",", " ").replace("=", " ").split()
    for words, strategy in _WORDS:
        if any(part.startswith(word) for part in parts for word in words):
            return strategy
    return Strategy.DATA


def _gradient_bytes(request: MemoryRequest) -> float:
    run, model = request.run, request.model
    adapter = isinstance(run, TrainingSpec) and run.method is not Method.FULL
    if adapter or request.numbers.get("lora_rank", 0.0) > 0:
        return math.nan
    count = math.nan
    if "log_parameter_count" in request.numbers:
        count = math.exp(request.numbers["log_parameter_count"])
    elif isinstance(model, TransformerSpec):
        count = float(count_parameters(model))
    elif model is not None:
        count = float(model.parameter_count)
    half = request.words.get("precision", "").lower() in _HALF
    return count * (2.0 if half else 4.0)

"""This module asks the same thing at another batch or sequence length."""

import math
from dataclasses import replace

from predictor.contracts.memory import MemoryRequest
from predictor.contracts.workload import InferenceSpec, RunSpec


def with_batch(request: MemoryRequest, batch: float) -> MemoryRequest:
    """Return the request at another batch per GPU; a spec takes whole samples, rounded up."""
    return replace(request, run=_run(request.run, batch, None), numbers=_number(request, "batch_size", batch))


def with_sequence(request: MemoryRequest, length: float) -> MemoryRequest:
    """Return the request at another sequence length, rounded up to what context parallelism divides."""
    return replace(
        request, run=_run(request.run, None, length), numbers=_number(request, "sequence_length", length)
    )


def _number(request: MemoryRequest, name: str, value: float) -> dict[str, float]:
    numbers = dict(request.numbers)
    if name in numbers:
        numbers[name] = value
    return numbers


def _run(run: RunSpec | None, batch: float | None, length: float | None) -> RunSpec | None:
    if run is None:
        return None
    if isinstance(run, InferenceSpec):
        return replace(
            run,
            batch=run.batch if batch is None else math.ceil(batch),
            context_length=run.context_length if length is None else math.ceil(length),
        )
    context = max(run.context, 1)
    return replace(
        run,
        micro_batch=run.micro_batch if batch is None else math.ceil(batch),
        sequence_length=(run.sequence_length if length is None else math.ceil(length / context) * context),
    )

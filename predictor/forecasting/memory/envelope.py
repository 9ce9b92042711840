"""This module makes an expert's forecasts non-decreasing in batch and sequence length.

Trees may fall where the formula rises. At fixed batches (powers of two) the forecast is replaced by the
largest one at any smaller batch and length, and between them it runs linearly, as memory does.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import MemoryRequest
from predictor.contracts.workload import TransformerSpec
from predictor.forecasting.memory.expert import Expert
from predictor.forecasting.memory.rescale import with_sequence

FloatArray = npt.NDArray[np.float64]

BATCHES: FloatArray = np.exp2(np.arange(15, dtype=np.float64))
SHORTEST, LONGEST = 128.0, 2.0**20


def monotone_log_mib(expert: Expert, requests: Sequence[MemoryRequest]) -> FloatArray:
    """Return ln MiB of each request, shape (n,)."""
    spread: list[MemoryRequest] = []
    spans: list[tuple[int, FloatArray]] = []
    for request in requests:
        lengths = _lengths(request)
        spans.append((len(spread), lengths))
        spread += [with_sequence(request, length) for length in lengths] if len(lengths) else [request]
    values = np.exp(_over_batches(expert, spread))
    out = np.empty(len(requests))
    for row, (request, (start, lengths)) in enumerate(zip(requests, spans, strict=True)):
        if not len(lengths):
            out[row] = values[start]
            continue
        rising = np.maximum.accumulate(values[start : start + len(lengths)])
        wanted = request.sequence_length or SHORTEST
        if wanted > lengths[-1]:  # past the longest: as the formula goes
            out[row] = rising[-1] * wanted / lengths[-1]
        else:
            out[row] = float(np.interp(wanted, lengths, rising))
    return np.log(out)


def _lengths(request: MemoryRequest) -> FloatArray:
    """Return the fixed lengths up to the one at or above the request's; none where length does not matter."""
    length = request.sequence_length
    if length is None or not (
        isinstance(request.model, TransformerSpec) or "sequence_length" in request.numbers
    ):
        return np.empty(0)
    top = min(max(np.ceil(np.log2(max(length, SHORTEST))), 7.0), np.log2(LONGEST))
    return np.asarray(2.0 ** np.arange(7.0, top + 1.0))


def _over_batches(expert: Expert, requests: Sequence[MemoryRequest]) -> FloatArray:
    """Return ln MiB, non-decreasing in the batch, shape (n,)."""
    inputs, fixed = expert.inputs(requests)
    wanted = inputs.batch
    if not len(requests) or np.isnan(wanted).all():
        return expert.log_mib(inputs, fixed, wanted)
    needed = int(np.searchsorted(BATCHES, np.nanmax(wanted))) + 1
    grid = BATCHES[: min(max(needed, 2), len(BATCHES))]
    at_grid = np.column_stack([expert.log_mib(inputs, fixed, np.full(len(requests), one)) for one in grid])
    rising = np.exp(np.maximum.accumulate(at_grid, axis=1))
    place = np.clip(np.searchsorted(grid, wanted), 1, len(grid) - 1)
    rows = np.arange(len(requests))
    low, high = grid[place - 1], grid[place]
    share = np.clip((wanted - low) / (high - low), 0.0, 1.0)
    value = rising[rows, place - 1] + share * (rising[rows, place] - rising[rows, place - 1])
    beyond = wanted > grid[-1]
    if np.any(beyond):  # past the largest: as the formula goes
        edge = np.full(len(requests), grid[-1])
        growth = expert.physics.log_mib(inputs, wanted) - expert.physics.log_mib(inputs, edge)
        value = np.where(beyond, rising[:, -1] * np.exp(np.maximum(growth, 0.0)), value)
    unknown = np.isnan(wanted)
    if np.any(unknown):
        value = np.where(unknown, np.exp(expert.log_mib(inputs, fixed, wanted)), value)
    return np.asarray(np.log(value))

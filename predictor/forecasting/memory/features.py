"""This module turns memory requests into columns: physics, numbers, ratios, and words of names.

Whether a column changes with the batch is told apart: the envelope asks for the same row at other batches.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import MemoryRequest
from predictor.contracts.workload import InferenceSpec, TransformerSpec, VisionSpec
from predictor.forecasting.memory.breakdown import MIB
from predictor.forecasting.memory.physics import PARTS, Physics, PhysicsInputs, breakdown_of

FloatArray = npt.NDArray[np.float64]

MOVING = ("log_batch", "log_physics", "is_known", *(f"share_{part}" for part in PARTS))
DRY_RUN = "dry_run_mib"
_NOT_FIXED = ("batch_size", "sequence_length", DRY_RUN)
_WORD = re.compile(r"[^a-z0-9]+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpace:
    """Which columns there are, learned from the training rows.

    Attributes:
        numbers: names of fixed numbers, in order.
        tokens: words, each a column of 0 and 1.
    """

    numbers: tuple[str, ...]
    tokens: tuple[str, ...]

    @classmethod
    def learn(
        cls, requests: Sequence[MemoryRequest], groups: Sequence[str], *, least_groups: int
    ) -> "FeatureSpace":
        """Take all numbers, and the words that occur in ``least_groups`` groups, but not in all rows."""
        numbers: set[str] = set()
        seen: dict[str, set[str]] = {}
        rows: Counter[str] = Counter()
        for request, group in zip(requests, groups, strict=True):
            numbers.update(fixed_numbers(request))
            for token in tokens(request):
                seen.setdefault(token, set()).add(group)
                rows[token] += 1
        kept = [
            token for token, where in seen.items()
            if len(where) >= least_groups and rows[token] < len(requests)
        ]  # fmt: skip
        return cls(numbers=tuple(sorted(numbers)), tokens=tuple(sorted(kept)))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in order."""
        return (*MOVING, *self.numbers, *self.tokens)

    def fixed(self, requests: Sequence[MemoryRequest]) -> FloatArray:
        """Return the columns that no batch changes, shape (n, numbers + tokens); NaN = not given."""
        out = np.full((len(requests), len(self.numbers) + len(self.tokens)), np.nan)
        out[:, len(self.numbers) :] = 0.0
        at_number = {name: at for at, name in enumerate(self.numbers)}
        at_token = {token: len(self.numbers) + at for at, token in enumerate(self.tokens)}
        for row, request in enumerate(requests):
            for name, value in fixed_numbers(request).items():
                if name in at_number:
                    out[row, at_number[name]] = value
            for token in tokens(request):
                if token in at_token:
                    out[row, at_token[token]] = 1.0
        return out


def moving_columns(physics: Physics, inputs: PhysicsInputs, batch: FloatArray) -> FloatArray:
    """Return the columns named in MOVING at some batch, shape (n, len(MOVING))."""
    log_physics = np.where(inputs.known, physics.log_mib(inputs, batch), np.nan)
    return np.column_stack(
        [np.log(batch), log_physics, inputs.known.astype(float), physics.shares(inputs, batch)]
    )


def fixed_numbers(request: MemoryRequest) -> dict[str, float]:
    """Return the numbers of a request that do not change with its batch: sizes and ratios in ln."""
    out = {name: float(value) for name, value in request.numbers.items() if name not in _NOT_FIXED}
    out |= dict(_spec_numbers(request))
    if request.has_spec and DRY_RUN in request.numbers:  # as a ratio, which the batch hardly changes
        parts = breakdown_of(request)
        out["log_dry_run_ratio"] = math.log(
            max(request.numbers[DRY_RUN], 1.0) * MIB / parts.tensor_peak_bytes
        )
    for when, held in (("held", request.held_mib), ("stored", request.stored_mib)):
        out |= {f"log_{when}_{kind}": math.log(max(value, 1e-6)) for kind, value in held.items()}
    return {name: value for name, value in out.items() if math.isfinite(value)}


def _spec_numbers(request: MemoryRequest) -> Iterator[tuple[str, float]]:
    model, run = request.model, request.run
    if isinstance(model, VisionSpec):
        edge = getattr(run, "image_size", None) or model.image_size
        area = max(edge, 1) ** 2
        count, stored = math.log(model.parameter_count), math.log(max(model.activation_count, 1.0))
        yield "log_parameters", count
        yield "log_activations", stored
        yield "image_size", float(edge)
        yield "log_activations_per_parameter", stored - count
        yield "log_activations_per_pixel", stored - math.log(area)
        if model.macs:
            macs = math.log(model.macs)
            yield "log_macs", macs
            yield "log_macs_per_activation", macs - stored
            yield "log_macs_per_parameter", macs - count
            yield "log_macs_per_pixel", macs - math.log(area)
    elif isinstance(model, TransformerSpec):
        yield "log_hidden", math.log(max(model.hidden, 1))
        yield "layers", float(model.layers)
        yield "log_vocabulary", math.log(max(model.vocabulary, 1))
        yield "kv_ratio", model.kv_heads / max(model.heads, 1)
        yield "experts", float(model.experts)
    if run is not None:
        yield "gpu_count", float(run.gpu_count)
        yield "log_sequence", math.log(max(request.sequence_length or 1.0, 1.0))


def tokens(request: MemoryRequest) -> set[str]:
    """Return the words of a request, each with its field: whole values, and parts of names.

    Examples:
        >>> sorted(tokens(MemoryRequest(words={"model": "vit_base_patch16"})))
        ['model:base', 'model:patch', 'model:patch16', 'model:vit']
    """
    found = set()
    for name, text in request.words.items():
        for part in _WORD.split(text.lower()):
            if part:
                found.add(f"{name}:{part}")
                if bare := _DIGITS.sub("", part):
                    found.add(f"{name}:{bare}")
    found |= {f"spec:{value}" for value in _spec_words(request)}
    return found


def _spec_words(request: MemoryRequest) -> Iterator[str]:
    run = request.run
    if run is None:
        return
    if isinstance(run, InferenceSpec):
        yield "inference"
        return
    for name in ("method", "recipe", "loss", "attention", "checkpointing", "optimizer"):
        yield f"{name}={getattr(run, name)}"
    yield f"zero={run.zero_stage}"

"""This module fits the analytical estimate to measured peaks with one coefficient for each of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from predictor.contracts.memory import MemoryRequest
from predictor.contracts.workload import LossKernel, Method, TrainingSpec
from predictor.forecasting.memory.analytical import estimate
from predictor.forecasting.memory.breakdown import MIB, Components, MemoryBreakdown
from predictor.forecasting.memory.rescale import with_batch

FloatArray = npt.NDArray[np.float64]

# some runs have coefficients of their own: frameworks upcast sharded states and hold more of the activations,
# and an allocator keeps blocks for logits that a fused kernel never fills at once
PARTS = ("overhead", "states", "live_shards", "activations", "logits", "temporaries", "sharded_states",
         "sharded_activations", "fused_logits")  # fmt: skip
_STATES = ("weights", "gradients", "optimizer", "kv_cache")
_PHASES = 4
_FLOOR_MIB = 1.0
_PRIOR_SCALE = 0.5  # in log: a coefficient is within a factor of 1.6 of the formula's unless data insist
_ROBUST_SCALE = 0.1  # log errors beyond it weigh linearly


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicsInputs:
    """Parts of the estimates of n requests, MiB.

    Attributes:
        at_one: shape (n, phases, parts + kinds of layers), at one sample per step; 0 where unknown.
        per_sample: same shape, what each further sample adds.
        batch: shape (n,), NaN where unknown.
        known: shape (n,), whether there is a spec.
    """

    at_one: FloatArray
    per_sample: FloatArray
    batch: FloatArray
    known: npt.NDArray[np.bool_]

    def at(self, batch: FloatArray) -> FloatArray:
        """Return the parts at other batches, shape (n, phases, parts + kinds); all are affine."""
        return np.asarray(self.at_one + (batch[:, None, None] - 1.0) * self.per_sample)


def physics_inputs(requests: Sequence[MemoryRequest], kinds: Sequence[str]) -> PhysicsInputs:
    """Return the parts of each request's estimate.

    Args:
        kinds: what holds ``stored_mib``, each with a coefficient of its own.

    Raises:
        ArgumentError: a spec cannot be.
    """
    width = len(PARTS) + len(kinds)
    at_one = np.zeros((len(requests), _PHASES, width))
    per_sample = np.zeros_like(at_one)
    known = np.array([request.has_spec for request in requests], dtype=bool)
    batch = np.array([request.batch or np.nan for request in requests], dtype=np.float64)
    for row, request in enumerate(requests):
        if not request.has_spec:
            continue
        first, second = (_parts(breakdown_of(with_batch(request, size))) for size in (1, 2))
        at_one[row, :, : len(PARTS)] = _told_apart(request, first)
        per_sample[row, :, : len(PARTS)] = _told_apart(request, second - first)
        if request.stored_mib and kinds:  # a replay knows all but the overhead
            for parts in (at_one, per_sample):
                parts[row, :, PARTS.index("overhead") + 1 :] = 0.0
            stored = np.array([request.stored_mib.get(kind, 0.0) for kind in kinds])
            held = np.array([request.held_mib.get(kind, 0.0) for kind in kinds])
            at_one[row, 0, len(PARTS) :] = held + stored
            per_sample[row, 0, len(PARTS) :] = stored
    return PhysicsInputs(at_one=at_one, per_sample=per_sample, batch=batch, known=known)


def breakdown_of(request: MemoryRequest) -> MemoryBreakdown:
    """Return the analytical estimate of a request that has a spec."""
    assert request.model is not None  # noqa: S101  (callers look at has_spec)
    assert request.run is not None  # noqa: S101
    return estimate(request.model, request.run)


def floor_mib(request: MemoryRequest) -> float:
    """Return the MiB that the weights need at least, 0 without a spec.

    Guesses of the estimate about its weights lower it.
    """
    if not request.has_spec:
        return 0.0
    breakdown = breakdown_of(request)
    return min(breakdown.components.weights, breakdown.peak_bytes) / MIB


def _parts(breakdown: MemoryBreakdown) -> FloatArray:
    """Return shape (phases, parts), MiB; absent phases repeat the last one."""
    rows = [_phase(phase.parts) for phase in breakdown.phases]
    rows += [rows[-1]] * (_PHASES - len(rows))
    return np.array(rows[:_PHASES]) / MIB


def _phase(parts: Components) -> list[float]:
    states = sum(getattr(parts, name) for name in _STATES)
    return [parts.overhead, states, parts.live_shards, parts.activations, parts.logits, parts.temporaries,
            0.0, 0.0, 0.0]  # fmt: skip


def _told_apart(request: MemoryRequest, parts: FloatArray) -> FloatArray:
    """Move states and activations of sharded training, and fused logits, to their own columns, in place."""
    run = request.run
    if not isinstance(run, TrainingSpec):
        return parts
    moved = []
    if run.zero_stage:
        moved.append(("activations", "sharded_activations"))
        if run.method is Method.FULL:
            moved.append(("states", "sharded_states"))
    if run.loss is LossKernel.FUSED:
        moved.append(("logits", "fused_logits"))
    for name, other in moved:
        parts[:, PARTS.index(other)] = parts[:, PARTS.index(name)]
        parts[:, PARTS.index(name)] = 0.0
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """The fitted estimate.

    Attributes:
        kinds: what a replay tells apart, each with a coefficient of its own.
        coefficients: shape (parts + kinds,), factors on each part, positive.
        unknown_mib: what is said where no spec is known.
    """

    kinds: tuple[str, ...]
    coefficients: FloatArray
    unknown_mib: float

    @classmethod
    def plain(cls, kinds: Sequence[str] = (), unknown_mib: float = 4096.0) -> "Physics":
        """Return the formula as it is."""
        return cls(kinds=tuple(kinds), coefficients=np.ones(len(PARTS) + len(kinds)), unknown_mib=unknown_mib)

    def log_mib(self, inputs: PhysicsInputs, batch: FloatArray | None = None) -> FloatArray:
        """Return ln MiB, shape (n,): the maximum over the phases of the weighted sum of the parts."""
        parts = inputs.at(inputs.batch if batch is None else batch)
        peak = (parts @ self.coefficients).max(axis=1)
        return np.asarray(np.log(np.where(inputs.known, np.maximum(peak, _FLOOR_MIB), self.unknown_mib)))

    def shares(self, inputs: PhysicsInputs, batch: FloatArray) -> FloatArray:
        """Return the share of each part in the first phase, shape (n, parts); NaN without a spec."""
        parts = inputs.at(batch)[:, 0, :] * self.coefficients
        stored = parts[:, len(PARTS) :].sum(axis=1)
        parts = parts[:, : len(PARTS)].copy()
        parts[:, PARTS.index("activations")] += stored
        total = np.maximum(parts.sum(axis=1, keepdims=True), _FLOOR_MIB)
        return np.where(inputs.known[:, None], parts / total, np.nan)


def fit_physics(
    inputs: PhysicsInputs, log_mib: FloatArray, weights: FloatArray, kinds: Sequence[str]
) -> Physics:
    """Fit the coefficients to observed peaks, robustly and near the formula's own.

    Args:
        log_mib: shape (n,), ln of observed peaks.
        weights: shape (n,), of each row.

    Notes:
        Parts that never occur keep the coefficient 1. Without any spec only ``unknown_mib`` is learned.
    """
    unknown = float(np.exp(np.median(log_mib))) if len(log_mib) else 4096.0
    if inputs.known.sum() < 2:
        return Physics.plain(kinds, unknown)
    parts, target = inputs.at(inputs.batch)[inputs.known], log_mib[inputs.known]
    root = np.sqrt(weights[inputs.known] / weights[inputs.known].mean())
    count = parts.shape[2]

    def misfit(theta: FloatArray) -> FloatArray:
        peak = np.maximum((parts @ np.exp(theta)).max(axis=1), _FLOOR_MIB)
        return np.concatenate([root * (np.log(peak) - target), _ROBUST_SCALE * theta / _PRIOR_SCALE])

    solved = least_squares(
        misfit, np.zeros(count), loss="soft_l1", f_scale=_ROBUST_SCALE, bounds=(-4.0, 4.0), max_nfev=60
    )
    return Physics(kinds=tuple(kinds), coefficients=np.exp(solved.x), unknown_mib=unknown)

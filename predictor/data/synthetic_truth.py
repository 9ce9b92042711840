"""This module holds the known truth of a synthetic log: the distribution each duration was drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from predictor.errors import ArgumentError

Floats = npt.NDArray[np.float64]

FAST_FAILURE, OUT_OF_MEMORY, BODY, TAIL = range(4)
_FAST_LOCATION, _FAST_SCALE = float(np.log(75.0)), 0.8  # a crash at start: 99 % within eight minutes
_MEMORY_LOCATION, _MEMORY_SCALE = float(np.log(240.0)), 0.7  # memory runs full after loading the data
_BISECTIONS = 60  # halves the widest bracket in use (30 in log seconds) below 1e-16


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTruth:
    """What really governs each row of a synthetic log, n rows in the order of the log.

    The latent duration of a row is the time the job would have run with no limit, no cancelling, no
    eviction and no node failure. It is drawn, independently for each row, from the mixture::

        F(x) = w_f Phi((ln x - ln 75) / 0.8) + w_m Phi((ln x - ln 240) / 0.7)
             + (1 - w_f - w_m) [(1 - w_t) Phi((ln x - mu) / sigma) + w_t (1 - (x_t / x)^alpha)_+]

    of fast failures, out-of-memory ends, a lognormal body and a Pareto tail that begins at
    ``x_t = exp(mu + sigma)``. Everything in it is known when the job is submitted.

    Attributes:
        duration_s: shape (n,), latent duration in seconds, > 0, not rounded.
        component: shape (n,), the component it was drawn from: 0 fast failure, 1 out of memory,
            2 body, 3 tail.
        template: shape (n,), number of the job template.
        log_location: shape (n,), mu, natural logarithm of seconds.
        log_scale: shape (n,), sigma, > 0.
        fast_weight: shape (n,), w_f.
        memory_weight: shape (n,), w_m.
        tail_weight: shape (n,), w_t, weight of the tail among jobs that do their work.
        tail_index: shape (n,), alpha, > 1.
        censoring_hazard_per_s: shape (n,), the constant hazard, 1/s, of cancelling while running,
            eviction and node failure together; independent of the duration given the row.

    Notes:
        The time a job can occupy its resources is ``min(duration, limit)``; its quantiles are the
        quantiles given here, clipped at ``walltime_s``. Rows of one submission share the parameters,
        but not the draw.
    """

    duration_s: Floats
    component: npt.NDArray[np.int8]
    template: npt.NDArray[np.int64]
    log_location: Floats
    log_scale: Floats
    fast_weight: Floats
    memory_weight: Floats
    tail_weight: Floats
    tail_index: Floats
    censoring_hazard_per_s: Floats

    def __len__(self) -> int:
        return len(self.duration_s)

    def cdf(self, duration_s: Floats) -> Floats:
        """Return the probability that the latent duration is at most the given one.

        Args:
            duration_s: shape (n,), seconds; values <= 0 give 0.

        Returns:
            Shape (n,), probabilities. At ``self.duration_s`` this is the probability integral
            transform, uniform on (0, 1).
        """
        with np.errstate(divide="ignore"):
            return self._cdf_of_log(np.log(np.maximum(duration_s, 0.0)))

    def true_quantile_s(self, levels: Sequence[float] | Floats) -> Floats:
        """Return quantiles of the latent duration, by bisection of the mixture's distribution function.

        Args:
            levels: L probabilities strictly between 0 and 1.

        Returns:
            Shape (n, L), seconds, exact to the last bits of a float.

        Raises:
            ArgumentError: a level is not strictly between 0 and 1.
        """
        wrong = [f"{level} is not a probability" for level in levels if not 0.0 < float(level) < 1.0]
        if wrong:
            raise ArgumentError("quantile levels must lie strictly between 0 and 1", faults=wrong)
        columns = [self._quantile_s(float(level)) for level in levels]
        return np.stack(columns, axis=1) if columns else np.empty((len(self), 0))

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "SyntheticTruth":
        """Return the truth of the chosen rows."""
        return SyntheticTruth(**{name: getattr(self, name)[rows] for name in self.__slots__})

    def to_frame(self, levels: Sequence[float] = (0.1, 0.5, 0.9, 0.95)) -> pd.DataFrame:
        """Return the truth as a table, with one column such as ``q90_s`` for each level."""
        frame = pd.DataFrame({name: getattr(self, name) for name in self.__slots__})
        quantiles = self.true_quantile_s(levels)
        for place, level in enumerate(levels):
            frame[f"q{100 * level:g}_s"] = quantiles[:, place]
        return frame

    def _cdf_of_log(self, log_s: Floats) -> Floats:
        with np.errstate(over="ignore"):  # far below the begin of the tail, where the result is clipped
            beyond = np.exp(-self.tail_index * (log_s - self.log_location - self.log_scale))
        work = (1.0 - self.tail_weight) * ndtr((log_s - self.log_location) / self.log_scale)
        work += self.tail_weight * (1.0 - np.minimum(beyond, 1.0))
        total = self.fast_weight * ndtr((log_s - _FAST_LOCATION) / _FAST_SCALE)
        total += self.memory_weight * ndtr((log_s - _MEMORY_LOCATION) / _MEMORY_SCALE)
        return np.asarray(total + (1.0 - self.fast_weight - self.memory_weight) * work, dtype=np.float64)

    def _quantile_s(self, level: float) -> Floats:
        # A quantile of a mixture lies between the smallest and the largest quantile of its components.
        normal = float(ndtri(level))
        body = self.log_location + self.log_scale * normal
        tail = self.log_location + self.log_scale - np.log1p(-level) / self.tail_index
        fast, memory = _FAST_LOCATION + _FAST_SCALE * normal, _MEMORY_LOCATION + _MEMORY_SCALE * normal
        low = np.minimum(np.minimum(body, tail), min(fast, memory))
        high = np.maximum(np.maximum(body, tail), max(fast, memory))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            above = self._cdf_of_log(middle) >= level
            high = np.where(above, middle, high)
            low = np.where(above, low, middle)
        return np.asarray(np.exp(0.5 * (low + high)), dtype=np.float64)


def draw_truth(
    rng: np.random.Generator,
    *,
    template: npt.NDArray[np.int64],
    log_location: Floats,
    log_scale: Floats,
    fast_weight: Floats,
    memory_weight: Floats,
    tail_weight: Floats,
    tail_index: Floats,
    censoring_hazard_per_s: Floats,
) -> SyntheticTruth:
    """Draw one latent duration for each row of the given parameters (all of shape (n,))."""
    rows = len(template)
    where = rng.random(rows)
    failing = fast_weight + memory_weight
    work = 1.0 - failing
    edges = (fast_weight, failing, failing + work * (1.0 - tail_weight))
    component = sum((where >= edge).astype(np.int8) for edge in edges)
    normal, exponential = rng.standard_normal(rows), rng.standard_exponential(rows)
    log_s = np.select(
        [component == FAST_FAILURE, component == OUT_OF_MEMORY, component == BODY],
        [_FAST_LOCATION + _FAST_SCALE * normal, _MEMORY_LOCATION + _MEMORY_SCALE * normal,
         log_location + log_scale * normal],
        log_location + log_scale + exponential / tail_index,
    )  # fmt: skip
    return SyntheticTruth(
        duration_s=np.exp(log_s), component=np.asarray(component, dtype=np.int8), template=template,
        log_location=log_location, log_scale=log_scale, fast_weight=fast_weight, memory_weight=memory_weight,
        tail_weight=tail_weight, tail_index=tail_index, censoring_hazard_per_s=censoring_hazard_per_s,
    )  # fmt: skip

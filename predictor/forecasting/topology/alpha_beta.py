"""This module fits latency and bandwidth of links to measured times of collective operations.

The model is Hockney's (1994, *The communication challenge for MPP*): time = alpha + bytes on the wire /
bandwidth. Errors are relative, because curves span six orders of magnitude. Between nodes one straight line
is weak (a mean error of 10 to 30 %): protocols change with the message size.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import nnls

from predictor.contracts.cluster import LinkCost
from predictor.errors import ArgumentError
from predictor.forecasting.topology.collectives import Collective, wire_factor

FloatArray = npt.NDArray[np.float64]
MIN_POINTS = 4
_STEEPEST = 1e-15  # seconds per byte below which no slope could be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLink:
    """One curve of measurements and the cost that fits it.

    Attributes:
        per_node: workers on each node; equal to ``workers`` inside one node.
        points: how many message sizes were fitted.
    """

    operation: Collective
    workers: int
    per_node: int
    points: int
    cost: LinkCost

    @property
    def is_inside_node(self) -> bool:
        """Whether all workers were on one node."""
        return self.per_node >= self.workers


def fit_cost(wire_bytes: FloatArray, time_s: FloatArray) -> LinkCost:
    """Return the cost with the smallest relative squared error, latency and slope not negative.

    Args:
        wire_bytes: shape (n,), bytes that cross the slowest link.
        time_s: shape (n,), measured seconds, above 0.

    Raises:
        ArgumentError: fewer than MIN_POINTS points, or values that are no sizes and times.
    """
    if len(wire_bytes) != len(time_s) or len(time_s) < MIN_POINTS:
        raise ArgumentError(
            f"{len(time_s)} points are too few to fit a link; measure at least {MIN_POINTS} message sizes"
        )
    if not (np.all(time_s > 0) and np.all(np.isfinite(wire_bytes)) and np.all(wire_bytes >= 0)):
        raise ArgumentError("times must be above 0, sizes finite and not negative")
    scale = float(wire_bytes.max()) or 1.0
    design = np.column_stack([np.ones(len(wire_bytes)), wire_bytes / scale]) / time_s[:, None]
    (alpha_s, slope), _ = nnls(design, np.ones(len(time_s)))
    slope = max(float(slope) / scale, _STEEPEST)
    error = float(np.mean(np.abs((alpha_s + slope * wire_bytes) / time_s - 1.0)))
    return LinkCost(
        alpha_s=float(alpha_s), bandwidth_bytes_per_s=1.0 / slope, source="fitted", error_ratio=error
    )


def fit_links(measured: pd.DataFrame) -> tuple[FittedLink, ...]:
    """Return the fitted cost of each operation, count of workers and workers per node.

    Args:
        measured: columns operation, workers, per_node, message_bytes, time_s; times of one point repeat.
    """
    keys = ["operation", "workers", "per_node", "message_bytes"]
    points = measured.groupby(keys, as_index=False)["time_s"].median()
    fitted = []
    for key, part in points.groupby(keys[:3]):
        assert isinstance(key, tuple)  # noqa: S101  (grouped by several columns)
        operation, workers, per_node = Collective(str(key[0])), int(str(key[1])), int(str(key[2]))
        if workers < 2 or len(part) < MIN_POINTS:
            continue
        wire = part["message_bytes"].to_numpy(dtype=np.float64) * wire_factor(operation, workers)
        cost = fit_cost(wire, part["time_s"].to_numpy(dtype=np.float64))
        fitted.append(
            FittedLink(operation=operation, workers=workers, per_node=per_node, points=len(part), cost=cost)
        )
    return tuple(fitted)

"""This module thins bursts of alike jobs, so that one sweep of thousands does not drown a year of habits.

A user who submits two thousand copies of a job within a day gives little more evidence than one who
submits four: their durations share one cause. Rows of one burst (same submitter, same request, same day)
are sampled down and weighted so that the burst weighs ``size ** burst_power``. On the Graham log,
where single users send thousands of jobs a day, thinning lowered the error of LightGBM in each form tried
(docs/adr/0005-experts-pool-calibration.md).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]

BURST_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSample:
    """Chosen rows and their weights, shape (m,) each; rows ascend."""

    rows: IndexArray
    weights: FloatArray


def burst_ids(
    submitted_s: FloatArray,
    identity: npt.NDArray[np.object_],
    limit_s: FloatArray,
    gpus: FloatArray,
    span_s: float = BURST_S,
) -> npt.NDArray[np.int64]:
    """Return a number for the burst of each job, shape (n,)."""
    table = pd.DataFrame(
        {"who": identity, "when": submitted_s // span_s, "limit": limit_s, "gpus": gpus},
    )
    numbers = table.groupby(["who", "when", "limit", "gpus"], dropna=False, sort=False).ngroup()
    return np.asarray(numbers, dtype=np.int64)


def thin_bursts(
    bursts: npt.NDArray[np.int64],
    submitted_s: FloatArray,
    *,
    keep: int,
    burst_power: float,
    max_rows: int,
    rng: np.random.Generator,
) -> TrainingSample:
    """Keep at most ``keep`` random rows of each burst, and the latest ``max_rows`` of what is left.

    Args:
        bursts: shape (n,), burst number of each row.
        submitted_s: shape (n,), UTC epoch seconds.
        keep: rows kept per burst, >= 1.
        burst_power: a burst of m rows weighs m ** burst_power in all; 0 = every burst weighs 1.
        max_rows: upper bound of the rows returned.
        rng: source of randomness.
    """
    order = rng.permutation(len(bursts))
    shuffled = bursts[order]
    by_burst = np.argsort(shuffled, kind="stable")
    grouped = shuffled[by_burst]
    starts = (
        np.concatenate([[True], grouped[1:] != grouped[:-1]]) if len(grouped) else np.empty(0, dtype=bool)
    )
    first = np.maximum.accumulate(np.where(starts, np.arange(len(grouped)), 0))
    rank = np.arange(len(grouped)) - first
    rows = order[by_burst[rank < keep]]
    if len(rows) > max_rows:
        rows = rows[np.argsort(-submitted_s[rows], kind="stable")[:max_rows]]
    rows = np.sort(rows)
    size = np.bincount(bursts)[bursts[rows]].astype(np.float64)
    return TrainingSample(rows=rows, weights=size**burst_power / np.minimum(size, keep))

"""This module cuts test jobs into the slices that people ask about."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.features.assemble import FeatureTable

FloatArray = npt.NDArray[np.float64]

VOLUME_EDGES: tuple[int, ...] = (1, 10, 100)
VOLUME_NAMES: tuple[str, ...] = (
    "user_unseen",
    "user_1_to_9_jobs",
    "user_10_to_99_jobs",
    "user_100_jobs_or_more",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some of the test jobs.

    Attributes:
        name: stable name.
        rows: shape (n,), which test jobs.
        by_outcome: the slice is cut by what was known only afterwards; no forecast can be calibrated
            inside such a slice (jobs that hit their limit always ran long), so its coverage is shown
            for information and judged nowhere.
    """

    name: str
    rows: npt.NDArray[np.bool_]
    by_outcome: bool = False


def slices_of(
    features: FeatureTable, forecast_median_s: FloatArray, state: npt.NDArray[np.object_]
) -> list[Slice]:
    """Return the slices of n test jobs: GPU or CPU, user volume, decile of the forecast median, state."""
    gpu = np.nan_to_num(features.gpus) > 0
    finished = features.support[:, 0]
    volume = np.searchsorted(np.array(VOLUME_EDGES), finished, side="right")
    rank = np.argsort(np.argsort(forecast_median_s, kind="stable"), kind="stable")
    decile = rank * 10 // max(len(rank), 1)
    slices = [Slice(name="gpu_jobs", rows=gpu), Slice(name="cpu_jobs", rows=~gpu)]
    slices += [Slice(name=name, rows=volume == index) for index, name in enumerate(VOLUME_NAMES)]
    slices += [
        Slice(name=f"forecast_duration_decile_{index + 1}", rows=decile == index) for index in range(10)
    ]
    slices += [
        Slice(name=f"state_{str(name).lower()}", rows=state == name, by_outcome=True)
        for name in sorted({str(value) for value in state})
    ]
    return [part for part in slices if part.rows.any()]

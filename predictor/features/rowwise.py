"""This module turns single requests into numbers, without looking at any other job."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.features.request import RequestColumns

FloatArray = npt.NDArray[np.float64]

CATEGORIES: tuple[str, ...] = ("queue", "qos", "gpu_type")
MAX_VALUES = 64
ROWWISE_NAMES: tuple[str, ...] = (
    "log_walltime_s",
    "log_gpus",
    "log_nodes",
    "log_cpus",
    "log_memory_mib",
    "log_memory_per_cpu_mib",
    "log_cpus_per_node",
    "gpus_per_node",
    "walltime_is_whole_days",
    "walltime_is_whole_hours",
    "hour_utc",
    "weekday_utc",
    "array_index",
    "has_array",
    "has_dependency",
    *(f"{name}_code" for name in CATEGORIES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The values of each category seen in training, most frequent first; anything else reads as NaN."""

    values: tuple[tuple[str, ...], ...]

    @classmethod
    def learn(cls, requests: RequestColumns) -> "Vocabulary":
        """Return the most frequent values of each category column."""
        return cls(
            values=tuple(
                tuple(str(value) for value in pd.Series(getattr(requests, name)).value_counts().index[:MAX_VALUES])
                for name in CATEGORIES
            )
        )


def _codes(values: npt.NDArray[np.object_], known: tuple[str, ...]) -> FloatArray:
    numbers = {value: float(index) for index, value in enumerate(known)}
    if len(values) <= 64:
        return np.array([numbers.get(value, np.nan) for value in values])
    codes, uniques = pd.factorize(values)
    translated = np.array([*(numbers.get(value, np.nan) for value in uniques), np.nan])
    return np.asarray(translated[codes])


def rowwise_features(requests: RequestColumns, vocabulary: Vocabulary) -> npt.NDArray[np.float32]:
    """Return the row-wise features, shape (n, len(ROWWISE_NAMES)), float32, NaN where unknown."""
    out = np.empty((len(requests), len(ROWWISE_NAMES)), dtype=np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        walltime, gpus, nodes = requests.walltime_s, requests.gpus, requests.nodes
        cpus, memory = requests.cpus, requests.memory_mib
        out[:, 0] = np.log(walltime)
        out[:, 1] = np.log1p(gpus)
        out[:, 2] = np.log(nodes)
        out[:, 3] = np.log(cpus)
        out[:, 4] = np.log(memory)
        out[:, 5] = np.log(memory / cpus)
        out[:, 6] = np.log(cpus / nodes)
        out[:, 7] = gpus / nodes
        out[:, 8] = np.where(np.isnan(walltime), np.nan, walltime % 86400.0 == 0)
        out[:, 9] = np.where(np.isnan(walltime), np.nan, walltime % 3600.0 == 0)
    out[:, :8][~np.isfinite(out[:, :8])] = np.nan  # a request of zero has no logarithm
    day_s = requests.submitted_s % 86400.0
    out[:, 10] = day_s / 3600.0
    out[:, 11] = (requests.submitted_s // 86400.0 + 3) % 7  # 1970-01-01 was a Thursday; Monday = 0
    out[:, 12] = requests.array_index
    out[:, 13] = requests.has_array
    out[:, 14] = requests.has_dependency
    for index, name in enumerate(CATEGORIES):
        out[:, 15 + index] = _codes(getattr(requests, name), vocabulary.values[index])
    return out

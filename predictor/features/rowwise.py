"""This module turns single requests into numbers, without looking at any other job."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.features.compiled import compiled
from predictor.features.request import NUMBERS, TEXTS, RequestColumns

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
                tuple(
                    str(value) for value in pd.Series(requests.text(name)).value_counts().index[:MAX_VALUES]
                )
                for name in CATEGORIES
            )
        )


_CATEGORY_PLACES = [TEXTS.index(name) for name in CATEGORIES]


class CategoryCodes:
    """Looks up the codes of category values; holds the tables that do not change between calls."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tables = tuple(
            {value: float(index) for index, value in enumerate(values)} for values in vocabulary.values
        )

    def read(self, requests: RequestColumns) -> FloatArray:
        """Return the codes of n jobs, shape (len(CATEGORIES), n), NaN for values never seen in training."""
        found = [
            [table.get(value, math.nan) for value in requests.texts[place].tolist()]
            for table, place in zip(self._tables, _CATEGORY_PLACES, strict=True)
        ]
        return np.array(found, dtype=np.float64)


_SUBMITTED, _GPUS, _NODES, _CPUS, _MEMORY, _WALLTIME = range(6)  # places in NUMBERS
_ARRAY_INDEX, _HAS_ARRAY, _HAS_DEPENDENCY = range(6, len(NUMBERS))
_LOGS = 8  # the first features, which are NaN where a request of zero has no logarithm
_CODES = ROWWISE_NAMES.index(f"{CATEGORIES[0]}_code")


@compiled
def write_rowwise(
    numbers: FloatArray, codes: FloatArray, values: npt.NDArray[np.float32], limit_s: FloatArray
) -> None:
    """Write the row-wise features of n jobs, NaN where unknown, and their limits.

    Args:
        numbers: shape (len(NUMBERS), n).
        codes: shape (len(CATEGORIES), n).
        values: shape (n, F) with F >= len(ROWWISE_NAMES); the first columns are written.
        limit_s: shape (n,), written; inf = no limit.
    """
    for row in range(values.shape[0]):
        out = values[row]
        walltime, gpus, nodes = numbers[_WALLTIME, row], numbers[_GPUS, row], numbers[_NODES, row]
        cpus, memory, submitted = numbers[_CPUS, row], numbers[_MEMORY, row], numbers[_SUBMITTED, row]
        limit_s[row] = np.inf if math.isnan(walltime) else walltime
        out[0] = math.log(walltime)
        out[1] = math.log1p(gpus)
        out[2] = math.log(nodes)
        out[3] = math.log(cpus)
        out[4] = math.log(memory)
        out[5] = math.log(memory / cpus)
        out[6] = math.log(cpus / nodes)
        out[7] = gpus / nodes
        for index in range(_LOGS):
            if not math.isfinite(out[index]):
                out[index] = np.nan
        if math.isnan(walltime):
            out[8] = np.nan
            out[9] = np.nan
        else:
            out[8] = 1.0 if walltime % 86400.0 == 0 else 0.0
            out[9] = 1.0 if walltime % 3600.0 == 0 else 0.0
        out[10] = submitted % 86400.0 / 3600.0
        out[11] = (submitted // 86400.0 + 3.0) % 7.0  # 1970-01-01 was a Thursday; Monday = 0
        out[12] = numbers[_ARRAY_INDEX, row]
        out[13] = numbers[_HAS_ARRAY, row]
        out[14] = numbers[_HAS_DEPENDENCY, row]
        for index in range(codes.shape[0]):
            out[_CODES + index] = codes[index, row]

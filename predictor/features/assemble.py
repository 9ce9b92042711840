"""This module puts the features of a job together, for training and for serving alike."""

import hashlib
import json
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.features.compiled import compiled
from predictor.features.history import RECENT_KINDS, HistoryFeatures, HistoryStore, history_names
from predictor.features.history_kernel import DECAY_HALF_LIFE_S, READINGS, RECENT, ROW_GAP_S
from predictor.features.keys import KEY_KINDS, PLACES
from predictor.features.request import RequestColumns, request_columns
from predictor.features.rowwise import ROWWISE_NAMES, CategoryCodes, Vocabulary, write_rowwise

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SPEC_VERSION = 2
# whose median of the last durations is the reference, most specific first
REFERENCE_KINDS: tuple[str, ...] = ("template", "name", "shape", "limit", "user")
RELATIVE_KINDS: tuple[str, ...] = (*REFERENCE_KINDS, "place", "queue", "request")
RELATIVE_READINGS: tuple[str, ...] = ("last_log_s", "median_log_s", "ewma_log_s", "decayed_mean_log_s")


def _feature_names() -> tuple[str, ...]:
    relative = (
        f"{kind}_{reading}_over_reference" for kind in RELATIVE_KINDS for reading in RELATIVE_READINGS
    )
    return (*ROWWISE_NAMES, *history_names(), *relative, "log_walltime_over_reference", "reference_log_s")


_NAMES = _feature_names()


def feature_names() -> tuple[str, ...]:
    """Return the names of all features, in the order of the matrix columns."""
    return _NAMES


def spec_hash() -> str:
    """Return a short hash of everything that gives the features their meaning."""
    spec = {
        "version": SPEC_VERSION,
        "names": feature_names(),
        "keys": [[kind.name, kind.columns, kind.needs] for kind in KEY_KINDS],
        "recent": RECENT,
        "half_life_s": DECAY_HALF_LIFE_S,
        "sweeps": [ROW_GAP_S, PLACES],
    }
    return hashlib.sha256(json.dumps(spec).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """Features of n jobs, as known at their submission.

    Attributes:
        values: shape (n, F), float32, ordered as ``feature_names()``.
        reference_log_s: shape (n,), natural log of the reference duration: the median of the last
            runs of the most specific key that has any; NaN where no key has.
        recent_log_s: shape (n, kinds, RECENT), logs of the last durations by user, template and place.
        support: shape (n, kinds), how many finished jobs stand behind ``recent_log_s``.
        limit_s: shape (n,), requested walltime, ``inf`` = none.
        gpus: shape (n,), requested GPUs, NaN = unknown.
        identity: shape (n,), who submitted.
    """

    values: npt.NDArray[np.float32]
    reference_log_s: FloatArray
    recent_log_s: npt.NDArray[np.float32]
    support: IntArray
    limit_s: FloatArray
    gpus: FloatArray
    identity: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> "FeatureTable":
        """Return the features of the chosen rows."""
        return FeatureTable(
            values=self.values[rows],
            reference_log_s=self.reference_log_s[rows],
            recent_log_s=self.recent_log_s[rows],
            support=self.support[rows],
            limit_s=self.limit_s[rows],
            gpus=self.gpus[rows],
            identity=self.identity[rows],
        )


def _reading_columns(kinds: tuple[str, ...], reading: str) -> list[int]:
    names = [kind.name for kind in KEY_KINDS]
    return [names.index(kind) * len(READINGS) + READINGS.index(reading) for kind in kinds]


# columns of the history block
_REFERENCE = np.array(_reading_columns(REFERENCE_KINDS, "median_log_s"))
_RELATIVE = np.array([_reading_columns(RELATIVE_KINDS, name) for name in RELATIVE_READINGS]).T.ravel()
_COUNTS = np.array(_reading_columns(RECENT_KINDS, "count_ended"))


@compiled
def _write_history(
    past: npt.NDArray[np.float32],
    first: int,
    reference_columns: IntArray,
    relative_columns: IntArray,
    count_columns: IntArray,
    values: npt.NDArray[np.float32],
    reference_log_s: FloatArray,
    support: IntArray,
) -> None:
    """Write what n jobs owe to their history. (What the columns are comes in as arguments, since code that
    is cached on disk keeps the constants of other modules as they were.)

    Args:
        past: shape (n, kinds x readings).
        first: where the history begins in a row of features; before it stand the row-wise ones.
        reference_columns: columns of ``past`` whose first known value is the reference.
        relative_columns: columns of ``past`` that also enter relative to the reference.
        count_columns: columns of ``past`` with ln(1 + finished jobs).
        values: shape (n, F), written from ``first`` on.
        reference_log_s: shape (n,), written.
        support: shape (n, len(count_columns)), written.
    """
    for row in range(past.shape[0]):
        out = values[row]
        reference = np.float32(np.nan)
        for column in reference_columns:
            reference = past[row, column]
            if not math.isnan(reference):
                break
        at = first + past.shape[1]
        out[first:at] = past[row]
        for column in relative_columns:
            out[at] = past[row, column] - reference
            at += 1
        out[at] = out[0] - reference  # the first row-wise feature is the log of the walltime
        out[at + 1] = reference
        reference_log_s[row] = reference
        for index in range(count_columns.shape[0]):
            count = np.float64(past[row, count_columns[index]])
            support[row, index] = 0 if math.isnan(count) else int(np.rint(math.expm1(count)))


class FeatureBuilder:
    """Builds feature tables; holds the tables of categories, which do not change between calls."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._codes = CategoryCodes(vocabulary)

    def assemble(self, requests: RequestColumns, history: HistoryFeatures) -> FeatureTable:
        """Return the feature table of n jobs."""
        rows = len(requests)
        values = np.empty((rows, len(_NAMES)), dtype=np.float32)
        reference_log_s, limit_s = np.empty(rows), np.empty(rows)
        support = np.empty((rows, len(RECENT_KINDS)), dtype=np.int64)
        write_rowwise(requests.numbers, self._codes.read(requests), values, limit_s)
        _write_history(
            history.values,
            len(ROWWISE_NAMES),
            _REFERENCE,
            _RELATIVE,
            _COUNTS,
            values,
            reference_log_s,
            support,
        )
        return FeatureTable(
            values=values,
            reference_log_s=reference_log_s,
            recent_log_s=history.recent_log_s,
            support=support,
            limit_s=limit_s,
            gpus=requests.gpus,
            identity=requests.identity,
        )


def log_features(frame: pd.DataFrame, vocabulary: Vocabulary) -> FeatureTable:
    """Return the features of every job of a log as of its own submission, in the order of the rows."""
    return FeatureBuilder(vocabulary).assemble(request_columns(frame), HistoryStore().sweep_log(frame))

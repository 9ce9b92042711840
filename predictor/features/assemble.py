"""This module puts the features of a job together, for training and for serving alike."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.features.history import HistoryFeatures, HistoryStore, history_names
from predictor.features.history_kernel import DECAY_HALF_LIFE_S, READINGS, RECENT
from predictor.features.keys import KEY_KINDS
from predictor.features.request import RequestColumns, request_columns
from predictor.features.rowwise import ROWWISE_NAMES, Vocabulary, rowwise_features

FloatArray = npt.NDArray[np.float64]

SPEC_VERSION = 1
# whose median of the last durations is the reference, most specific first
REFERENCE_KINDS: tuple[str, ...] = ("template", "name", "shape", "limit", "user")
RELATIVE_KINDS: tuple[str, ...] = (*REFERENCE_KINDS, "queue", "request")
RELATIVE_READINGS: tuple[str, ...] = ("last_log_s", "median_log_s", "ewma_log_s", "decayed_mean_log_s")


def _feature_names() -> tuple[str, ...]:
    relative = (f"{kind}_{reading}_over_reference" for kind in RELATIVE_KINDS for reading in RELATIVE_READINGS)
    return (*ROWWISE_NAMES, *history_names(), *relative, "log_walltime_over_reference", "reference_log_s")


def feature_names() -> tuple[str, ...]:
    """Return the names of all features, in the order of the matrix columns."""
    return _feature_names()


def spec_hash() -> str:
    """Return a short hash of everything that gives the features their meaning."""
    spec = {
        "version": SPEC_VERSION,
        "names": feature_names(),
        "keys": [[kind.name, kind.columns, kind.needs] for kind in KEY_KINDS],
        "recent": RECENT,
        "half_life_s": DECAY_HALF_LIFE_S,
    }
    return hashlib.sha256(json.dumps(spec).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureTable:
    """Features of n jobs, as known at their submission.

    Attributes:
        values: shape (n, F), float32, ordered as ``feature_names()``.
        reference_log_s: shape (n,), natural log of the reference duration: the median of the last
            runs of the most specific key that has any; NaN where no key has.
        recent_log_s: shape (n, kinds, RECENT), logs of the last durations by user and by template.
        support: shape (n, kinds), how many finished jobs stand behind ``recent_log_s``.
        limit_s: shape (n,), requested walltime, ``inf`` = none.
        gpus: shape (n,), requested GPUs, NaN = unknown.
        identity: shape (n,), who submitted.
    """

    values: npt.NDArray[np.float32]
    reference_log_s: FloatArray
    recent_log_s: npt.NDArray[np.float32]
    support: npt.NDArray[np.int64]
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


class FeatureBuilder:
    """Builds feature tables; holds the column arithmetic that does not change between calls."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._reference = _reading_columns(REFERENCE_KINDS, "median_log_s")
        self._relative = [
            column for group in zip(*(_reading_columns(RELATIVE_KINDS, name) for name in RELATIVE_READINGS), strict=True)
            for column in group
        ]  # fmt: skip
        self._counts = _reading_columns(("user", "template"), "count_ended")

    def assemble(self, requests: RequestColumns, history: HistoryFeatures) -> FeatureTable:
        """Return the feature table of n jobs."""
        past = history.values
        reference = np.full(len(requests), np.nan, dtype=np.float32)
        for column in self._reference:
            missing = np.isnan(reference)
            reference[missing] = past[missing, column]
        first = rowwise_features(requests, self.vocabulary)
        relative = past[:, self._relative] - reference[:, None]
        last = np.column_stack([first[:, 0] - reference, reference])
        with np.errstate(invalid="ignore"):
            support = np.rint(np.expm1(past[:, self._counts].astype(np.float64)))
        return FeatureTable(
            values=np.ascontiguousarray(np.concatenate([first, past, relative, last], axis=1)),
            reference_log_s=reference.astype(np.float64),
            recent_log_s=history.recent_log_s,
            support=np.nan_to_num(support).astype(np.int64),
            limit_s=np.where(np.isnan(requests.walltime_s), np.inf, requests.walltime_s),
            gpus=requests.gpus,
            identity=requests.identity,
        )


def log_features(frame: pd.DataFrame, vocabulary: Vocabulary) -> FeatureTable:
    """Return the features of every job of a log as of its own submission, in the order of the rows."""
    return FeatureBuilder(vocabulary).assemble(request_columns(frame), HistoryStore().sweep_log(frame))

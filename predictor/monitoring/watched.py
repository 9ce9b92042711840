"""This module takes out of jobs what drift is watched in, alike for training data and live jobs.

Only what was asked for is watched, never who asked. A job that repeats the one before it of the same user
says nothing new and is left out: a burst of a thousand equal tasks is one decision of one person, not a
change of the mix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.request import JobRequest
from predictor.features.request import RequestColumns, columns_of_requests, request_columns
from predictor.monitoring.drift import FeatureReference

FloatArray = npt.NDArray[np.float64]
NUMBERS = ("gpus", "nodes", "cpus", "memory_mib", "walltime_s", "has_array", "has_dependency")
WORDS = ("queue", "qos", "gpu_type")
MOST_JOBS = 20_000  # of the training data, the latest: what the model knew when it was made
_MOST_WORDS = 20  # the others count as one


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReference:
    """How the jobs of the training data looked.

    Attributes:
        features: the distribution of each of NUMBERS and WORDS.
        words: the most frequent words of each of WORDS; their bins in this order.
    """

    features: Mapping[str, FeatureReference]
    words: Mapping[str, tuple[str, ...]]

    def values(self, jobs: Sequence[JobRequest]) -> dict[str, FloatArray]:
        """Return what live jobs, in the order of their submission, look like; shape (n,) each."""
        return _values(columns_of_requests(jobs), self.words)

    def to_json(self) -> dict[str, object]:
        """Return the reference as JSON-able values."""
        return {
            "features": {name: each.to_json() for name, each in self.features.items()},
            "words": {name: list(words) for name, words in self.words.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Mapping[str, object]]) -> "DriftReference":
        """Read a reference.

        Raises:
            ArgumentError: shares and edges do not belong together.
            LookupError, TypeError: it is another kind of document.
        """
        features = {
            name: FeatureReference.from_json(each)  # type: ignore[arg-type]  # checked by what reads it
            for name, each in document["features"].items()
        }
        words = {
            name: tuple(str(word) for word in each)  # type: ignore[attr-defined]  # as above
            for name, each in document["words"].items()
        }
        return cls(features=features, words=words)


def learn_reference(frame: pd.DataFrame) -> DriftReference:
    """Return the reference of a canonical job table: of its latest jobs."""
    latest = frame.sort_values("submitted_at", kind="stable").tail(MOST_JOBS)
    columns = request_columns(latest)
    words = {}
    for name in WORDS:
        counts = pd.Series(columns.text(name)).dropna().value_counts()
        words[name] = tuple(str(word) for word in counts.index[:_MOST_WORDS])
    features = {}
    for name, values in _values(columns, words).items():
        edges = tuple(k + 0.5 for k in range(len(words[name]))) if name in words else None
        features[name] = FeatureReference.learn(values, edges=edges)
    return DriftReference(features=features, words=words)


def _values(columns: RequestColumns, words: Mapping[str, tuple[str, ...]]) -> dict[str, FloatArray]:
    kept = _news(columns)
    values = {name: columns.number(name)[kept] for name in NUMBERS}
    for name in WORDS:
        places = {word: float(place) for place, word in enumerate(words.get(name, ()))}
        other = float(len(places))
        texts = columns.text(name)[kept]
        values[name] = np.array([np.nan if text is None else places.get(text, other) for text in texts])
    return values


def _news(columns: RequestColumns) -> npt.NDArray[np.bool_]:
    """Return which jobs differ from the one before them of the same user, shape (n,)."""
    asked = [columns.number(name) for name in NUMBERS] + [columns.text(name) for name in WORDS]
    before: dict[object, tuple[str, ...]] = {}
    news = np.zeros(len(columns), dtype=np.bool_)
    for row, who in enumerate(columns.identity):
        shape = tuple(str(column[row]) for column in asked)
        news[row] = before.get(who) != shape
        before[who] = shape
    return news

"""This module says what retraining needs of a target that learns from measurements, judged by groups."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from glob import glob
from pathlib import Path
from typing import Protocol

import pandas as pd
from matplotlib.figure import Figure

from pipelines.domain import Document, Progress
from pipelines.settings import MeasuredSettings
from predictor.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a target learns from.

    Attributes:
        fingerprint: digest of the content.
        rows, groups: runs, and groups of what is alike among them.
        sources: what it comes from, with counts, for people.
        left_out: what was not taken, and why.
        trained_until_s: moment up to which the outcomes of jobs are in it, 0 = it holds none.
        content: only the target looks inside.
    """

    fingerprint: str
    rows: int
    groups: int
    sources: tuple[str, ...]
    left_out: tuple[str, ...]
    trained_until_s: float
    content: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How a target did on groups that it was not trained on; lower scores are better.

    Attributes:
        judged_on: sets and splits; only judgements on the same ones can be compared.
        score: name of the main score.
        ours: main score over all sets.
        baselines: main score of each, over the sets on which it could answer.
        ours_beside: ours over the same sets as each baseline.
        coverage, wanted: observed and wanted share inside of the bound.
        metrics: everything, flat, for tracking.
    """

    judged_on: tuple[str, ...]
    score: str
    ours: float
    baselines: Mapping[str, float]
    ours_beside: Mapping[str, float]
    coverage: float
    wanted: float
    metrics: Mapping[str, float]

    def to_json(self) -> Document:
        """Return the judgement as JSON-able values."""
        return {**asdict(self), "judged_on": list(self.judged_on)}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> "Judgement":
        """Read what :meth:`to_json` wrote.

        Raises:
            TypeError: it is something else.
        """
        values = dict(document)
        names = values.pop("judged_on")
        if not isinstance(names, list):
            raise TypeError("judged_on is no list")
        return cls(judged_on=tuple(names), **values)  # type: ignore[arg-type]  # checked by its fields' use


class MeasuredTarget(Protocol):
    """One kind of forecast that measurements teach."""

    @property
    def name(self) -> str:
        """Name of the target, of its store and of its registered model."""
        ...

    @property
    def limits(self) -> tuple[str, ...]:
        """Where the forecast should not be trusted, for the model card."""
        ...

    def describe(self) -> Document:
        """Return what fixes the result beside data and seed: features and protocol of the bundle."""
        ...

    def collect(self, settings: MeasuredSettings, jobs: pd.DataFrame) -> Measured:
        """Read measurements, and what the job table teaches.

        Raises:
            EmptyInputError: there is not enough to learn from and to be judged on.
            InputError: a file cannot be used.
        """
        ...

    def judge(
        self, data: Measured, *, seed: int, progress: Progress
    ) -> tuple[Judgement, Mapping[str, Figure]]:
        """Score ours and the baselines on groups kept out, with figures by file name.

        Raises:
            EmptyInputError: there is too little to be judged on.
        """
        ...

    def write(
        self, directory: Path, data: Measured, *, seed: int, version: str, card: str,
        metadata: Mapping[str, object],
    ) -> None:  # fmt: skip
        """Train on everything and write the bundle."""
        ...

    def verify(self, directory: Path, expected_digest: str | None) -> str:
        """Read a whole bundle, let it forecast, and return its digest; raises BundleError."""
        ...


def measurement_files(settings: MeasuredSettings) -> list[Path]:
    """Return the files that the settings name, each once.

    Raises:
        ArgumentError: names or patterns match no file; all are listed.
    """
    found: dict[Path, None] = {}
    faults = []
    for pattern in settings.measurements:
        matches = sorted(glob(pattern))  # noqa: PTH207  (patterns may be absolute)
        if not matches:
            faults.append(f"measurements '{pattern}' match no file")
        found.update(dict.fromkeys(map(Path, matches)))
    if faults:
        raise ArgumentError("measurements cannot be read", faults=faults)
    return list(found)

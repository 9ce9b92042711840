"""This module holds what a backtest found, ready for tables, plots and JSON."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from predictor.evaluation.cluster_bootstrap import CoverageIntervals, coverage_intervals
from predictor.evaluation.scores import ScoredForecasts, Scores, score
from predictor.evaluation.slices import Slice

FloatArray = npt.NDArray[np.float64]
OURS = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceScores:
    """Scores of all models on one slice."""

    name: str
    rows: int
    by_outcome: bool
    models: dict[str, Scores]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreReport:
    """Scores of several models on the same test jobs.

    Attributes:
        target: what was forecast.
        test_from_s: UTC epoch seconds of the first test submission allowed.
        test_rows: jobs scored.
        unscored_rows: test jobs that never ran or ran for no time; they have no duration to score.
        models: scores by name.
        slices: scores by slice.
        seconds: wall time of the parts of the backtest.
        pit: shape (test_rows,), middle of the forecast probability at what happened, ours; what
            calibration plots are made of.
        settings: what the run was made with: seed, refit interval, data fingerprint.
        intervals: how far the coverage of ours can be off by chance, by slice; ``all`` is of all jobs.
    """

    target: str
    test_from_s: float
    test_rows: int
    unscored_rows: int
    models: dict[str, Scores]
    slices: tuple[SliceScores, ...]
    seconds: dict[str, float]
    pit: FloatArray
    settings: dict[str, object] = field(default_factory=dict)
    intervals: dict[str, CoverageIntervals] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the report as plain JSON values."""
        return {
            "target": self.target,
            "test_rows": self.test_rows,
            "unscored_rows": self.unscored_rows,
            "test_from": datetime.fromtimestamp(self.test_from_s, tz=UTC).isoformat(),
            "models": {name: scores.to_json() for name, scores in self.models.items()},
            "slices": {part.name: _slice_json(part) for part in self.slices},
            "seconds": dict(self.seconds),
            "settings": dict(self.settings),
            "coverage_intervals": {name: found.to_json() for name, found in self.intervals.items()},
        }


def _slice_json(part: SliceScores) -> dict[str, object]:
    models = {name: scores.to_json(outcome_slice=part.by_outcome) for name, scores in part.models.items()}
    head = dict(models[OURS]) if OURS in models else {"rows": part.rows}
    return {**head, "conditioned_on": "outcome" if part.by_outcome else "submission", "models": models}


def build_report(
    forecasts: dict[str, ScoredForecasts],
    elapsed_s: FloatArray,
    slices: list[Slice],
    *,
    test_from_s: float,
    unscored_rows: int,
    seconds: dict[str, float],
    settings: dict[str, object],
    identity: npt.NDArray[np.object_] | None = None,
) -> ScoreReport:
    """Score every model on all jobs and on every slice.

    Args:
        forecasts: by model name, each of n jobs.
        elapsed_s: shape (n,), seconds they ran.
        slices: of the same n jobs.
        test_from_s, unscored_rows, seconds, settings: see ScoreReport.
        identity: shape (n,), submitters, for the intervals of coverage; None = work out none.
    """
    first = forecasts[OURS] if OURS in forecasts else next(iter(forecasts.values()))
    occupied = np.minimum(elapsed_s, first.distribution.limit_s)
    return ScoreReport(
        target="duration",
        test_from_s=test_from_s,
        test_rows=len(elapsed_s),
        unscored_rows=unscored_rows,
        models={name: score(model, elapsed_s) for name, model in forecasts.items()},
        slices=tuple(
            SliceScores(
                name=part.name,
                rows=int(part.rows.sum()),
                by_outcome=part.by_outcome,
                models={
                    name: score(_rows(model, part.rows), elapsed_s[part.rows])
                    for name, model in forecasts.items()
                },
            )
            for part in slices
        ),
        seconds=seconds,
        pit=first.distribution.cdf(np.nextafter(occupied, 0.0)),
        settings=settings,
        intervals={} if identity is None else _intervals(first, elapsed_s, slices, identity),
    )


def _intervals(
    forecasts: ScoredForecasts, elapsed_s: FloatArray, slices: list[Slice], identity: npt.NDArray[np.object_]
) -> dict[str, CoverageIntervals]:
    parts = [("all", np.ones(len(elapsed_s), dtype=bool))]
    parts += [(part.name, part.rows) for part in slices if not part.by_outcome]
    return {
        name: coverage_intervals(_rows(forecasts, rows), elapsed_s[rows], identity[rows])
        for name, rows in parts
    }


def _rows(model: ScoredForecasts, rows: npt.NDArray[np.bool_]) -> ScoredForecasts:
    return ScoredForecasts(point_s=model.point_s[rows], distribution=model.distribution.take(rows))

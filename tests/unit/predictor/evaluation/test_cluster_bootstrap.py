"""Intervals of coverage by redrawing submitters: known truths."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.evaluation.cluster_bootstrap import CoverageIntervals, coverage_intervals
from predictor.evaluation.scores import ScoredForecasts

FloatArray = npt.NDArray[np.float64]


def intervals(covered: npt.NDArray[np.bool_], who: Sequence[str | None]) -> CoverageIntervals:
    """Return intervals where q90 and q95 are 100 s for all and the jobs that are covered took 50 s."""
    rows = len(covered)
    quantiles = np.full((rows, len(LEVELS)), 100.0)
    identity = np.empty(rows, dtype=object)
    identity[:] = who
    distribution = DurationForecasts.build(quantiles, np.full(rows, np.inf))
    forecasts = ScoredForecasts(point_s=quantiles[:, 0], distribution=distribution)
    return coverage_intervals(forecasts, np.where(covered, 50.0, 200.0), identity)


def test_independent_jobs_have_the_interval_of_the_binomial() -> None:
    covered = np.arange(1000) % 10 > 0
    low, high = intervals(covered, [f"user {row}" for row in range(1000)]).intervals["q90"]
    assert low == pytest.approx(0.9 - 1.96 * np.sqrt(0.09 / 1000), abs=0.003)
    assert high == pytest.approx(0.9 + 1.96 * np.sqrt(0.09 / 1000), abs=0.003)


def test_jobs_of_one_submitter_that_miss_together_widen_the_interval() -> None:
    """A tenth of fifty submitters missed with all their jobs: as wide as with fifty jobs, not a thousand."""
    covered = np.repeat(np.arange(50) % 10 > 0, 20)
    found = intervals(covered, [f"user {row // 20}" for row in range(1000)])
    low, high = found.intervals["q90"]
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.09 / 50), abs=0.03)
    assert found.submitters == 50
    assert found.equal_submitters == pytest.approx(50.0)


def test_one_busy_submitter_is_worth_little_more_than_one() -> None:
    covered = np.ones(1010, dtype=bool)
    found = intervals(covered, ["busy"] * 1000 + [f"user {row}" for row in range(10)])
    assert found.equal_submitters == pytest.approx(1.02, abs=0.01)
    assert found.intervals["q95"] == (1.0, 1.0)


def test_jobs_of_unknown_submitters_count_as_independent() -> None:
    found = intervals(np.ones(30, dtype=bool), [None] * 30)
    assert found.submitters == 30

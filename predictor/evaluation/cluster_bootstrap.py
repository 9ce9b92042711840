"""This module tells how far coverage can be off by chance where few submitters send most of the jobs.

The jobs of one submitter share one cause, so that thousands of jobs may be worth a dozen independent ones.
Whole submitters are redrawn with replacement (cluster bootstrap; Field and Welsh 2007). With fewer than some
ten equally busy submitters the interval is too narrow, as what never happened to a submitter cannot be drawn.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.evaluation.scores import COVERAGE_LEVELS, ScoredForecasts, level_name

FloatArray = npt.NDArray[np.float64]
DRAWS = 4000
INTERVAL = (0.025, 0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageIntervals:
    """What redrawing submitters gives for the coverage of one set of jobs.

    Attributes:
        submitters: how many submitted them.
        equal_submitters: as many equally busy ones would tell as much.
        intervals: 95 % interval of the coverage, by level.
    """

    submitters: int
    equal_submitters: float
    intervals: dict[str, tuple[float, float]]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "submitters": self.submitters,
            "equal_submitters": self.equal_submitters,
            **{name: list(interval) for name, interval in self.intervals.items()},
        }


def coverage_intervals(
    forecasts: ScoredForecasts, elapsed_s: FloatArray, identity: npt.NDArray[np.object_], seed: int = 0
) -> CoverageIntervals:
    """Redraw the submitters of n jobs; all levels see the same draws.

    Args:
        forecasts: of the n jobs.
        elapsed_s: shape (n,), seconds they ran.
        identity: shape (n,), submitters; jobs of unknown ones count as independent.
        seed: of the draws.
    """
    distribution = forecasts.distribution
    occupied = np.minimum(np.maximum(elapsed_s, 1.0), np.maximum(distribution.limit_s, 1.0))
    codes, names = pd.factorize(identity)
    alone = codes < 0
    codes[alone] = len(names) + np.arange(int(alone.sum()))
    sizes = np.bincount(codes).astype(np.float64)
    draws = np.random.default_rng(seed).multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), DRAWS)
    jobs = np.maximum(draws @ sizes, 1.0)
    intervals = {}
    for level in COVERAGE_LEVELS:
        covered = occupied <= distribution.quantile_s(level) * (1 + 1e-9)
        low, high = np.quantile(draws @ np.bincount(codes, weights=covered) / jobs, INTERVAL)
        intervals[level_name(level)] = (float(low), float(high))
    return CoverageIntervals(
        submitters=len(sizes),
        equal_submitters=float(sizes.sum() ** 2 / (sizes**2).sum()),
        intervals=intervals,
    )

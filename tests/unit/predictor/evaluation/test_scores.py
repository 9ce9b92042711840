"""Scores against closed forms and against counting by hand."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from predictor.contracts.forecast import LEVELS, DurationForecasts, level_weights
from predictor.evaluation.scores import COVERAGE_LEVELS, PINBALL_LEVELS, ScoredForecasts, level_name, score

FloatArray = npt.NDArray[np.float64]
NORMAL = stats.norm


def a_forecast(
    quantiles_s: FloatArray, *, limit_s: float = np.inf, point_s: float | None = None
) -> ScoredForecasts:
    """Return forecasts at LEVELS; the point is the median unless one is given."""
    distribution = DurationForecasts.build(quantiles_s, np.full(len(quantiles_s), limit_s))
    point = distribution.quantile_s(0.5) if point_s is None else np.full(len(quantiles_s), point_s)
    return ScoredForecasts(point_s=point, distribution=distribution)


def a_lognormal(location: float, scale: float, rows: int, *, limit_s: float = np.inf) -> ScoredForecasts:
    quantiles_s = np.exp(location + scale * NORMAL.ppf(np.array(LEVELS)))
    return a_forecast(np.repeat(quantiles_s[None], rows, axis=0), limit_s=limit_s)


def one_value(value_s: float, rows: int = 1, *, limit_s: float = np.inf) -> ScoredForecasts:
    """Return forecasts that name one duration with certainty."""
    return a_forecast(np.full((rows, len(LEVELS)), value_s), limit_s=limit_s)


def crps_of_normal(z: FloatArray) -> FloatArray:
    """Return the CRPS of a standard normal (Gneiting and Raftery 2007)."""
    return np.asarray(z * (2.0 * NORMAL.cdf(z) - 1.0) + 2.0 * NORMAL.pdf(z) - 1.0 / np.sqrt(np.pi))


@pytest.mark.parametrize("z", [-2.0, -0.7, 0.0, 0.4, 1.5])
def test_crps_of_a_normal_in_log_space_is_its_closed_form(z: float) -> None:
    """The quadrature over 23 levels is within 3 % of the integral, and of 0.006 log seconds."""
    location, scale = 8.0, 0.5
    found = score(a_lognormal(location, scale, 1), np.exp([location + scale * z])).crps_log
    want = scale * float(crps_of_normal(np.array([z]))[0])
    assert found == pytest.approx(want, rel=0.03, abs=0.006)


def test_crps_is_lowest_for_the_distribution_that_durations_come_from() -> None:
    """CRPS is a proper score: neither a sharper, nor a wider, nor a shifted forecast wins."""
    durations_s = np.exp(8.0 + 0.5 * np.random.default_rng(0).standard_normal(20_000))
    true = score(a_lognormal(8.0, 0.5, len(durations_s)), durations_s).crps_log
    for location, scale in ((8.0, 0.3), (8.0, 0.8), (7.8, 0.5), (8.2, 0.5)):
        assert true < score(a_lognormal(location, scale, len(durations_s)), durations_s).crps_log
    assert true == pytest.approx(0.5 / np.sqrt(np.pi), rel=0.02)


def test_crps_of_a_certain_forecast_is_the_absolute_log_error() -> None:
    elapsed_s = np.array([30.0, 100.0, 900.0])
    found = score(one_value(100.0, 3), elapsed_s)
    assert found.crps_log == pytest.approx(np.abs(np.log(elapsed_s / 100.0)).mean(), rel=1e-9)


def test_level_weights_give_every_probability_to_its_nearest_level() -> None:
    weights = level_weights(np.array(LEVELS))
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()


def test_pinball_is_what_one_computes_by_hand() -> None:
    """A forecast of 100 s: 200 s costs level x ln 2, 50 s costs (1 - level) x ln 2."""
    found = score(one_value(100.0, 2), np.array([200.0, 50.0])).pinball
    assert set(found) == {level_name(level) for level in PINBALL_LEVELS}
    for level in PINBALL_LEVELS:
        want = (level * np.log(2.0) + (1.0 - level) * np.log(2.0)) / 2.0
        assert found[level_name(level)] == pytest.approx(want), level
    late = score(one_value(100.0), np.array([200.0])).pinball
    assert late["q90"] == pytest.approx(0.9 * np.log(2.0))
    early = score(one_value(100.0), np.array([50.0])).pinball
    assert early["q90"] == pytest.approx(0.1 * np.log(2.0))


def test_coverage_is_a_count() -> None:
    """Seconds 1 to 23 are the quantiles; a duration on the quantile is covered, one above is not."""
    quantiles_s = np.repeat(np.arange(1.0, len(LEVELS) + 1.0)[None], 4, axis=0)
    q90_s = float(LEVELS.index(0.9) + 1)
    found = score(a_forecast(quantiles_s), np.array([2.0, q90_s - 0.5, q90_s, q90_s + 0.01])).coverage
    assert found == {"q50": 0.25, "q90": 0.75, "q95": 1.0}
    assert set(found) == {level_name(level) for level in COVERAGE_LEVELS}


def test_coverage_of_the_true_distribution_is_its_level() -> None:
    durations_s = np.exp(6.0 + np.random.default_rng(1).standard_normal(20_000))
    found = score(a_lognormal(6.0, 1.0, len(durations_s)), durations_s).coverage
    for level in COVERAGE_LEVELS:
        error = np.sqrt(level * (1 - level) / len(durations_s))
        assert abs(found[level_name(level)] - level) < 4 * error, level


def test_a_job_killed_at_its_limit_is_covered_by_a_quantile_at_the_limit() -> None:
    """Slurm takes some seconds to kill: the seconds past the limit are no failure of the forecast."""
    found = score(one_value(5000.0, limit_s=3600.0), np.array([3605.0]))
    assert found.coverage == {"q50": 1.0, "q90": 1.0, "q95": 1.0}
    assert found.crps_log == pytest.approx(0.0, abs=1e-12)
    assert found.under_rate == 0.0
    assert set(found.pinball.values()) == {0.0}


def test_a_job_killed_at_its_limit_is_missed_by_a_quantile_below_the_limit() -> None:
    found = score(one_value(3000.0, limit_s=3600.0), np.array([3605.0]))
    assert found.coverage == {"q50": 0.0, "q90": 0.0, "q95": 0.0}
    assert found.crps_log == pytest.approx(np.log(3600.0 / 3000.0))
    assert found.under_rate == 1.0


def test_ratios_and_errors_of_the_point_are_against_the_seconds_really_run() -> None:
    forecasts = a_forecast(np.full((4, len(LEVELS)), 100.0), point_s=100.0)
    found = score(forecasts, np.array([50.0, 99.0, 100.0, 400.0]))
    ratios = np.abs(np.log(100.0 / np.array([50.0, 99.0, 100.0, 400.0])))
    assert found.rows == 4
    assert found.mean_abs_log_ratio == pytest.approx(ratios.mean())
    assert found.median_abs_log_ratio == pytest.approx(np.median(ratios))
    assert found.mae_s == pytest.approx((50.0 + 1.0 + 0.0 + 300.0) / 4)
    assert found.within_2x == 0.5  # a factor of exactly two is not within
    assert found.under_rate == 0.25


def test_a_run_of_less_than_a_second_counts_as_a_second() -> None:
    found = score(one_value(1.0), np.array([0.2]))
    assert found.mean_abs_log_ratio == 0.0
    assert found.mae_s == 0.0


@pytest.mark.parametrize(
    ("level", "want"), [(0.05, "q05"), (0.1, "q10"), (0.25, "q25"), (0.5, "q50"), (0.95, "q95")]
)
def test_quantiles_are_named_by_two_digits(level: float, want: str) -> None:
    assert level_name(level) == want


def test_coverage_inside_a_slice_cut_by_outcome_is_named_so() -> None:
    found = score(one_value(100.0), np.array([50.0]))
    assert "coverage" in found.to_json()
    given = found.to_json(outcome_slice=True)
    assert "coverage" not in given
    assert given["coverage_given_outcome"] == {"q50": 1.0, "q90": 1.0, "q95": 1.0}

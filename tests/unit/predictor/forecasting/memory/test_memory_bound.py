"""This module holds bounds to known truth: coverage of new groups, few groups, and feedback."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.contracts.memory import Stratum
from predictor.errors import ArgumentError
from predictor.forecasting.memory.bound import SLACK_LOG, AdaptiveRisk, GroupScores, MemoryBound
from tests.unit.predictor.forecasting.memory.simulated import errors_in_groups


@pytest.mark.parametrize("groups", [22, 38, 59, 200])
@pytest.mark.parametrize("risk", [0.05, 0.2])
def test_rows_of_new_groups_exceed_the_quantile_as_often_as_chosen(groups: int, risk: float) -> None:
    exceeded = []
    for seed in range(200):
        scores, names = errors_in_groups(groups, 4, seed)
        fresh, _ = errors_in_groups(20, 4, 10_000 + seed)
        exceeded.append(np.mean(fresh > GroupScores.of(scores, names).quantile(risk)))
    # 4,000 fresh groups: three standard errors of a share are below 0.012 (risk 0.05) and 0.02 (0.2)
    rate = float(np.mean(exceeded))
    assert rate < risk + 0.015
    assert rate > risk - 0.02


@pytest.mark.parametrize("groups", [24, 30, 38, 80])
@pytest.mark.parametrize("common", [0.6, 1.0])
def test_the_risk_holds_where_a_few_groups_have_most_of_the_rows_and_errors_have_heavy_tails(
    groups: int, common: float
) -> None:
    random = np.random.default_rng(groups)
    exceeded = []
    for _ in range(600):
        sizes = np.minimum(random.geometric(0.2, groups + 60), 40)
        names = np.repeat(np.arange(groups + 60), sizes)
        errors = common * random.standard_t(3, groups + 60)[names] + random.standard_t(3, len(names))
        known = names < groups
        bound = GroupScores.of(errors[known], [str(name) for name in names[known]]).quantile(0.05)
        exceeded.append(np.mean(errors[~known] > bound))
    # a mean of draws, and lines in the risk, give 0.034 to 0.037 with 24 and 30 groups
    assert 0.039 < float(np.mean(exceeded)) < 0.055


def test_with_too_few_groups_the_bound_is_above_every_score_and_the_measured_slack() -> None:
    scores = GroupScores.of(np.array([0.1, 0.2, 0.05]), ["a", "a", "b"])
    assert scores.is_few(0.05)
    many = GroupScores.of(np.arange(19.0), [str(at) for at in range(19)])
    assert not many.is_few(0.05)  # the least that conformal prediction can tell 5 % from
    bound = MemoryBound(strata={Stratum.NEW: scores})
    assert bound.upper_log(Stratum.NEW, log_mib=3.0, unit=1.0, risk=0.05) == 3.0 + SLACK_LOG
    assert bound.upper_log(Stratum.NEW, log_mib=3.0, unit=10.0, risk=0.05) == 5.0


def test_a_stratum_without_groups_borrows_from_a_stranger_one() -> None:
    scores = GroupScores.of(np.linspace(0, 1, 100), [str(at) for at in range(100)])
    bound = MemoryBound(strata={Stratum.NEW: scores})
    assert bound.scores(Stratum.SEEN_SIGNATURE) is scores
    assert MemoryBound(strata={}).scores(Stratum.NEW).support == 0


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=60), st.floats(0.01, 0.5), st.floats(0.01, 3.0))
def test_the_bound_is_never_below_the_forecast_and_never_falls_with_a_smaller_risk(
    values: list[float], risk: float, unit: float
) -> None:
    scores = GroupScores.of(np.array(values), [str(at) for at in range(len(values))])
    bound = MemoryBound(strata={Stratum.NEW: scores})
    upper = bound.upper_log(Stratum.NEW, log_mib=1.0, unit=unit, risk=risk)
    lower_risk = bound.upper_log(Stratum.NEW, log_mib=1.0, unit=unit, risk=risk / 2)
    assert 1.0 <= upper <= lower_risk
    chances = scores.exceedance(np.linspace(-4, 4, 9))
    assert np.all(np.diff(chances) <= 1e-12)
    assert np.all((chances > 0) & (chances < 1))


def test_an_out_of_memory_lowers_the_risk_that_is_asked_for_and_runs_that_hold_raise_it_slowly() -> None:
    risk = AdaptiveRisk(target=0.05, gamma=0.02)
    risk.update(exceeded=True)
    assert risk.asked == pytest.approx(0.05 - 0.02 * 0.95)
    after = risk.asked
    for _ in range(19):
        risk.update(exceeded=False)
    assert risk.asked == pytest.approx(after + 19 * 0.02 * 0.05)


def test_feedback_holds_the_risk_under_a_shift_that_a_fixed_quantile_does_not_survive() -> None:
    random = np.random.default_rng(0)
    scores = GroupScores.of(random.normal(size=500), [str(at) for at in range(500)])
    fresh = random.normal(0.8, 1.0, size=6000)  # need has grown since training
    risk, exceeded = AdaptiveRisk(target=0.05, gamma=0.01), []
    for score in fresh:
        exceeded.append(score > scores.quantile(risk.asked))
        risk.update(exceeded=exceeded[-1])
    assert np.mean(fresh > scores.quantile(0.05)) > 0.15
    assert np.mean(exceeded[1000:]) == pytest.approx(0.05, abs=0.01)


def test_a_risk_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        AdaptiveRisk(target=1.5)

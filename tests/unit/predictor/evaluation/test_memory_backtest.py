"""This module checks scores by closed forms, and what a backtest of memory may look at."""

import json

import numpy as np
import pytest

from pipelines.vram_backtest import memory_document
from predictor.contracts.memory import PeakKind
from predictor.data.measurements.base import MeasuredRuns
from predictor.evaluation.memory_backtest import backtest_memory
from predictor.evaluation.memory_scores import (
    area_under_curve,
    caught_at_false_alarm,
    score_points,
    score_policy,
)
from tests.unit.predictor.forecasting.memory.simulated import simulate


def runs_of(models: int, seed: int) -> MeasuredRuns:
    """Return simulated runs, every ninth of them out of memory with a poisoned peak."""
    runs = simulate(models, seed, batches=(8, 32, 128))
    poisoned = np.arange(len(runs)) % 9 == 8
    return MeasuredRuns(
        name="simulated", kind=PeakKind.USED, requests=tuple(one.request for one in runs),
        peak_mib=np.where(poisoned, 1.0, [one.peak_mib for one in runs]), is_oom=poisoned,
        groups=tuple(str(one.request.signature) for one in runs),
        families=(), capacity_mib=40_960.0, dry_run_mib=np.empty(0), quarantined={},
    )  # fmt: skip


def test_point_scores_are_those_worked_out_by_hand() -> None:
    scores = score_points(np.array([110.0, 80.0, 100.0]), np.array([100.0, 100.0, 100.0]))
    assert (scores.mape, scores.median_ape) == pytest.approx((0.1, 0.1))
    assert scores.under_rate == pytest.approx(1 / 3)


def test_an_out_of_memory_costs_a_quarter_of_the_run_and_the_whole_card() -> None:
    scores = score_policy(np.array([50.0, 200.0]), np.array([100.0, 100.0]), 400.0)
    # used 200; over 300 (retry) + 100; under 0.25 x 50
    assert scores.maq == pytest.approx(200 / (200 + 400 + 12.5))
    assert scores.oom_rate == 0.5


def test_the_area_is_one_for_a_perfect_order_and_a_half_for_none() -> None:
    positive = np.array([True, True, False, False])
    assert area_under_curve(np.array([4.0, 3.0, 2.0, 1.0]), positive) == 1.0
    assert area_under_curve(np.zeros(4), positive) == 0.5
    assert caught_at_false_alarm(np.array([4.0, 1.5, 2.0, 1.0]), positive, 0.04) == 0.5


def test_no_group_is_on_both_sides_and_poisoned_peaks_are_not_scored() -> None:
    report = backtest_memory(runs_of(60, 0), seed=0)
    split = report.splits["unseen_model"]
    assert set(report.splits) == {"unseen_model"}
    assert (split.groups, split.rows) == (60, 160)
    assert split.models["ours"].mape < split.models["raw_lightgbm"].mape
    assert split.models["ours"].mape < 0.2  # errors common to a model were drawn with 0.1
    document = json.loads(json.dumps(memory_document(report, 0)))
    ours = document["splits"]["unseen_model"]
    assert {"mape", "median_ape", "under_rate"} <= set(ours["models"]["analytical"])
    assert {"target", "coverage", "mean_over_mib"} <= set(ours["bound"])
    assert {"oom_rate", "maq"} <= set(ours["policy"])

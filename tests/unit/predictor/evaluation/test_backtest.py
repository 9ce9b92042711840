"""The rolling-origin backtest and the window: what they report, and what they never look at."""

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from typer.testing import CliRunner

from pipelines.commands.backtest import app
from predictor.contracts.forecast import DurationForecasts
from predictor.data.schema import seconds
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.data.table import ended_at_s
from predictor.errors import ArgumentError
from predictor.evaluation import backtest, report, scores, slices, window
from predictor.evaluation.backtest import backtest_duration, default_test_from
from predictor.evaluation.report import OURS, ScoreReport
from predictor.evaluation.window import evaluate_baselines, evaluate_model
from predictor.features.assemble import FeatureTable
from predictor.features.request import request_columns
from predictor.forecasting.baselines import BASELINES, Baseline, BaselineForecasts, global_median
from predictor.forecasting.duration import DurationSettings, Experts, OnlineState
from predictor.forecasting.online_state import export_online
from predictor.forecasting.prequential import JobOutcomes, replay
from predictor.forecasting.quantile_boosting import BoostingSettings
from predictor.forecasting.survival_forest import ForestSettings, SurvivalForest
from predictor.forecasting.training import DurationModel, train_duration

FloatArray = npt.NDArray[np.float64]
DAY_S = 86400.0
SPEC = WorkloadSpec(jobs=1200, days=21.0, users=10, requeue=False, random_state=2)
CUT_S = SPEC.start_ts + 16.0 * DAY_S
SETTINGS = DurationSettings(
    calibration_days=4.0, forest=ForestSettings(trees=15), boosting=BoostingSettings(rounds=15)
)
MODEL_KEYS = {
    "rows", "median_abs_log_ratio", "mean_abs_log_ratio", "mae_s", "within_2x", "under_rate", "crps_log",
    "coverage", "pinball",
}  # fmt: skip


@pytest.fixture(scope="module")
def jobs() -> pd.DataFrame:
    return generate(SPEC).frame


@pytest.fixture(scope="module")
def found(jobs: pd.DataFrame) -> ScoreReport:
    return backtest_duration(jobs, test_from_s=CUT_S, settings=SETTINGS, labels={"seed": 0})


@pytest.fixture(scope="module")
def model(jobs: pd.DataFrame) -> DurationModel:
    return train_duration(jobs, cut_s=CUT_S, settings=SETTINGS)


def spied(frame: pd.DataFrame) -> tuple[FloatArray, ScoreReport]:
    """Backtest one stretch beside a baseline that remembers the log durations it was given to train on."""
    seen: list[FloatArray] = []

    def forecast(train: FeatureTable, train_log: FloatArray, test: FeatureTable) -> BaselineForecasts:
        seen.append(train_log.copy())
        return global_median(train, train_log, test)

    spy = Baseline(name="spy", learned=False, forecast=forecast, cite="")
    result = backtest_duration(
        frame, test_from_s=CUT_S, refit_s=30 * DAY_S, settings=SETTINGS, baselines=(spy,)
    )
    return seen[0], result


def test_the_report_is_the_json_that_is_promised(found: ScoreReport) -> None:
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert {"target", "test_rows", "test_from", "models", "slices", "seconds"} <= set(document)
    assert document["target"] == "duration"
    assert datetime.fromisoformat(document["test_from"]).timestamp() == CUT_S
    assert set(document["models"]) == {"ours", *(baseline.name for baseline in BASELINES)}
    for scored in document["models"].values():
        assert set(scored) == MODEL_KEYS
        assert set(scored["coverage"]) == {"q50", "q90", "q95"}
        assert {"q50", "q90", "q95"} <= set(scored["pinball"])
        assert scored["rows"] == document["test_rows"]
    assert all(isinstance(value, float) and value >= 0.0 for value in document["seconds"].values())
    assert {"features", "fit ours", "predict ours"} <= set(document["seconds"])
    assert document["settings"]["seed"] == 0


def test_every_slice_shows_ours_and_all_models_beside_it(found: ScoreReport) -> None:
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    names = set(document["slices"])
    assert {"gpu_jobs", "cpu_jobs"} <= names
    assert any(name.startswith("user_") for name in names)
    assert any(name.startswith("forecast_duration_decile_") for name in names)
    assert any(name.startswith("state_") for name in names)
    for name, part in document["slices"].items():
        outcome = name.startswith("state_")
        assert part["conditioned_on"] == ("outcome" if outcome else "submission")
        assert ("coverage_given_outcome" if outcome else "coverage") in part
        assert set(part["models"]) == set(document["models"])
        assert part["crps_log"] == part["models"][OURS]["crps_log"]


def test_slices_of_a_kind_add_up_to_all_test_rows(found: ScoreReport) -> None:
    for prefix in ("user_", "state_", "forecast_duration_decile_"):
        assert sum(part.rows for part in found.slices if part.name.startswith(prefix)) == found.test_rows


def test_all_that_ran_and_was_submitted_from_the_date_on_is_scored(
    found: ScoreReport, jobs: pd.DataFrame
) -> None:
    late = jobs[request_columns(jobs).submitted_s >= CUT_S]
    ran = late["ended_at"].notna() & late["started_at"].notna() & (late["elapsed_s"] > 0)
    assert found.test_rows + found.unscored_rows == len(late)
    assert found.test_rows >= int(ran.sum())
    assert found.pit.shape == (found.test_rows,)
    assert ((found.pit >= 0) & (found.pit <= 1)).all()


def test_the_same_seed_gives_the_same_scores(jobs: pd.DataFrame) -> None:
    first, again = (spied(jobs)[1].to_json() for _ in range(2))
    for document in (first, again):
        document.pop("seconds")
    assert first == again


def cut_off(jobs: pd.DataFrame, moment_s: float) -> pd.DataFrame:
    """Return the log with every end past the moment moved a year on: as long unknown as can be."""
    ended_s = seconds(jobs["ended_at"])
    with np.errstate(invalid="ignore"):
        later = pd.Series(ended_s > moment_s)
    more_s = 365.0 * DAY_S
    return jobs.assign(
        elapsed_s=jobs["elapsed_s"].mask(later, jobs["elapsed_s"] + more_s),
        ended_at=jobs["ended_at"].mask(later, jobs["ended_at"] + pd.Timedelta(seconds=more_s)),
        state=jobs["state"].mask(later & (jobs["state"] == "TIMEOUT"), "COMPLETED"),
    )


def first_refit(
    frame: pd.DataFrame, until_s: float, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the experts' and the calibrated quantiles of jobs submitted from the cut to a moment."""
    kept: list[tuple[FloatArray, FloatArray]] = []

    def spy(
        experts: Experts, online: OnlineState, features: FeatureTable, outcomes: JobOutcomes, **more: Any
    ) -> DurationForecasts:
        early = np.flatnonzero(outcomes.submitted_s < until_s)
        chosen = features.take(early)
        said = experts.predict(chosen)
        raw = online.consider(chosen, said, outcomes.submitted_s[early])
        kept.append((said, online.forecast(raw).quantiles_s))
        return replay(experts, online, features, outcomes, **more)

    monkeypatch.setattr("predictor.evaluation.backtest.replay", spy)
    backtest_duration(frame, test_from_s=CUT_S, refit_s=30 * DAY_S, settings=SETTINGS, baselines=())
    return kept


def test_durations_beyond_the_cut_change_no_forecast_of_the_first_refit(
    jobs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that run at the cut get other lengths and other ends; what is forecast at the cut stays the same.

    Compared are jobs of the hours in which no end past the cut has yet become known.
    """
    ended_s = seconds(jobs["ended_at"])
    first_end_s = float(ended_s[ended_s >= CUT_S].min())
    submitted_s = request_columns(jobs).submitted_s
    running = (seconds(jobs["started_at"]) < CUT_S) & (ended_s >= CUT_S)
    assert running.sum() > 5
    horizon_s = max(first_end_s, float(submitted_s[submitted_s >= CUT_S].min()) + 1.0)

    plain = first_refit(jobs, horizon_s, monkeypatch)
    monkeypatch.undo()
    altered = first_refit(cut_off(jobs, CUT_S), horizon_s, monkeypatch)

    assert len(plain) == len(altered) == 1
    assert len(plain[0][0]) >= 1
    for ours, theirs in zip(plain[0], altered[0], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_training_at_a_cut_never_sees_what_ends_after_it(jobs: pd.DataFrame) -> None:
    """The trees themselves are equal, digit by digit, whatever happens to running jobs later."""
    plain = train_duration(jobs, cut_s=CUT_S, settings=SETTINGS)
    altered = train_duration(cut_off(jobs, CUT_S), cut_s=CUT_S, settings=SETTINGS)
    assert plain.texts == altered.texts
    assert export_online(plain.online) == export_online(altered.online)
    np.testing.assert_array_equal(plain.experts.forest.ended, altered.experts.forest.ended)
    np.testing.assert_array_equal(plain.experts.forest.censored, altered.experts.forest.censored)


def test_a_row_that_ends_after_the_cut_is_never_handed_out_as_observed(
    jobs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the forest is given as observed had ended by then, and no age reaches past the cut."""
    given: list[tuple[FloatArray, npt.NDArray[np.bool_]]] = []
    real = SurvivalForest.fit

    def spy(
        features: npt.NDArray[np.float32],
        log_duration: FloatArray,
        observed: npt.NDArray[np.bool_],
        *more: Any,
    ) -> object:
        given.append((log_duration.copy(), observed.copy()))
        return real(features, log_duration, observed, *more)

    monkeypatch.setattr(SurvivalForest, "fit", spy)
    start_s, ended_s = seconds(jobs["started_at"]), seconds(jobs["ended_at"])
    running = (start_s < CUT_S) & ~(ended_s < CUT_S)
    every_row = replace(SETTINGS, calibration_days=0.0, keep_per_burst=10_000)
    train_duration(jobs, cut_s=CUT_S, settings=every_row)
    log_seen, observed = given[-1]
    censored_ages = np.exp(log_seen[~observed])
    for age_s in CUT_S - start_s[running]:
        assert np.isclose(censored_ages, max(age_s, 1.0)).any()
    assert observed.sum() <= int((ended_s < CUT_S).sum())


def test_baselines_are_trained_on_jobs_that_had_ended_by_the_cut(jobs: pd.DataFrame) -> None:
    train_log, _ = spied(jobs)
    elapsed_s = jobs["elapsed_s"].to_numpy(dtype=np.float64)
    ended = (seconds(jobs["ended_at"]) < CUT_S) & (elapsed_s > 0)
    np.testing.assert_allclose(np.sort(train_log), np.sort(np.log(np.maximum(elapsed_s[ended], 1.0))))


def test_refits_come_as_often_as_asked_for(jobs: pd.DataFrame) -> None:
    steps: list[str] = []
    backtest_duration(
        jobs, test_from_s=CUT_S, refit_s=2 * DAY_S, settings=SETTINGS, baselines=(),
        progress=lambda step, _share: steps.append(step),
    )  # fmt: skip
    assert [step for step in steps if step.startswith("refit")] == [
        "refit 1 of 3", "refit 2 of 3", "refit 3 of 3",
    ]  # fmt: skip
    assert steps[0] == "features"
    assert steps[-1] == "done"


def test_the_default_test_is_the_last_fifth_of_the_submissions(jobs: pd.DataFrame) -> None:
    submitted_s = request_columns(jobs).submitted_s
    share = (submitted_s >= default_test_from(jobs)).mean()
    assert share == pytest.approx(0.2, abs=0.02)


RANDOM_SPLIT = ("split", "shuffle", "fold", "holdout", "fraction", "random_split", "k_fold", "cross")


@pytest.mark.parametrize(
    "function", [backtest_duration, evaluate_model, evaluate_baselines, train_duration, default_test_from]
)
def test_no_function_offers_a_random_split(function: Callable[..., object]) -> None:
    """Jobs of one burst on both sides of a split would tell the test what the training knows."""
    for name in inspect.signature(function).parameters:
        assert not any(word in name for word in RANDOM_SPLIT), name


def test_no_module_of_the_evaluation_splits_at_random() -> None:
    for module in (backtest, report, scores, slices, window):
        source = inspect.getsource(module)
        for word in ("train_test_split", "KFold", "shuffle", "permutation", "default_rng", "np.random"):
            assert word not in source, (module.__name__, word)


def test_the_command_line_offers_no_random_split() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert shown.exit_code == 0
    assert "--test-from" in shown.output
    for word in RANDOM_SPLIT:
        assert f"--{word.replace('_', '-')}" not in shown.output


def test_a_log_with_too_few_finished_jobs_is_refused(jobs: pd.DataFrame) -> None:
    early_s = float(np.sort(request_columns(jobs).submitted_s)[20])
    with pytest.raises(ArgumentError, match="training needs 50"):
        backtest_duration(jobs, test_from_s=early_s, settings=SETTINGS, baselines=())


def test_a_test_date_after_all_jobs_is_refused(jobs: pd.DataFrame) -> None:
    with pytest.raises(ArgumentError, match="earlier --test-from"):
        backtest_duration(jobs, test_from_s=SPEC.end_ts + DAY_S, settings=SETTINGS, baselines=())


def test_a_refusal_says_which_test_dates_there_are(jobs: pd.DataFrame) -> None:
    ends_s, submitted_s = np.sort(ended_at_s(jobs)), request_columns(jobs).submitted_s
    with np.errstate(invalid="ignore"):
        last_s = submitted_s[jobs["elapsed_s"].to_numpy(dtype=float) > 0].max()
    told = [f"{pd.Timestamp(at_s, unit='s'):%Y-%m-%dT%H:%M:%SZ}" for at_s in (ends_s[49], last_s)]
    for test_from_s in (submitted_s.min(), submitted_s.max() + 1.0):
        with pytest.raises(ArgumentError, match=f"after {told[0]} and not after {told[1]}"):
            backtest_duration(jobs, test_from_s=test_from_s, settings=SETTINGS, baselines=())


@pytest.mark.parametrize("rows", [1, 20])
def test_a_log_too_short_for_any_test_date_needs_more_logs(jobs: pd.DataFrame, rows: int) -> None:
    few = jobs.head(rows)
    with pytest.raises(ArgumentError, match="ingest more logs"):
        backtest_duration(few, test_from_s=default_test_from(few), settings=SETTINGS, baselines=())


def test_training_with_too_few_jobs_is_refused(jobs: pd.DataFrame) -> None:
    with pytest.raises(ArgumentError, match="training needs 50"):
        train_duration(jobs.head(30), cut_s=SPEC.end_ts, settings=SETTINGS)


def test_scoring_a_model_on_a_window_does_not_change_it(model: DurationModel, jobs: pd.DataFrame) -> None:
    """It learns online while it is scored, in a copy: twice the same scores, and the model is as it was."""
    before = json.dumps(export_online(model.online), sort_keys=True)
    first = evaluate_model(model, jobs, from_s=CUT_S)
    assert json.dumps(export_online(model.online), sort_keys=True) == before
    assert evaluate_model(model, jobs, from_s=CUT_S).to_json() == first.to_json()
    assert set(first.models) == {OURS}


def test_a_window_scores_the_same_jobs_for_a_model_and_for_the_baselines(
    model: DurationModel, jobs: pd.DataFrame
) -> None:
    until_s = CUT_S + 3.0 * DAY_S
    ours = evaluate_model(model, jobs, from_s=CUT_S, until_s=until_s, name="champion")
    others = evaluate_baselines(jobs, from_s=CUT_S, until_s=until_s)
    assert set(ours.models) == {"champion"}
    assert set(others.models) == {baseline.name for baseline in BASELINES}
    assert ours.test_rows == others.test_rows > 0
    assert ours.unscored_rows == others.unscored_rows
    submitted_s = request_columns(jobs).submitted_s
    assert ours.test_rows + ours.unscored_rows == int(
        ((submitted_s >= CUT_S) & (submitted_s < until_s)).sum()
    )


def test_baselines_in_a_window_use_nothing_of_the_window_but_its_own_past(jobs: pd.DataFrame) -> None:
    """A log that stops at the end of the window gives the scores that the whole log gives."""
    until_s = CUT_S + 2.0 * DAY_S
    known = seconds(jobs["ended_at"]) < until_s
    asked = request_columns(jobs).submitted_s < until_s
    shorter = jobs[known & asked].reset_index(drop=True)
    alone = evaluate_baselines(shorter, from_s=CUT_S, until_s=until_s)
    beside = evaluate_baselines(jobs[known].reset_index(drop=True), from_s=CUT_S, until_s=until_s)
    assert alone.to_json()["models"] == beside.to_json()["models"]


def test_a_window_without_jobs_is_refused(model: DurationModel, jobs: pd.DataFrame) -> None:
    with pytest.raises(ArgumentError, match="earlier window"):
        evaluate_model(model, jobs, from_s=SPEC.end_ts + DAY_S)
    with pytest.raises(ArgumentError, match="earlier window"):
        evaluate_baselines(jobs, from_s=SPEC.end_ts + DAY_S)


def test_a_window_before_any_end_is_refused_for_the_baselines(jobs: pd.DataFrame) -> None:
    with pytest.raises(ArgumentError, match="later window"):
        evaluate_baselines(jobs, from_s=SPEC.start_ts)

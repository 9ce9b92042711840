"""This module checks how score reports are read, ranked, drawn and put on a card."""

import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from pipelines.gate import Gate
from pipelines.job_data import DataFacts, Window
from pipelines.model_card import model_card, summary_params
from pipelines.plots import feature_importance, pit_histogram, report_figures
from pipelines.reports import WindowReport, read_report
from pipelines.run_record import RunRecord, flatten, read_decision
from pipelines.settings import GateSettings
from predictor.errors import PipelineError


def scores(crps: float, **more: object) -> dict[str, object]:
    return {
        "crps_log": crps, "mean_abs_log_ratio": crps * 1.5, "mae_s": 1000.0 * crps,
        "coverage": {"q50": 0.5, "q90": 0.9, "q95": 0.95}, "pinball": {"q50": 0.2}, **more,
    }  # fmt: skip


def a_report(name: str = "ours", crps: float = 0.5) -> WindowReport:
    part = {"rows": 40, **scores(crps), "models": {name: scores(crps), "last_run": scores(0.9)}}
    return read_report(
        {
            "test_rows": 100,
            "models": {name: scores(crps, pit=[5, 10, 10, 15]), "last_run": scores(0.9)},
            "slices": {"gpu_jobs": part},
        }
    )


def a_record() -> RunRecord:
    ours = read_report({"test_rows": 100, "models": {"challenger": scores(0.5)}})
    baselines = read_report({"test_rows": 100, "models": {"a|b": scores(0.9), "c": scores(math.nan)}})
    return RunRecord(
        target="duration", key="k", version="v1", started_at="2026-03-01 12:00:00Z",
        params={"settings.training.random_state": "7"}, table=Path("jobs.parquet"),
        facts=DataFacts(fingerprint="f" * 64, rows=1000, first_s=0.0, last_s=86400.0, known_until_s=90000.0),
        window=Window(from_s=80000.0, until_s=86401.0, rows=100, champion_saw=True),
        challenger_report=ours, baseline_report=baselines, champion_report=None, champion="v0",
        champion_note="[feature-spec] other", decision=Gate(settings=GateSettings())(ours, None, None),
    )  # fmt: skip


def test_scores_of_a_slice_are_told_from_those_of_its_models() -> None:
    [part] = a_report().slices
    assert (part.name, part.rows, set(part.models)) == ("gpu_jobs", 40, {"ours", "last_run"})


def test_nested_slices_get_a_path_as_name() -> None:
    nested = {"queue": {"gpu": {"rows": 7, "models": {"ours": scores(0.1)}}}}
    report = read_report({"models": {"ours": scores(0.5)}, "slices": nested})
    assert [part.name for part in report.slices] == ["queue/gpu"]


def test_models_are_ranked_by_crps_and_those_without_come_last() -> None:
    report = read_report({"models": {"none": scores(math.nan), "b": scores(0.9), "a": scores(0.1)}})
    assert [name for name, _ in report.ranked()] == ["a", "b", "none"]


def test_flat_scores_name_the_level_and_leave_out_what_is_no_number() -> None:
    flat = a_report().models["ours"].flat()
    assert flat["coverage_q90"] == 0.9
    assert flat["pinball_q50"] == 0.2
    assert read_report({"models": {"m": scores(math.nan)}}).only.flat().keys() & {"crps_log"} == set()


def test_a_report_without_models_is_refused() -> None:
    with pytest.raises(PipelineError, match="no models"):
        read_report({"models": {}})
    with pytest.raises(PipelineError, match="one model was expected"):
        _ = a_report().only


def test_every_figure_is_drawn_from_a_full_report(tmp_path: Path) -> None:
    figures = report_figures(a_report(), "ours")
    assert set(figures) == {
        "calibration.png", "pit.png", "scores.png", "slices_crps_log.png", "slices_mean_abs_log_ratio.png",
    }  # fmt: skip
    for name, figure in figures.items():
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_figures_without_numbers_are_left_out() -> None:
    report = read_report({"models": {"ours": scores(0.5)}})
    assert set(report_figures(report, "ours")) == {"calibration.png", "scores.png"}
    assert pit_histogram(report, "ours") is None
    assert feature_importance({}) is None
    assert isinstance(feature_importance({"a": 0.7, "b": 0.3}), Figure)


def test_the_card_names_data_seed_scores_gate_and_limits() -> None:
    card = model_card(a_record())
    for text in (
        "f" * 64,
        "| seed | 7 |",
        "1970-01-02",
        "baseline a\\|b",
        "passed",
        "## Limits",
        "feature-spec",
    ):
        assert text in card
    table = [line for line in card.splitlines() if line.startswith("| **this model**")]
    assert "0.5000" in table[0]


def test_a_decision_survives_its_json_form() -> None:
    decision = a_record().decision
    assert read_decision(decision.to_json()) == decision


def test_nested_settings_become_dotted_parameters() -> None:
    assert flatten({"a": {"b": 1, "c": [1, 2]}, "d": True}) == {"a.b": "1", "a.c": "[1, 2]", "d": "True"}
    assert summary_params(a_record())["champion"] == "v0"

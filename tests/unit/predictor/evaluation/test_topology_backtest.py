"""This module tests scores of choices by closed forms, and what backtests of topology fit may look at."""

import os
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.topology_backtest import backtest_topology_file
from predictor.data.measurements.gpu_throughputs import read_gpu_throughputs
from predictor.data.measurements.mlperf_times import gpu_type, read_mlperf_times
from predictor.data.measurements.placements import read_placements
from predictor.errors import EmptyInputError, FormatError, SchemaError
from predictor.evaluation.gpu_type_backtest import backtest_gpu_types
from predictor.evaluation.topology_backtest import fold_of, groups_of
from predictor.evaluation.topology_baselines import rules
from predictor.evaluation.topology_scores import Guess, no_preference, regrets, score_choices

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[4].parent / "shared" / "data"))
PLACEMENTS = SHARED / "topology" / "placements.csv.gz"
THROUGHPUTS = SHARED / "topology" / "gpu_type_throughputs.csv.gz"
GROUP = np.array([0, 0, 0, 1, 1])
ACTUAL = np.log([1.0, 0.5, 0.8, 1.0, 0.6])


def table() -> pd.DataFrame:
    """Return six programs' step times on two clusters; the fullest node decides."""
    rows = [
        (app, cluster, batch, placement, (1.0 + 0.1 * max(map(int, placement))) * (1 + app) * 0.1)
        for app, cluster, batch, placement in product(
            range(3), "xy", (8, 16), ("1", "4", "13", "31", "22", "112", "1111", "2", "11")
        )
    ]
    frame = pd.DataFrame(rows, columns=["app", "cluster", "local_bsz", "placement", "step_time"])
    frame["app"] = "app" + frame["app"].astype("str")
    return frame


def test_regret_is_what_the_choice_falls_short_of_the_best() -> None:
    assert regrets(np.array([0.0, 2.0, 1.0, 5.0, 1.0]), ACTUAL, GROUP) == pytest.approx([0.5, 0.0])


def test_a_tie_costs_the_mean_of_the_tied() -> None:
    assert regrets(np.array([1.0, 1.0, 0.0, 0.0, 0.0]), ACTUAL, GROUP) == pytest.approx([0.25, 0.2])


def test_a_perfect_guess_has_no_error_and_full_rank_correlation() -> None:
    scores = score_choices(Guess(score=ACTUAL, log_relative=ACTUAL), ACTUAL, GROUP)
    assert (scores.regret, scores.rel_mape, scores.kendall_tau) == (0.0, 0.0, 1.0)


def test_no_preference_costs_what_a_random_choice_costs_on_average() -> None:
    scores = score_choices(no_preference(GROUP), ACTUAL, GROUP)
    assert scores.regret == pytest.approx(((1 - 2.3 / 3) + 0.2) / 2)
    assert scores.kendall_tau == 0.0


def test_a_group_is_one_job_cluster_batch_and_number_of_gpus() -> None:
    measured = read_placements(table())
    group = groups_of(measured.runs)
    assert group.max() + 1 == 3 * 2 * 2 * 2  # 2 and 4 GPUs
    assert len(measured.runs) == 24 // 2 * (2 + 6)
    assert set(map(sum, measured.runs.patterns)) == {2, 4}
    assert np.isfinite(measured.runs.one_gpu_step_s).all()


def test_repeats_are_averaged_and_lonely_placements_left_out() -> None:
    twice = pd.concat([table(), table().assign(step_time=lambda frame: frame["step_time"] * 3.0)])
    once = read_placements(table()).runs
    assert read_placements(twice).runs.step_time_s == pytest.approx(2.0 * once.step_time_s)
    lonely = table()
    lonely = lonely[lonely["placement"] != "2"]
    assert read_placements(lonely).quarantined["only placement of its group"] == 12


def test_simulated_pipelines_are_left_out() -> None:
    with pytest.raises(EmptyInputError):
        read_placements(table().assign(app="gpt_pmp"))


def test_a_table_without_step_times_names_what_it_lacks() -> None:
    with pytest.raises(SchemaError, match="step_time"):
        read_placements(table().drop(columns="step_time"))
    with pytest.raises(SchemaError, match="thr"):
        read_gpu_throughputs(pd.DataFrame({"gpu": []}))
    with pytest.raises(SchemaError, match="round"):
        read_mlperf_times(pd.DataFrame({"org": []}))


def test_all_rows_of_one_text_are_in_the_same_fold() -> None:
    texts = list("abcdefghij") * 3
    fold = fold_of(texts, seed=1)
    assert len({(text, int(at)) for text, at in zip(texts, fold, strict=True)}) == 10
    assert np.bincount(fold).tolist() == [6] * 5


def test_rules_choose_by_their_count() -> None:
    runs = read_placements(table()).runs
    guesses = rules(runs, groups_of(runs))
    assert guesses["fewest_nodes"].score.argmax() == [len(one) for one in runs.patterns].index(1)
    smallest = score_choices(guesses["smallest_max_per_node"], -np.log(runs.step_time_s), groups_of(runs))
    assert smallest.kendall_tau == pytest.approx(1.0)


def test_accelerator_names_are_told_apart_by_type_and_slot() -> None:
    named = {"NVIDIA A100-SXM4-80GB (400W)": "a100", "NVIDIA H100-PCIe-80GB": "h100-pcie", "TPU": "tpu",
             "NVIDIA Blackwell GPU (GB200)": "gb200", "NVIDIA L40S": "l40s"}  # fmt: skip
    assert {name: gpu_type(name) for name in named} == named


def test_a_file_of_something_else_is_refused_with_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="placement"):
        run(path)
    with pytest.raises(FormatError, match="cannot be read"):
        run(tmp_path / "absent.csv")


def _quiet(step: str, share: float) -> None:
    """Tell nobody."""


def run(path: Path, plots: Path | None = None) -> dict[str, object]:
    from rich.console import Console

    return dict(backtest_topology_file(path, seed=0, plots=plots, console=Console(quiet=True), tell=_quiet))


def test_the_report_has_every_model_and_split_and_ours_finds_the_rule_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "placements.csv"
    table().to_csv(path, index=False)
    report = run(path, tmp_path)
    splits = report["splits"]
    assert isinstance(splits, dict)
    assert set(splits) == {
        "unseen_placement", "unseen_shape", "leave_one_app_out", "leave_one_cluster_out",
    }  # fmt: skip
    for split in splits.values():
        models = split["models"]
        assert set(models) == {
            "ours", "random", "fewest_nodes", "smallest_max_per_node", "alpha_beta", "pollux",
            "raw_lightgbm",
        }  # fmt: skip
        assert all(
            set(scores) == {"regret", "regret_p95", "rel_mape", "kendall_tau"} for scores in models.values()
        )
        assert models["ours"]["regret"] < models["fewest_nodes"]["regret"]
    assert splits["leave_one_app_out"]["models"]["ours"]["regret"] < 0.01
    assert (tmp_path / "topology_regret.png").exists()
    assert (tmp_path / "topology_calibration.png").exists()


@pytest.mark.shared_data
@pytest.mark.skipif(not PLACEMENTS.exists(), reason=f"no {PLACEMENTS}; set PREDICTOR_SHARED_DATA")
def test_rules_cost_on_the_measured_placements_what_was_published_of_them() -> None:
    measured = read_placements(pd.read_csv(PLACEMENTS, dtype={"placement": "str"}))
    runs = measured.runs
    group = groups_of(runs)
    assert (len(runs), group.max() + 1) == (10_891, 2_557)
    values = -np.log(runs.step_time_s)
    top = np.full(group.max() + 1, -np.inf)
    np.maximum.at(top, group, values)
    scores = {
        name: score_choices(guess, values - top[group], group).regret
        for name, guess in rules(runs, group).items()
    }
    assert scores["fewest_nodes"] == pytest.approx(0.0928, abs=5e-4)
    assert scores["smallest_max_per_node"] == pytest.approx(0.0587, abs=5e-4)
    assert scores["random"] == pytest.approx(0.0808, abs=5e-4)


@pytest.mark.shared_data
@pytest.mark.skipif(not THROUGHPUTS.exists(), reason=f"no {THROUGHPUTS}; set PREDICTOR_SHARED_DATA")
def test_speeds_of_gpu_types_reach_the_marks_on_measured_throughputs() -> None:
    report = backtest_gpu_types(read_gpu_throughputs(pd.read_csv(THROUGHPUTS)))
    known, new = report.splits["known_model"], report.splits["new_model"]
    assert known["ours"].regret <= 0.031
    assert known["ours"].rel_mape <= 0.204
    assert new["ours"].regret <= min(0.065, new["type_mean"].regret + 1e-9)

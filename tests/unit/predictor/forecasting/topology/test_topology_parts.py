"""This module tests the parts of topology fit: leaving out, intervals, GPU types, durations, bundles."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm

from predictor.contracts.forecast import LEVELS, DurationForecasts
from predictor.contracts.topology import Strategy, TopologyJob, TypeRuns
from predictor.errors import BundleCorruptError, EmptyInputError
from predictor.forecasting.topology.bundle import read_topology_bundle, write_topology_bundle
from predictor.forecasting.topology.cluster_fit import KernelSettings, covariance, group_means
from predictor.forecasting.topology.cluster_system import ClusterSystem
from predictor.forecasting.topology.duration_on import duration_on
from predictor.forecasting.topology.forecaster import TopologyForecaster
from predictor.forecasting.topology.gpu_types import TypeSpeeds
from predictor.forecasting.topology.intervals import residual_quantiles
from predictor.forecasting.topology.physics import communication, log_penalty
from predictor.forecasting.topology.relative import SPREAD, expected_log_relative
from predictor.forecasting.topology.rows import Rows, rows_of_runs
from tests.unit.predictor.forecasting.topology.topology_examples import (
    SHAPES,
    example_runs,
    placements,
    profile,
)


def _take(rows: Rows, at: npt.NDArray[np.intp]) -> Rows:
    return Rows(
        shape=rows.shape[at], shape_name=rows.shape_name[at], signature=rows.signature[at],
        job=rows.job[at], log_batch=rows.log_batch[at],
        group=np.unique(rows.group[at], return_inverse=True)[1],
    )  # fmt: skip


def test_leaving_out_whole_groups_equals_a_fit_that_never_saw_them() -> None:
    runs = example_runs(noise=0.05)
    rows, values = rows_of_runs(runs), -np.log(runs.step_time_s)
    settings = KernelSettings(intercept=30.0)  # the mean that each fit subtracts then plays no part
    found = ClusterSystem(rows, values, settings).effects_without(rows.signature)
    for app in np.unique(rows.signature):
        train, test = (np.flatnonzero(mask) for mask in (rows.signature != app, rows.signature == app))
        held = _take(rows, test)
        effects = np.empty(len(test))
        fitted = ClusterSystem(_take(rows, train), values[train], settings).fit()
        for group in np.unique(held.group):
            of = np.flatnonzero(held.group == group)
            effects[of] = fitted.effects(_take(held, of))
        assert found[test] == pytest.approx(effects, abs=1e-4)


def test_the_short_way_to_the_solution_equals_the_whole_matrix() -> None:
    runs, settings = example_runs(noise=0.05), KernelSettings()
    at = np.sort(np.random.default_rng(0).integers(0, len(runs), 300))  # repeats, and groups of one row
    rows, values = rows_of_runs(runs.take(at)), np.random.default_rng(1).normal(0.0, 0.2, 300)
    same = np.equal.outer(rows.group, rows.group)
    centring = np.eye(300) - same / same.sum(axis=1)[:, None]
    whole = centring @ covariance(rows, rows, settings) @ centring.T
    whole += settings.intercept**2 * same + settings.noise**2 * np.eye(300)
    y, block = values - values.mean(), np.arange(300) % 3
    expected = np.empty(300)
    for one in range(3):
        held, train = block == one, block != one
        solved = np.linalg.solve(whole[np.ix_(train, train)], y[train])
        effect = whole[np.ix_(held, train)] - settings.intercept**2 * same[np.ix_(held, train)]
        expected[held] = effect @ solved
    system = ClusterSystem(rows, values, settings)
    assert system.effects_without(block) == pytest.approx(expected, abs=1e-9)
    asked = covariance(rows, rows, settings) @ centring.T @ np.linalg.solve(whole, y)
    found = covariance(rows, rows, settings) @ system.fit().weights
    assert found == pytest.approx(asked, abs=1e-9)


def test_held_out_values_never_change_their_own_forecast() -> None:
    runs = example_runs()
    rows, values = rows_of_runs(runs), -np.log(runs.step_time_s)
    altered = values.copy()
    held = rows.shape_name == "2-2"
    altered[held] += np.random.default_rng(1).normal(0.0, 1.0, held.sum())
    one, other = (
        ClusterSystem(rows, v, KernelSettings(intercept=30.0)).effects_without(rows.shape_name)
        for v in (values, altered)
    )
    assert one[held] == pytest.approx(other[held], abs=1e-3)
    assert np.abs(one[~held] - other[~held]).max() > 0.01


def test_effects_of_candidates_sum_to_nothing() -> None:
    runs = example_runs()
    rows = rows_of_runs(runs)
    fit = ClusterSystem(rows, -np.log(runs.step_time_s), KernelSettings()).fit()
    one_group = _take(rows, np.flatnonzero(rows.group == 0))
    assert fit.effects(one_group).sum() == pytest.approx(0.0, abs=1e-12)
    assert group_means(fit.weights, rows.group) == pytest.approx(np.zeros(len(rows)), abs=1e-9)


def test_the_level_of_the_best_is_the_mean_of_the_maximum_of_normals() -> None:
    two_alike = expected_log_relative(np.zeros(2), np.zeros(2, dtype=np.intp))
    assert two_alike == pytest.approx(np.full(2, -SPREAD / np.sqrt(np.pi)), abs=1e-4)
    alone = expected_log_relative(np.array([3.0]), np.zeros(1, dtype=np.intp))
    assert alone == pytest.approx(np.zeros(1), abs=1e-6)


def test_quantiles_of_residuals_are_those_of_their_distribution() -> None:
    residuals = np.random.default_rng(0).normal(0.0, 0.1, 20_000)
    found = residual_quantiles(residuals, np.arange(20_000))
    assert found == pytest.approx(norm.ppf(LEVELS, scale=0.1), abs=0.006)
    assert list(found) == sorted(found)


def test_a_group_of_many_candidates_weighs_as_much_as_one_of_few() -> None:
    residuals = np.concatenate([np.zeros(1000), np.ones(30)])
    group = np.concatenate([np.zeros(1000, dtype=np.intp), np.arange(1, 31)])
    assert residual_quantiles(residuals, group)[LEVELS.index(0.5)] == 1.0


def test_the_volume_of_a_strategy_is_that_of_its_formula() -> None:
    asked, cluster = placements((2, 2))[0], profile(network_alpha_s=0.0)
    plain, sharded = (
        communication(TopologyJob(gradient_bytes=1e9, strategy=strategy), asked, cluster).step_s
        for strategy in (Strategy.DATA, Strategy.SHARDED)
    )
    assert sharded == pytest.approx(1.5 * plain)
    tensor = TopologyJob(strategy=Strategy.TENSOR, activation_bytes=1e9, layer_count=10)
    assert communication(tensor, asked, cluster).step_s == pytest.approx(40.0 * plain)


def test_what_is_not_known_of_the_job_costs_no_preference() -> None:
    found = communication(TopologyJob(), placements((2, 2))[0], profile())
    assert np.isnan(found.step_s)
    assert log_penalty(TopologyJob(one_gpu_step_s=1.0), found.step_s) == 0.0


def test_a_job_on_one_gpu_is_as_fast_wherever_it_is_and_one_on_many_is_not() -> None:
    kinds = ("k80", "k80/spread", "v100", "v100/spread")
    rows = [(kind, gpus) for kind in kinds for gpus in (1, 4)]
    speeds = TypeSpeeds.fit(TypeRuns(
        signatures=("lm",) * len(rows), gpu_types=tuple(kind for kind, _ in rows),
        config=np.log([[32.0, gpus] for _, gpus in rows]),
        throughput=np.array([0.4 * gpus if "/" in kind and gpus > 1 else gpus for kind, gpus in rows]),
    ))  # fmt: skip
    alone = speeds.log_speeds(["lm"] * 2, ["v100", "v100/spread"], np.log([[16.0, 1.0]] * 2))
    assert alone[0] == alone[1]
    many = speeds.log_speeds(["lm"] * 2, ["v100", "v100/spread"], np.log([[16.0, 4.0]] * 2))
    assert np.log(0.4) - 0.2 < many[1] - many[0] < -0.5


def _type_runs() -> TypeRuns:
    speeds = {"k80": 1.0, "v100": 8.0}
    rows = [(app, kind, batch) for app in range(4) for kind in speeds for batch in (8, 16, 32)]
    return TypeRuns(
        signatures=tuple(f"app{app}" for app, _, _ in rows), gpu_types=tuple(kind for _, kind, _ in rows),
        config=np.log([[batch, 1.0] for _, _, batch in rows]),
        throughput=np.array([speeds[kind] * (1 + app) / batch * (0.1 if app == 0 and kind == "v100" else 1)
                             for app, kind, batch in rows]),
    )  # fmt: skip


def test_speeds_of_types_are_those_measured_and_their_mean_for_a_new_program() -> None:
    fitted = TypeSpeeds.fit(_type_runs())
    config = np.log([[16.0, 1.0]] * 2)

    def ratio(app: str) -> float:
        slow, fast = fitted.log_speeds([app] * 2, ["k80", "v100"], config)
        return float(np.exp(fast - slow))

    assert ratio("app1") == pytest.approx(8.0, rel=0.05)
    assert ratio("app0") == pytest.approx(0.8, rel=0.05)
    assert ratio("unseen") == pytest.approx(8.0 * 0.1**0.25, rel=0.3)


def test_types_learn_from_at_least_one_run() -> None:
    with pytest.raises(EmptyInputError):
        TypeSpeeds.fit(_type_runs().take(np.zeros(0, dtype=np.intp)))


def test_a_faster_type_ranks_first_when_types_are_known() -> None:
    model = TopologyForecaster.fit(example_runs(), types=TypeSpeeds.fit(_type_runs()))
    asked = [*placements((1,), gpu_type="k80"), *placements((1,), gpu_type="v100")]
    fast = model.rank(TopologyJob(signature="app1", local_batch=16.0), asked, cluster="a")
    slow = model.rank(TopologyJob(signature="app0", local_batch=16.0), asked, cluster="a")
    assert [one.placement.gpu_type for one in fast] == ["v100", "k80"]
    assert [one.placement.gpu_type for one in slow] == ["k80", "v100"]


def _reference() -> DurationForecasts:
    quantiles = np.exp(np.log(3600.0) + norm.ppf(LEVELS, scale=0.5))[None, :]
    return DurationForecasts.build(quantiles, np.array([np.inf]))


def test_duration_on_a_placement_is_longer_by_its_slowdown_and_wider_than_either() -> None:
    model = TopologyForecaster.fit(example_runs(noise=0.05))
    worst = model.rank(
        TopologyJob(signature="app0", local_batch=16.0), placements(*SHAPES), cluster="a"
    ).ranked[-1]
    there = duration_on(_reference(), worst)
    middle = there.quantile_s(0.5)[0] / 3600.0
    assert middle == pytest.approx(worst.expected_slowdown, rel=0.1)

    def width(forecast: DurationForecasts) -> float:
        return float(np.log(forecast.quantile_s(0.95) / forecast.quantile_s(0.05))[0])

    assert width(there) >= width(_reference()) - 1e-3


def test_duration_on_a_certain_placement_is_the_reference() -> None:
    model = TopologyForecaster.prior()
    alone = model.rank(TopologyJob(), placements((1,))).ranked[0]
    there = duration_on(_reference(), alone)
    assert there.quantiles_s[0, 2:-2] == pytest.approx(_reference().quantiles_s[0, 2:-2], rel=0.12)
    half = duration_on(_reference(), alone, reference_throughput=0.5)
    assert half.quantiles_s[0, 5:-5] == pytest.approx(there.quantiles_s[0, 5:-5] / 2.0)


def test_duration_on_a_placement_never_exceeds_the_limit() -> None:
    limited = DurationForecasts.build(_reference().quantiles_s, np.array([4000.0]))
    alone = TopologyForecaster.prior().rank(TopologyJob(), placements((2, 2), (4,))).ranked[0]
    assert duration_on(limited, alone).quantiles_s.max() <= 4000.0


def test_a_bundle_gives_back_the_model_it_was_given(tmp_path: Path) -> None:
    model = TopologyForecaster.fit(example_runs(), types=TypeSpeeds.fit(_type_runs()), version="v1")
    written = write_topology_bundle(tmp_path / "b", model, version="v1", card="# card", metadata={"rows": 45})
    read = read_topology_bundle(tmp_path / "b", expected_digest=written.digest)
    assert read.info.name == "topology"
    assert read.metadata == {"rows": 45}
    job = TopologyJob(signature="app2", local_batch=32.0)
    assert read.model.rank(job, placements(*SHAPES), cluster="a") == model.rank(
        job, placements(*SHAPES), cluster="a"
    )


def test_a_bundle_of_the_prior_can_be_read(tmp_path: Path) -> None:
    write_topology_bundle(tmp_path / "b", TopologyForecaster.prior(), version="prior", card="", metadata={})
    ranking = read_topology_bundle(tmp_path / "b").model.rank(TopologyJob(), placements((2,), (1, 1)))
    assert ranking.no_history


def test_an_altered_bundle_is_refused(tmp_path: Path) -> None:
    write_topology_bundle(tmp_path / "b", TopologyForecaster.prior(), version="prior", card="", metadata={})
    (tmp_path / "b" / "model.json").write_text("{}")
    with pytest.raises(BundleCorruptError, match=r"model\.json was altered"):
        read_topology_bundle(tmp_path / "b")

"""This module tests rankings of placements against known truth and the invariants they promise."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.cluster import LinkClass, Placement
from predictor.contracts.topology import Evidence, MemoryNeed, Strategy, TopologyJob
from predictor.errors import ArgumentError
from predictor.forecasting.topology.forecaster import TopologyForecaster
from tests.unit.predictor.forecasting.topology.topology_examples import (
    SHAPES,
    example_runs,
    names,
    placements,
    profile,
)

JOB = TopologyJob(signature="app0", local_batch=16.0, one_gpu_step_s=0.116, gradient_bytes=1e8)
LINKS = [one for one in LinkClass if LinkClass.SELF < one < LinkClass.NETWORK]


@cache
def trained() -> TopologyForecaster:
    return TopologyForecaster.fit(example_runs(clusters=("a", "b")))


def any_job() -> st.SearchStrategy[TopologyJob]:
    return st.builds(
        TopologyJob,
        signature=st.sampled_from(["app0", "unknown", ""]), local_batch=st.floats(1.0, 512.0),
        one_gpu_step_s=st.floats(1e-3, 10.0), gradient_bytes=st.floats(1e6, 1e11),
        strategy=st.sampled_from([Strategy.DATA, Strategy.SHARDED]),
    )  # fmt: skip


def test_a_trained_model_orders_shapes_as_the_truth_does() -> None:
    ranking = trained().rank(JOB, placements(*SHAPES), cluster="a")
    assert names(ranking)[0] == "1-1-1-1"
    assert names(ranking)[-1] == "4"
    worst = ranking.ranked[-1]
    assert worst.score == pytest.approx(1.0 / 1.3, abs=0.04)
    assert not ranking.no_history


def test_a_shape_never_seen_is_forecast_from_its_neighbours() -> None:
    runs = example_runs()
    seen = np.array([pattern != (2, 2) for pattern in runs.patterns])
    ranking = TopologyForecaster.fit(runs.take(seen)).rank(JOB, placements(*SHAPES), cluster="a")
    middle = next(one for one in ranking if one.placement.pattern == (2, 2))
    assert middle.evidence is Evidence.SEEN_JOB
    assert ranking.ranked[-1].score < middle.score < 1.0


def test_the_interval_holds_the_truth_for_nine_of_ten_candidates() -> None:
    inside = 0
    asked = placements(*SHAPES)
    truth = {pattern: 1.0 / (1.0 + 0.1 * (max(pattern) - 1)) for pattern in SHAPES}
    for batch in (8.0, 16.0, 32.0):
        ranking = trained().rank(TopologyJob(signature="app1", local_batch=batch), asked, cluster="b")
        for one in ranking:
            low, high = one.interval
            assert 0.0 <= low <= high <= 1.0
            inside += low - 0.02 <= truth[one.placement.gpus_per_node] <= high + 0.02
    assert inside >= 0.8 * 3 * len(SHAPES)


def test_a_cluster_without_history_gets_the_flag_and_the_least_crowded_node() -> None:
    ranking = trained().rank(JOB, placements(*SHAPES), cluster="elsewhere")
    assert ranking.no_history
    assert names(ranking)[0] == "1-1-1-1"
    assert {one.evidence for one in ranking} == {Evidence.NO_HISTORY}
    assert min(one.score for one in ranking) > 0.95  # nearly no preference
    assert all(one.code == "no-history" for one in ranking)


def test_a_model_trained_on_nothing_answers_with_wide_intervals() -> None:
    ranking = TopologyForecaster.prior().rank(JOB, placements((4,), (2, 2)), profile=profile())
    assert ranking.no_history
    assert all(one.interval[1] - one.interval[0] > 0.5 for one in ranking)


def test_without_history_a_slow_network_makes_one_node_the_choice() -> None:
    job = TopologyJob(one_gpu_step_s=0.05, gradient_bytes=1e10)
    ranking = TopologyForecaster.prior().rank(
        job, placements((4,), (2, 2)), profile=profile(network_bytes_per_s=1e9)
    )
    assert names(ranking) == ["4", "2-2"]
    spread = ranking.ranked[1]
    assert spread.limiting_link is not None
    assert spread.limiting_link.link is LinkClass.NETWORK
    assert spread.code == "bounded-by-network"
    assert "NETWORK" in spread.reason


def test_shrinkage_fades_with_evidence() -> None:
    few = TopologyForecaster.fit(example_runs().take(np.arange(5)))
    asked = placements(*SHAPES)
    spread = [
        min(one.score for one in model.rank(JOB, asked, cluster="a"))
        for model in (TopologyForecaster.prior(), few, trained())
    ]
    assert spread[0] > spread[1] > spread[2]


def test_observed_runs_turn_no_history_into_evidence() -> None:
    before = TopologyForecaster.prior()
    after = before.observe(example_runs(clusters=("c",)))
    assert before.evidence_count("c") == 0
    assert after.evidence_count("c") == 45
    ranking = after.rank(JOB, placements(*SHAPES), cluster="c")
    assert not ranking.no_history
    assert {one.evidence for one in ranking} == {Evidence.SEEN_SHAPE}
    assert {one.evidence_count for one in ranking} == {3}


def test_candidates_whose_memory_does_not_fit_are_excluded_with_the_reason() -> None:
    asked = [*placements((4,)), *placements((2, 2), gpu_type="h100")]
    need = MemoryNeed(upper_mib={"a100": 50_000.0, "h100": 50_000.0}, capacity_mib={"h100": 81_920.0})
    ranking = trained().rank(JOB, asked, profile=profile(), memory=need)
    assert [one.index for one in ranking.excluded] == [0]
    assert ranking.excluded[0].code == "memory-does-not-fit"
    assert "50,000 MiB" in ranking.excluded[0].reason
    assert [one.index for one in ranking] == [1]


def test_all_faults_of_the_candidates_are_told_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        trained().rank(JOB, placements((0,), (2, 1), (4,)))
    assert len(caught.value.faults) == 2


def test_no_candidates_are_an_error() -> None:
    with pytest.raises(ArgumentError, match="no candidates"):
        trained().rank(JOB, [])


@settings(max_examples=60, deadline=None)
@given(
    job=any_job(), cluster=st.sampled_from(["a", "elsewhere"]),
    alpha_s=st.floats(1e-6, 1e-2), more_alpha_s=st.floats(0.0, 1e-2),
    bandwidth=st.floats(1e8, 1e11), slower=st.floats(0.01, 1.0),
)  # fmt: skip
def test_a_slower_network_never_raises_the_forecast_of_placements_that_cross_it(
    job: TopologyJob, cluster: str, alpha_s: float, more_alpha_s: float, bandwidth: float, slower: float
) -> None:
    asked = placements((4,), (2, 2))
    fast = profile(network_alpha_s=alpha_s, network_bytes_per_s=bandwidth)
    slow = profile(network_alpha_s=alpha_s + more_alpha_s, network_bytes_per_s=bandwidth * slower)
    before, after = (trained().rank(job, asked, cluster=cluster, profile=one) for one in (fast, slow))
    crossing_before, crossing_after = (
        next(one for one in ranking if one.nodes_spanned == 2) for ranking in (before, after)
    )
    assert crossing_after.score <= crossing_before.score + 1e-12
    assert crossing_after.relative_throughput <= crossing_before.relative_throughput + 1e-6


@settings(max_examples=60, deadline=None)
@given(
    job=any_job(), cluster=st.sampled_from(["a", "elsewhere"]),
    pair=st.sampled_from(sorted({tuple(sorted(p)) for p in [(a, b) for a in LINKS for b in LINKS]})),
)  # fmt: skip
def test_a_slower_link_inside_nodes_never_raises_the_forecast_of_one_node(
    job: TopologyJob, cluster: str, pair: tuple[LinkClass, LinkClass]
) -> None:
    asked = placements((4,), (1, 1, 1, 1))
    before, after = (
        trained().rank(job, asked, cluster=cluster, profile=profile(inside=link)) for link in pair
    )
    packed_before, packed_after = (
        next(one for one in ranking if one.nodes_spanned == 1) for ranking in (before, after)
    )
    assert packed_after.score <= packed_before.score + 1e-12
    assert packed_after.relative_throughput <= packed_before.relative_throughput + 1e-6


@settings(max_examples=60, deadline=None)
@given(
    job=any_job(), cluster=st.sampled_from(["a", "elsewhere"]),
    pattern=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(lambda one: sum(one) > 0),
    data=st.data(),
)  # fmt: skip
def test_placements_that_differ_in_the_names_of_nodes_only_score_the_same(
    job: TopologyJob, cluster: str, pattern: list[int], data: st.DataObject
) -> None:
    other = data.draw(st.permutations(pattern))
    hosts = data.draw(st.permutations(["n1", "n2", "n3", "n4"]))
    asked = [
        Placement(
            gpu_type="a100", gpus_per_node=tuple(pattern), hosts=("n1", "n2", "n3", "n4")[: len(pattern)]
        ),
        Placement(gpu_type="a100", gpus_per_node=tuple(other), hosts=tuple(hosts[: len(other)])),
    ]
    ranking = trained().rank(job, asked, cluster=cluster, profile=profile())
    first, second = ranking.ranked
    assert first.score == second.score == 1.0
    assert first.relative_throughput == second.relative_throughput
    assert first.interval == second.interval
    assert [one.index for one in ranking] == [0, 1]


@settings(max_examples=40, deadline=None)
@given(job=any_job(), cluster=st.sampled_from(["a", "elsewhere"]), count=st.integers(1, 4))
def test_a_job_on_one_gpu_has_no_preference_within_one_type(
    job: TopologyJob, cluster: str, count: int
) -> None:
    asked = [Placement(gpu_type="a100", gpus_per_node=(1,), hosts=(f"n{at + 1}",)) for at in range(count)]
    ranking = trained().rank(job, asked, cluster=cluster, profile=profile())
    assert [one.index for one in ranking] == list(range(count))
    for one in ranking:
        assert one.score == one.relative_throughput == 1.0
        assert one.interval == (1.0, 1.0)
        assert one.limiting_link is None
        assert one.code == "single-gpu"


@settings(max_examples=30, deadline=None)
@given(job=any_job(), cluster=st.sampled_from(["a", "elsewhere"]))
def test_answers_are_in_their_ranges(job: TopologyJob, cluster: str) -> None:
    ranking = trained().rank(job, placements(*SHAPES), cluster=cluster, profile=profile())
    assert ranking.ranked[0].score == 1.0
    for one in ranking:
        assert 0.0 < one.score <= 1.0
        assert 0.0 < one.relative_throughput <= 1.0
        assert one.interval[0] <= one.interval[1]
        assert one.expected_slowdown >= 1.0
        assert math.isclose(one.expected_slowdown * one.relative_throughput, 1.0)
        assert one.reason


def test_what_was_measured_on_small_placements_decides_nothing_on_ones_of_twice_the_size() -> None:
    model = TopologyForecaster.fit(example_runs(clusters=("a",)))
    job = TopologyJob(signature="app0", local_batch=8.0)
    near = model.rank(job, placements((4,), (2, 2)), cluster="a")
    far = model.rank(job, placements((8, 8), (2,) * 8), cluster="a")
    assert near.ranked[0].evidence is Evidence.SEEN_SHAPE
    for one in far:
        assert one.evidence is Evidence.NO_HISTORY
        assert one.score > 0.9  # next to no preference: no measured shape has more than 4 GPUs


def test_a_job_that_was_measured_need_not_say_how_long_its_step_is() -> None:
    runs = example_runs()
    model = TopologyForecaster.fit(runs)
    at = runs.signatures.index("app2")
    whole = TopologyJob(
        signature="app2", local_batch=float(runs.local_batch[at]),
        one_gpu_step_s=float(runs.one_gpu_step_s[at]), gradient_bytes=float(runs.gradient_bytes[at]),
    )  # fmt: skip
    bare = TopologyJob(signature="app2", local_batch=float(runs.local_batch[at]))
    told, untold = (model.rank(job, placements(*SHAPES), cluster="a") for job in (whole, bare))
    assert [one.score for one in untold] == pytest.approx([one.score for one in told])

"""Links are fitted to known truth and to measured curves; slower links never make a collective faster."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.contracts.cluster import LinkClass, LinkCost, Placement
from predictor.data.clusters.collective_logs import read_collectives
from predictor.data.clusters.example_files import load_cluster
from predictor.errors import ArgumentError
from predictor.forecasting.topology.affinity import choose_gpus
from predictor.forecasting.topology.alpha_beta import fit_cost, fit_links
from predictor.forecasting.topology.collectives import (
    Collective,
    best_link,
    collective_time_s,
    placed_collective,
    wire_factor,
)
from predictor.forecasting.topology.levels import choose_level

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[5].parent / "shared" / "data"))
CURVES = SHARED / "topology"


def test_known_latency_and_bandwidth_are_recovered() -> None:
    sizes = np.geomspace(1e3, 1e9, 60)
    truth = 30e-6 + sizes / 150e9
    noisy = truth * np.exp(np.random.default_rng(0).normal(0, 0.05, 60))
    cost = fit_cost(sizes, noisy)
    assert cost.alpha_s == pytest.approx(30e-6, rel=0.05)
    assert cost.bandwidth_bytes_per_s == pytest.approx(150e9, rel=0.05)
    assert cost.error_ratio is not None
    assert cost.error_ratio < 0.06


def test_too_few_points_and_times_of_nothing_are_refused() -> None:
    with pytest.raises(ArgumentError, match="too few"):
        fit_cost(np.ones(3), np.ones(3))
    with pytest.raises(ArgumentError, match="above 0"):
        fit_cost(np.ones(4), np.zeros(4))


# workers, workers per node: latency in us, GB/s, and the mean relative error that the fit may have
MEASURED = {
    "a100_dgx_all_reduce": {(2, 2): (36, 158, 0.09), (4, 4): (29, 154, 0.16), (8, 8): (39, 152, 0.14),
                            (2, 1): (66, 6, 0.10), (8, 4): (145, 20, 0.11), (16, 8): (155, 15, 0.30)},
    "h100_dgx_all_reduce": {(2, 2): (17, 282, 0.13), (4, 4): (31, 380, 0.08), (8, 8): (29, 339, 0.06)},
    "a100_pairwise_nvlink_all_reduce": {(2, 2): (29, 189, 0.07), (4, 4): (55, 24, 0.02)},
    "h100_pairwise_nvlink_all_reduce": {(2, 2): (12, 186, 0.09), (4, 4): (24, 46, 0.08)},
}  # fmt: skip


@pytest.mark.shared_data
@pytest.mark.parametrize("name", MEASURED)
def test_measured_curves_are_fitted_within_the_known_errors(name: str) -> None:
    path = CURVES / f"collectives_{name}.csv.gz"
    if not path.is_file():
        pytest.skip("needs ../shared/data")
    found = {(link.workers, link.per_node): link.cost for link in fit_links(read_collectives(path))}
    for key, (alpha_us, gb_per_s, error) in MEASURED[name].items():
        cost = found[key]
        assert cost.alpha_s * 1e6 == pytest.approx(alpha_us, abs=1.0)
        assert cost.bandwidth_bytes_per_s / 1e9 == pytest.approx(gb_per_s, rel=0.05)
        assert cost.error_ratio is not None
        assert cost.error_ratio <= error


@pytest.mark.parametrize(
    ("operation", "workers", "factor"),
    [(Collective.ALL_REDUCE, 8, 1.75), (Collective.ALL_GATHER, 4, 0.75), (Collective.SEND_RECV, 2, 1.0),
     (Collective.ALL_REDUCE, 1, 0.0)],
)  # fmt: skip
def test_the_bytes_on_the_wire_are_those_of_a_ring(
    operation: Collective, workers: int, factor: float
) -> None:
    assert wire_factor(operation, workers) == factor


@given(
    st.sampled_from(list(Collective)), st.floats(0, 1e12), st.integers(1, 512), st.floats(0, 1e-3),
    st.floats(1e6, 1e12), st.floats(1, 10), st.floats(1, 10),
)  # fmt: skip
def test_a_slower_link_never_makes_a_collective_faster(
    operation: Collective,
    message: float,
    workers: int,
    alpha_s: float,
    bandwidth: float,
    later: float,
    slower: float,
) -> None:
    cost = LinkCost(alpha_s=alpha_s, bandwidth_bytes_per_s=bandwidth)
    worse = LinkCost(alpha_s=alpha_s * later, bandwidth_bytes_per_s=bandwidth / slower)
    assert collective_time_s(operation, message, workers, worse) >= collective_time_s(
        operation, message, workers, cost
    )


def test_across_pairs_of_nvlink_the_slow_link_limits() -> None:
    profile = load_cluster("pcie-pairwise-nvlink")
    pair = Placement(gpu_type="a100", gpus_per_node=(2,))
    four = Placement(gpu_type="a100", gpus_per_node=(4,))
    apart = Placement(gpu_type="a100", gpus_per_node=(2,), hosts=("pcie01",), gpu_indices=((0, 2),))
    assert placed_collective(Collective.ALL_REDUCE, 1e9, pair, profile).limiting is LinkClass.NVLINK
    assert placed_collective(Collective.ALL_REDUCE, 1e9, four, profile).limiting is LinkClass.SYS
    assert placed_collective(Collective.ALL_REDUCE, 1e9, apart, profile).limiting is LinkClass.SYS


def test_between_nodes_the_network_limits_and_one_gpu_sends_nothing() -> None:
    profile = load_cluster("hgx-h100-8nic")
    two = placed_collective(
        Collective.ALL_REDUCE, 1e9, Placement(gpu_type="h100", gpus_per_node=(1, 1)), profile
    )
    one = placed_collective(
        Collective.ALL_REDUCE, 1e9, Placement(gpu_type="h100", gpus_per_node=(1,)), profile
    )
    assert two.limiting is LinkClass.NETWORK
    assert (one.time_s, one.limiting) == (0.0, LinkClass.SELF)


def test_the_link_that_cannot_be_avoided_grows_with_the_count() -> None:
    kind = load_cluster("pcie-pairwise-nvlink").node_types[0]
    assert [best_link(kind, count) for count in (1, 2, 3, 4)] == [
        LinkClass.SELF, LinkClass.NVLINK, LinkClass.SYS, LinkClass.SYS,
    ]  # fmt: skip


def test_chosen_gpus_share_an_island_and_leave_whole_ones_free() -> None:
    kind = load_cluster("pcie-pairwise-nvlink").node_types[0]
    hint = choose_gpus(kind, (0, 1, 2, 3), 2)
    assert (hint.gpus, hint.slowest, hint.cpu_bind) == ((0, 1), LinkClass.NVLINK, "0-31")
    assert hint.environment == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1", "NCCL_IB_HCA": "=mlx5_0",
    }  # fmt: skip
    assert choose_gpus(kind, (0, 2, 3), 1).gpus == (0,)  # its neighbour is taken: the pair stays whole
    with pytest.raises(ArgumentError, match="cannot be chosen"):
        choose_gpus(kind, (0, 1), 3)


@given(st.sets(st.integers(0, 7), min_size=1), st.data())
def test_chosen_gpus_are_free_and_as_many_as_asked(free: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(free)))
    hint = choose_gpus(load_cluster("dgx-a100").node_types[0], tuple(free), count)
    assert len(hint.gpus) == count
    assert set(hint.gpus) <= free


LEVELS = ("block", "rack")


def test_the_loosest_level_that_costs_little_is_asked_for() -> None:
    flat = choose_level(LEVELS, lambda level: {"": 0.97, "block": 0.98, "rack": 0.99, "host": 1.0}[level])
    assert (flat.level, flat.kueue, flat.slurm) == ("", None, ())
    rack = choose_level(
        LEVELS, lambda level: {"": 0.6, "block": 0.9, "rack": 0.96, "host": 1.0}[level], labels=("b", "r")
    )
    assert (rack.level, rack.is_required) == ("rack", False)
    assert rack.kueue == ("kueue.x-k8s.io/podset-preferred-topology", "r")
    assert rack.slurm == ("--switches=1",)
    host = choose_level(LEVELS, lambda level: {"": 0.3, "block": 0.4, "rack": 0.5, "host": 1.0}[level])
    assert (host.level, host.is_required, host.slurm) == ("host", True, ("--nodes=1",))


def test_throughputs_of_nothing_are_refused() -> None:
    with pytest.raises(ArgumentError, match="above 0"):
        choose_level(LEVELS, lambda _: 0.0)


def test_a_profile_without_costs_uses_nominal_ones() -> None:
    bare = replace(load_cluster("dgx-a100"), link_costs={}, network_costs=())
    found = placed_collective(
        Collective.ALL_REDUCE, 1e9, Placement(gpu_type="a100", gpus_per_node=(8,)), bare
    )
    assert 1e-3 < found.time_s < 2e-2

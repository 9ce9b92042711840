"""A collective on a placement takes as long as was measured, and never less over slower or fewer links."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeGroup, Placement
from predictor.data.clusters.collective_logs import read_collectives
from predictor.data.clusters.example_files import load_cluster
from predictor.errors import ArgumentError
from predictor.forecasting.topology.collectives import Collective, placed_collective
from predictor.forecasting.topology.nominal import card_share

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[5].parent / "shared" / "data"))

# workers per node and workers: mean relative error over all message sizes. Measured 0.16, 0.28, 0.10, 0.36 on
# this slow network; the lines fitted to each curve alone err by 0.03, 0.25, 0.10, 0.30.
ACROSS = {(1, 2): 0.20, (2, 4): 0.32, (4, 8): 0.13, (8, 16): 0.40}


@pytest.mark.shared_data
@pytest.mark.parametrize("key", ACROSS)
def test_the_profile_of_a_box_tells_measured_times_between_nodes(key: tuple[int, int]) -> None:
    path = SHARED / "topology" / "collectives_a100_dgx_all_reduce.csv.gz"
    if not path.is_file():
        pytest.skip("needs ../shared/data")
    per_node, workers = key
    profile, measured = load_cluster("dgx-a100"), read_collectives(path)
    part = measured[(measured["per_node"] == per_node) & (measured["workers"] == workers)]
    placement = Placement(gpu_type="a100", gpus_per_node=(per_node,) * (workers // per_node), shared_levels=0)
    told = [
        placed_collective(Collective.ALL_REDUCE, size, placement, profile).time_s
        for size in part["message_bytes"]
    ]
    assert np.mean(np.abs(np.array(told) / part["time_s"] - 1.0)) < ACROSS[key]


def h100(*counts: int, **more: object) -> Placement:
    return replace(Placement(gpu_type="h100", gpus_per_node=counts), **more)  # type: ignore[arg-type]


def time_s(placement: Placement, operation: Collective = Collective.ALL_REDUCE, size: float = 1e9) -> float:
    return placed_collective(operation, size, placement, load_cluster("hgx-h100-8nic")).time_s


def test_gpus_use_the_cards_beside_them() -> None:
    kind = load_cluster("dgx-a100").node_types[0]
    assert [card_share(kind, count) for count in (1, 2, 4, 8)] == [0.25, 0.5, 1.0, 1.0]
    assert card_share(kind, 2, (0, 1)) == 0.25  # both beside the same two cards
    far = load_cluster("pcie-pairwise-nvlink").node_types[0]
    assert card_share(far, 2, (2, 3)) == 1.0  # beside none: through the only one


def test_half_a_node_sends_at_half_the_speed_of_its_cards() -> None:
    size = 1e11  # so large that latency does not count
    whole = time_s(h100(8, 8, shared_levels=2), size=size)
    half = time_s(h100(4, 4, shared_levels=2), size=size)
    assert half / whole == pytest.approx(2 * (2 * 7 / 8) / (2 * 15 / 16), rel=0.01)


def test_an_all_to_all_sends_what_leaves_each_node() -> None:
    size = 16e9
    found = time_s(h100(8, 8, shared_levels=2), Collective.ALL_TO_ALL, size)
    assert found == pytest.approx(8 * 8 * 1e9 / 300e9, rel=0.01)


def test_a_message_from_node_to_node_takes_the_cards_of_one_gpu() -> None:
    found = time_s(h100(8, 8, shared_levels=2), Collective.SEND_RECV, 1e9)
    assert found == pytest.approx(75e-6 + 1e9 / (300e9 / 8))


def test_racks_apart_are_slower_than_one_rack_by_hosts_as_by_levels() -> None:
    near, far = h100(8, 8, hosts=("h100-01", "h100-02")), h100(8, 8, hosts=("h100-01", "h100-16"))
    assert time_s(near) == time_s(h100(8, 8, shared_levels=2))
    assert time_s(far) == time_s(h100(8, 8, shared_levels=1))
    assert time_s(near) < time_s(far)


@given(st.sampled_from(list(Collective)), st.permutations([1, 2, 4, 8]), st.floats(0, 1e10))
def test_the_order_and_the_names_of_nodes_do_not_matter(
    operation: Collective, counts: list[int], size: float
) -> None:
    hosts = tuple(f"h100-0{place + 1}" for place in range(4))
    first = time_s(h100(*counts, hosts=hosts), operation, size)
    second = time_s(h100(1, 2, 4, 8, hosts=hosts[::-1]), operation, size)
    assert first == pytest.approx(second)


@given(
    st.sampled_from(list(Collective)), st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.floats(0, 1e10), st.sampled_from(list(LinkClass)), st.floats(1, 100), st.floats(1, 100),
)  # fmt: skip
def test_no_slower_link_makes_a_placement_faster(
    operation: Collective, counts: list[int], size: float, link: LinkClass, later: float, slower: float
) -> None:
    profile, placement = load_cluster("hgx-h100-8nic"), h100(*counts)

    def worse(cost: LinkCost) -> LinkCost:
        return replace(
            cost, alpha_s=cost.alpha_s * later, bandwidth_bytes_per_s=cost.bandwidth_bytes_per_s / slower
        )

    costs = {one: worse(cost) if one is link else cost for one, cost in profile.link_costs.items()}
    network = profile.network_costs
    if link is LinkClass.NETWORK:
        network = tuple(map(worse, network))
    changed = replace(profile, link_costs=costs, network_costs=network)
    before = placed_collective(operation, size, placement, profile).time_s
    assert placed_collective(operation, size, placement, changed).time_s >= before * (1 - 1e-12)


def test_each_node_has_the_links_of_its_own_type() -> None:
    profile = load_cluster("hgx-h100-8nic")
    fast = profile.node_types[0]
    rows = tuple(tuple(LinkClass.SELF if a == b else LinkClass.SYS for b in range(8)) for a in range(8))
    slow = replace(fast, name="slow", links=rows)
    mixed = ClusterProfile(
        name="mixed", node_types=(fast, slow),
        groups=(NodeGroup(hosts="a[1-2]", node_type=fast.name), NodeGroup(hosts="b1", node_type="slow")),
    )  # fmt: skip
    links = [
        placed_collective(Collective.ALL_REDUCE, 1e9, h100(8, hosts=(host,)), mixed).limiting
        for host in ("a1", "b1")
    ]
    assert links == [LinkClass.NVSWITCH, LinkClass.SYS]


def test_every_fault_of_a_placement_is_named() -> None:
    wrong = h100(8, -1, hosts=("a",), gpu_indices=((0, 1),), shared_levels=-1)
    assert len(wrong.faults) == 4
    with pytest.raises(ArgumentError, match="1 hosts for 2 counts"):
        time_s(wrong)
    with pytest.raises(ArgumentError, match="do not exist"):
        time_s(h100(2, gpu_indices=((0, 9),)))
    assert h100(2, gpu_indices=((0, 7),)).faults == []

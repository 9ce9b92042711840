"""Cluster profiles survive a round trip, and a file with faults names all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.contracts.cluster import LinkClass, Placement
from predictor.contracts.hostlist import compress_hosts, expand_hosts
from predictor.data.clusters.cores import format_cores, read_cores
from predictor.data.clusters.example_files import example_names, load_cluster
from predictor.data.clusters.toml_file import parse_cluster, write_cluster
from predictor.errors import ArgumentError, FormatError


@pytest.mark.parametrize("name", example_names())
def test_an_example_reads_back_as_it_was_written(name: str) -> None:
    profile = load_cluster(name)
    assert parse_cluster(write_cluster(profile)) == profile


SIZES = {
    "dgx-a100": (1, 8), "hgx-h100-8nic": (16, 128), "kth-sp2": (100, 0), "lingjun-racks": (847, 6776),
    "pcie-pairwise-nvlink": (8, 32), "philly-11cb48": (8, 64),
}  # fmt: skip


def test_the_examples_have_the_sizes_that_they_stand_for() -> None:
    assert {
        name: (load_cluster(name).node_count, load_cluster(name).gpu_count) for name in example_names()
    } == SIZES


def test_nvlink_islands_are_found_from_the_links() -> None:
    assert load_cluster("pcie-pairwise-nvlink").node_types[0].islands == ((0, 1), (2, 3))
    assert load_cluster("dgx-a100").node_types[0].islands == (tuple(range(8)),)
    assert len(load_cluster("philly-11cb48").node_types[0].islands) == 8


def test_nodes_share_the_levels_of_their_domains() -> None:
    profile = load_cluster("hgx-h100-8nic")
    assert profile.shared_levels(("h100-01", "h100-02")) == 2
    assert profile.shared_levels(("h100-01", "h100-16")) == 1
    assert load_cluster("lingjun-racks").shared_levels(("host001", "host847")) == 1


def test_every_fault_of_a_file_is_named_at_once() -> None:
    text = """
    name = "x"
    levels = ["rack"]
    [[node_types]]
    name = "a"
    gpu_count = 2
    islands = [[0, 5]]
    nics = [{name = "n", gbit_per_s = 100, gpus = [9]}]
    [[groups]]
    hosts = "n[1-3]"
    node_type = "b"
    [[groups]]
    hosts = "n[3-4"
    node_type = "a"
    domains = ["r1"]
    [[links]]
    link = "WIRE"
    alpha_us = 1
    bandwidth_gb_per_s = 1
    """
    with pytest.raises(FormatError) as caught:
        parse_cluster(text)
    told = "\n".join(caught.value.faults)
    for part in ("GPU 5 of an island", "no gpu_type", "GPU 9 does not exist", "node type 'b' is not there",
                 "0 domains for 1 levels", "not well formed", "'WIRE' is no class"):  # fmt: skip
        assert part in told


@pytest.mark.parametrize(
    ("text", "told"),
    [("name = ", "no TOML"), ("name = 3\nnode_types = []", "faults"), ("nodes = 4", "faults")],
)
def test_a_file_that_is_no_profile_is_refused(text: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        parse_cluster(text)


def test_an_unknown_cluster_names_the_examples() -> None:
    with pytest.raises(ArgumentError, match="examples are dgx-a100"):
        load_cluster("no-such-thing")


@given(st.sets(st.integers(0, 300)))
def test_cores_survive_a_round_trip(cores: set[int]) -> None:
    assert read_cores(format_cores(tuple(cores))) == tuple(sorted(cores))


@given(st.lists(st.tuples(st.sampled_from(["gpu", "n-", "login"]), st.integers(0, 1200)), unique=True))
def test_host_lists_survive_a_round_trip(parts: list[tuple[str, int]]) -> None:
    names = [f"{head}{number:03d}" for head, number in parts]
    assert list(expand_hosts(compress_hosts(names))) == names


@pytest.mark.parametrize("text", ["gpu[3-1]", "gpu[a-b]", "gpu[1-2", "gpu]1[", "n[0-99999999]"])
def test_a_host_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        expand_hosts(text)


def test_links_order_from_fast_to_slow() -> None:
    assert LinkClass.NVSWITCH < LinkClass.NVLINK < LinkClass.PIX < LinkClass.SYS < LinkClass.NETWORK


def test_placements_that_differ_in_names_have_one_pattern() -> None:
    first = Placement(gpu_type="a100", gpus_per_node=(4, 2), hosts=("a", "b"))
    second = Placement(gpu_type="a100", gpus_per_node=(2, 0, 4), hosts=("x", "y", "z"))
    assert first.pattern == second.pattern == (2, 4)
    assert second.node_count == 2

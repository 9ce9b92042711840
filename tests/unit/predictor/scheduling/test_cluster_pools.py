"""This module tests how a cluster profile becomes pools."""

import pytest

from predictor.contracts.cluster import ClusterProfile, NodeGroup, NodeType
from predictor.data.clusters.example_files import example_names, load_cluster
from predictor.errors import ArgumentError
from predictor.scheduling.cluster_pools import cluster_pools


def test_nodes_of_one_processor_are_only_counted() -> None:
    (pool,) = cluster_pools(load_cluster("kth-sp2"))
    assert (pool.name, pool.total, pool.node_units) == ("cpu", 100, ())


def test_nodes_of_gpus_keep_their_places() -> None:
    (pool,) = cluster_pools(load_cluster("philly-11cb48"))
    assert (pool.gpu_type, pool.total, pool.node_units) == ("p100", 64, (8,) * 8)
    assert pool.vram_mib == 16384


def test_every_example_cluster_has_pools_of_all_its_gpus() -> None:
    for name in example_names():
        profile = load_cluster(name)
        pools = cluster_pools(profile)
        if profile.gpu_count:
            assert sum(pool.total for pool in pools if pool.gpu_type) == profile.gpu_count


def test_a_pool_of_two_gpu_types_is_split_and_named_after_them() -> None:
    types = (
        NodeType(name="a", gpu_type="a100", gpu_count=4),
        NodeType(name="v", gpu_type="v100", gpu_count=2),
        NodeType(name="login", cpus=1),
    )
    groups = (
        NodeGroup(hosts="a[1-2]", node_type="a", pool="train"),
        NodeGroup(hosts="v[1-3]", node_type="v", pool="train"),
        NodeGroup(hosts="l1", node_type="login"),
    )
    pools = cluster_pools(ClusterProfile(name="mixed", node_types=types, groups=groups))
    assert [(pool.name, pool.total) for pool in pools] == [
        ("train-a100", 8),
        ("train-v100", 6),
        ("default", 1),
    ]


def test_a_node_without_any_unit_is_refused() -> None:
    profile = ClusterProfile(
        name="empty", node_types=(NodeType(name="x"),), groups=(NodeGroup(hosts="x1", node_type="x"),)
    )
    with pytest.raises(ArgumentError, match="'x' has neither GPUs nor processors"):
        cluster_pools(profile)

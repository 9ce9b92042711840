"""GPUs of a node are chosen as well as trying all of them would, and levels only where jobs fit."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.cluster import LinkClass, NodeType, NumaDomain
from predictor.data.clusters.example_files import load_cluster
from predictor.data.clusters.toml_file import build_links
from predictor.errors import ArgumentError
from predictor.forecasting.topology.affinity import choose_gpus
from predictor.forecasting.topology.levels import choose_level

H100 = load_cluster("hgx-h100-8nic").node_types[0]
DGX2 = NodeType(
    name="dgx-2", gpu_type="v100", gpu_count=16,
    links=build_links(16, (tuple(range(16)),), LinkClass.NVSWITCH, (), None),
    numa=(NumaDomain(cores=tuple(range(24)), gpus=tuple(range(8))),
          NumaDomain(cores=tuple(range(24, 48)), gpus=tuple(range(8, 16)))),
)  # fmt: skip
PCIE8 = NodeType(
    name="pcie-8", gpu_type="a40", gpu_count=8,
    links=build_links(
        8, ((0, 1), (2, 3), (4, 5), (6, 7)), LinkClass.NVLINK, ((0, 1, 2, 3), (4, 5, 6, 7)), None,
    ),
)  # fmt: skip


def test_behind_one_switch_gpus_of_one_numa_node_are_chosen() -> None:
    hint = choose_gpus(H100, (3, 4, 5), 2)
    assert (hint.gpus, hint.numa, hint.nics) == ((4, 5), (1,), ("mlx5_4", "mlx5_5"))
    assert hint.cpu_bind == "96-191"


def test_a_task_per_gpu_is_bound_to_the_cores_of_its_gpu() -> None:
    hint = choose_gpus(load_cluster("pcie-pairwise-nvlink").node_types[0], (1, 2), 2)
    assert hint.slurm_cpu_bind == "mask_cpu:0xffffffff,0xffffffff00000000"
    bare = choose_gpus(PCIE8, (0, 1), 2)
    assert (bare.slurm_cpu_bind, bare.cpu_bind, bare.numa) == ("", "", ())


def test_half_of_sixteen_gpus_are_those_of_one_numa_node() -> None:
    assert choose_gpus(DGX2, tuple(range(16)), 8).numa == (0,)
    assert choose_gpus(DGX2, tuple(range(1, 16)), 8).gpus == tuple(range(8, 16))


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(0, 7), min_size=1), st.data())
def test_no_other_choice_has_faster_links(free: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(free)))
    hint = choose_gpus(PCIE8, tuple(free), count)

    def links(gpus: tuple[int, ...]) -> tuple[int, int]:
        return PCIE8.slowest_link(gpus), sum(PCIE8.link(a, b) for a, b in combinations(gpus, 2))

    assert links(hint.gpus) == min(map(links, combinations(sorted(free), count)))


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(8)), st.sets(st.integers(0, 7), min_size=2), st.data())
def test_other_numbers_of_the_same_gpus_give_links_as_good(
    order: list[int], free: set[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(free)))
    links = tuple(tuple(PCIE8.link(order[a], order[b]) for b in range(8)) for a in range(8))
    renamed = NodeType(name="renamed", gpu_type="a40", gpu_count=8, links=links)
    before = choose_gpus(PCIE8, tuple(free), count)
    after = choose_gpus(renamed, tuple(order.index(gpu) for gpu in free), count)
    assert before.slowest == after.slowest


LEVELS = ("block", "rack")


def test_a_job_larger_than_a_node_is_never_asked_onto_one() -> None:
    throughput = {"": 0.5, "block": 0.7, "rack": 1.0, "host": None}
    chosen = choose_level(LEVELS, lambda level: throughput[level])
    assert (chosen.level, chosen.is_required, chosen.slurm) == ("rack", True, ("--switches=1",))
    throughput = {"": 0.5, "block": 1.0, "rack": None, "host": None}
    chosen = choose_level(LEVELS, lambda level: throughput[level])
    assert (chosen.level, chosen.slurm) == ("block", ())  # Slurm asks for leaf switches only
    with pytest.raises(ArgumentError, match="above 0"):
        choose_level(LEVELS, lambda _: None)
    with pytest.raises(ArgumentError, match="1 labels for 2 levels"):
        choose_level(LEVELS, lambda _: 1.0, labels=("x",))


@given(st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4), st.floats(0.0, 0.5))
def test_the_level_costs_little_and_every_looser_one_costs_more(values: list[float], most: float) -> None:
    names = ("", *LEVELS, "host")
    throughput = dict(zip(names, values, strict=True))
    chosen = choose_level(LEVELS, lambda level: throughput[level], max_loss=most)
    losses = [1.0 - value / max(values) for value in values]
    at = names.index(chosen.level)
    assert losses[at] <= most + 1e-12
    assert all(loss > most for loss in losses[:at])
    assert (chosen.kueue is None) == (chosen.level == "")

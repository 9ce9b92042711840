"""Outputs of old, new and unusual versions of tools are read as what they mean."""

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, Nic, NodeGroup, NodeType
from predictor.contracts.hostlist import expand_hosts
from predictor.data.clusters.assemble import profile_of_kubernetes, profile_of_slurm
from predictor.data.clusters.collective_logs import parse_nccl_tests
from predictor.data.clusters.kubernetes_nodes import gpu_type_of, read_kubernetes_nodes
from predictor.data.clusters.nvidia_topology import parse_nvidia_topology
from predictor.data.clusters.slurm_nodes import read_slurm_nodes
from predictor.data.clusters.slurm_topology import read_slurm_topology
from predictor.data.clusters.toml_file import build_links, parse_cluster, write_cluster
from predictor.errors import ArgumentError, FormatError

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[5].parent / "shared" / "data"))


def matrix(codes: list[list[str]], tail: str = "") -> str:
    names = [f"GPU{place}" for place in range(len(codes))]
    rows = ["\t".join([name, *row, tail]) for name, row in zip(names, codes, strict=True)]
    return "\n".join(["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity", *rows])


def meshed(count: int, width: int) -> str:
    return matrix(
        [[" X " if a == b else f"NV{width}" for b in range(count)] for a in range(count)], "0-15\t0"
    )


@pytest.mark.parametrize(
    ("count", "width", "link"),
    [
        (4, 4, LinkClass.NVLINK),  # four A100 wired to each other, twelve links each
        (4, 6, LinkClass.NVLINK),  # four H100 wired to each other, eighteen links each
        (4, 12, LinkClass.NVSWITCH),  # half of a box of eight A100
        (16, 6, LinkClass.NVSWITCH),  # DGX-2
    ],
)
def test_a_switch_is_told_from_direct_links_by_how_many_links_a_gpu_has(
    count: int, width: int, link: LinkClass
) -> None:
    assert parse_nvidia_topology(meshed(count, width)).link(0, 1) is link


def test_a_hybrid_cube_mesh_is_one_island_without_a_switch() -> None:
    text = matrix([
        ["X", "NV1", "NV2", "SYS"], ["NV1", "X", "SYS", "NV2"], ["NV2", "SYS", "X", "NV1"],
        ["SYS", "NV2", "NV1", "X"],
    ])  # fmt: skip
    kind = parse_nvidia_topology(text)
    assert kind.islands == ((0, 1, 2, 3),)
    assert kind.link(0, 3) is LinkClass.SYS
    assert kind.numa == ()


def test_coloured_output_and_the_words_of_old_drivers_are_read() -> None:
    text = "\x1b[4m\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\x1b[0m\n"
    text += "GPU0\t X \tSOC\tPHB\t0-7,16-23\nGPU1\tSOC\t X \tSOC\t8-15,24-31\nmlx5_0\tPHB\tSOC\t X \t\n"
    kind = parse_nvidia_topology(text)
    assert kind.link(0, 1) is LinkClass.SYS
    assert [(nic.name, nic.gpus) for nic in kind.nics] == [("mlx5_0", (0,))]
    assert [domain.cores[8] for domain in kind.numa] == [16, 24]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["sinfo_2205.json.gz", "sinfo24.json.gz", "sinfo_2605.json.gz"])
def test_nodes_of_real_sinfo_are_those_of_scontrol(name: str) -> None:
    folder = SHARED / "slurm_captures"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data")

    def read(file: str) -> dict[str, tuple[str, int, int, int]]:
        nodes = read_slurm_nodes(gzip.decompress((folder / file).read_bytes()).decode())
        return {node.name: (node.gpu_type, node.gpu_count, node.cpus, node.memory_mib) for node in nodes}

    assert read(name) == read("nodes24.json.gz")


def test_a_drained_node_is_down_in_every_version() -> None:
    old = {"nodes": [{"name": "a", "state": "idle", "state_flags": ["DRAIN"], "partitions": ["p"]}]}
    new = {"nodes": [{"name": "a", "state": ["IDLE", "DRAIN"], "partitions": ["p"]}]}
    grouped = {"sinfo": [{"node": {"state": ["DOWN"]}, "nodes": {"nodes": ["a"]}}]}
    for document in (old, new, grouped):
        assert [node.is_up for node in read_slurm_nodes(json.dumps(document))] == [False]
    with pytest.raises(FormatError, match="names no nodes"):
        read_slurm_nodes('{"sinfo": []}')


def test_larger_block_sizes_are_levels_above_the_block() -> None:
    text = "\n".join([f"BlockName=b{k} Nodes=n[{4 * k + 1}-{4 * k + 4}]" for k in range(4)])
    tree = read_slurm_topology(text + "\nBlockSizes=4,8,16")
    assert tree.levels == ("4-blocks", "2-blocks", "block")
    assert tree.domains["n1"] == ("4-blocks-1", "2-blocks-1", "b0")
    assert tree.domains["n9"] == ("4-blocks-1", "2-blocks-2", "b2")


def test_nodes_outside_of_the_tree_share_nothing() -> None:
    text = "\n".join(f"NodeName=n{k} CPUTot=8 RealMemory=1000 State=IDLE Partitions=p" for k in (1, 2, 3, 4))
    profile = profile_of_slurm(read_slurm_nodes(text), read_slurm_topology("SwitchName=s Nodes=n[1-2]"))
    assert profile.shared_levels(("n1", "n2")) == 1
    assert profile.shared_levels(("n3", "n4")) == 0
    assert profile.shared_levels(("n1", "elsewhere")) == 0
    assert profile.shared_levels(("n1",)) == 1
    assert parse_cluster(write_cluster(profile)) == profile


def test_a_matrix_of_another_size_than_the_nodes_is_an_error() -> None:
    nodes = read_slurm_nodes("NodeName=n1 CPUTot=8 RealMemory=1 State=IDLE Gres=gpu:a100:4")
    with pytest.raises(ArgumentError, match=r"4 x a100 are not described by a matrix of 2"):
        profile_of_slurm(nodes, boxes={"a100": parse_nvidia_topology(meshed(2, 12))})
    with pytest.raises(FormatError, match="no node is up"):
        profile_of_slurm([])


def test_counts_and_names_that_cannot_be_are_refused_before_they_cost_memory() -> None:
    line = "NodeName={0} CPUTot=8 RealMemory=1 State=IDLE Gres=gpu:a100:{1}\n"
    with pytest.raises(FormatError, match="256 GPUs at most"):
        profile_of_slurm(read_slurm_nodes(line.format("n1", 99999)))
    with pytest.raises(FormatError, match="2 faults") as caught:
        profile_of_slurm(read_slurm_nodes(line.format("n1", 4) * 2 + line.format("n[3", 2)))
    assert "two groups" in str(caught.value) or "not well formed" in str(caught.value)
    with pytest.raises(ArgumentError, match="more than"):
        expand_hosts("n[1-100000][1-100000][1-100000]")


@pytest.mark.parametrize(
    ("label", "short"),
    [("NVIDIA-A10G", "a10g"), ("NVIDIA-GeForce-RTX-2080-Ti", "rtx-2080-ti"), ("Tesla-K80", "k80"),
     ("NVIDIA-H100-80GB-HBM3", "h100"), ("NVIDIA-B200", "b200"), ("AMD_Instinct_MI300X", "mi300x"),
     ("NVIDIA-GH200-480GB", "gh200"), ("", "gpu")],
)  # fmt: skip
def test_odd_product_labels_become_short_types(label: str, short: str) -> None:
    assert gpu_type_of(label) == short


def test_nodes_with_amd_gpus_and_without_any_are_read() -> None:
    ready = [{"type": "Ready", "status": "True"}]
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}
    capacity = {"cpu": "96", "memory": "2Ti", "amd.com/gpu": "8"}
    amd = {
        "metadata": {"name": "a", "labels": labels}, "status": {"capacity": capacity, "conditions": ready},
    }  # fmt: skip
    plain = {"metadata": {"name": "b"}, "status": {"capacity": {"cpu": "3500m", "memory": "16000000Ki"},
             "conditions": ready}, "spec": {}}  # fmt: skip
    cordoned = {**plain, "metadata": {"name": "c"}, "spec": {"unschedulable": True}}
    levels, nodes = read_kubernetes_nodes(json.dumps({"items": [amd, plain, cordoned]}))
    assert [(node.gpu_type, node.gpu_count, node.cpus, node.is_up) for node in nodes] == [
        ("mi300x", 8, 96, True), ("", 0, 3, True), ("", 0, 3, False),
    ]  # fmt: skip
    profile = profile_of_kubernetes(levels, nodes)
    assert (profile.node_count, profile.gpu_count) == (2, 8)
    assert parse_cluster(write_cluster(profile)) == profile


RANKS = "".join(
    f"#  Rank {k:2} Group  0 Pid {k} on node{k // 2} device  {k % 2} [0x07] GPU\n" for k in range(4)
)
NEW = "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
OLD = "#       size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"


def test_times_of_ten_milliseconds_and_more_have_no_decimal_point() -> None:
    text = RANKS + NEW + "1073741824 268435456 float sum -1 87123 12.32 18.49 0 87001 12.34 18.51 N/A\n"
    found = parse_nccl_tests("# Collective test starting: all_reduce_perf\n" + text)
    assert found["time_s"].tolist() == [pytest.approx(0.087123)]
    assert found[["workers", "per_node"]].to_numpy().tolist() == [[4, 2]]


@pytest.mark.parametrize(
    ("line", "operation"),
    [("sum -1 100.0 10.0 15.0", "all_reduce"), ("sum -1 100.0 10.0 7.5", "reduce_scatter"),
     ("none -1 100.0 10.0 7.5", "all_gather"), ("none -1 100.0 10.0 10.0", "send_recv")],
)  # fmt: skip
def test_an_output_without_the_name_of_the_program_is_told_by_its_columns(line: str, operation: str) -> None:
    found = parse_nccl_tests(f"{RANKS}{NEW}1000000 250000 float {line} 0 99.0 10.1 15.1 0\n")
    assert found["operation"].tolist() == [operation]


def test_the_columns_of_old_versions_are_found_by_their_heads() -> None:
    found = parse_nccl_tests(
        f"{RANKS}{OLD}1000000 250000 float sum 100.0 10.0 15.0 0e+00 99 10.1 15.1 0e+00\n"
    )
    assert found["time_s"].tolist() == [pytest.approx(1e-4)]
    assert found["operation"].tolist() == ["all_reduce"]


def test_a_damaged_table_is_refused() -> None:
    with pytest.raises(FormatError, match="damaged line"):
        parse_nccl_tests(f"{RANKS}{OLD}1000000 250000 float sum oops 10.0 15.0 0e+00 99 10.1 15.1 0e+00\n")
    with pytest.raises(FormatError, match="no line of results"):
        parse_nccl_tests(RANKS + OLD)
    with pytest.raises(FormatError, match="damaged line"):
        parse_nccl_tests(f"{RANKS}{OLD}1000000 250000 float sum 10.0 x 15.0 0e+00 99 10.1 15.1 0e+00\n")


costs = st.builds(
    LinkCost, alpha_s=st.integers(0, 10**6).map(lambda k: k / 1e9),
    bandwidth_bytes_per_s=st.integers(1, 10**6).map(lambda k: k * 1e6),
    source=st.sampled_from(["nominal", "measured", "fitted"]), error_ratio=st.none() | st.floats(0, 10),
)  # fmt: skip
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(
    name=words, count=st.integers(1, 4), gbit=st.floats(0.1, 1e4), cost=costs,
    network=st.lists(costs, max_size=2), domain=words, pool=st.text(st.characters(codec="utf-8"), max_size=4),
)  # fmt: skip
def test_any_profile_survives_a_round_trip(
    name: str, count: int, gbit: float, cost: LinkCost, network: list[LinkCost], domain: str, pool: str
) -> None:
    kind = NodeType(
        name=name, gpu_type="x1", gpu_count=count,
        links=build_links(count, (), LinkClass.NVLINK, (), LinkClass.PHB),
        nics=(Nic(name=name, gbit_per_s=float(f"{gbit:.12g}"), gpus=(0,)),),
    )  # fmt: skip
    profile = ClusterProfile(
        name=name, node_types=(kind,), levels=(domain,), link_costs={LinkClass.PHB: cost},
        groups=(NodeGroup(hosts="n[1-3]", node_type=name, domains=(domain,), pool=pool),),
        network_costs=tuple(network),
    )  # fmt: skip
    again = parse_cluster(write_cluster(profile))
    assert write_cluster(again) == write_cluster(profile)
    assert (again.node_types, again.groups, again.levels) == (
        profile.node_types,
        profile.groups,
        profile.levels,
    )
    assert again.link_costs[LinkClass.PHB].alpha_s == pytest.approx(cost.alpha_s, rel=1e-9)

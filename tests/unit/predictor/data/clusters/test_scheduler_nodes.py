"""Nodes, links and levels are read from what schedulers and tools print."""

import gzip
import json
import os
from pathlib import Path

import pytest

from predictor.contracts.cluster import LinkClass
from predictor.data.clusters.assemble import profile_of_kubernetes, profile_of_slurm
from predictor.data.clusters.collective_logs import parse_nccl_tests
from predictor.data.clusters.kubernetes_nodes import gpu_type_of, read_kubernetes_nodes, read_topology_levels
from predictor.data.clusters.nvidia_topology import parse_nvidia_topology
from predictor.data.clusters.slurm_nodes import read_gres, read_slurm_nodes
from predictor.data.clusters.slurm_topology import read_slurm_topology
from predictor.data.clusters.toml_file import parse_cluster, write_cluster
from predictor.errors import FormatError

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[5].parent / "shared" / "data"))

TOPO = """\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tSYS\tSYS\tPIX\tSYS\t0-31\t0\t\tN/A
GPU1\tNV4\t X \tSYS\tSYS\tPXB\tSYS\t0-31\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV4\tSYS\tPIX\t32-63\t1\t\tN/A
GPU3\tSYS\tSYS\tNV4\t X \tSYS\tPIX\t32-63\t1\t\tN/A
NIC0\tPIX\tPXB\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPIX\tPIX\tSYS\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def test_a_matrix_of_nvidia_smi_gives_islands_numa_and_cards() -> None:
    kind = parse_nvidia_topology(TOPO, gpu_type="A100")
    assert kind.islands == ((0, 1), (2, 3))
    assert kind.link(0, 2) is LinkClass.SYS
    assert [(nic.name, nic.gpus) for nic in kind.nics] == [("mlx5_0", (0,)), ("mlx5_1", (2, 3))]
    assert [(domain.cores[0], domain.cores[-1], domain.gpus) for domain in kind.numa] == [
        (0, 31, (0, 1)), (32, 63, (2, 3)),
    ]  # fmt: skip
    assert (kind.gpu_type, kind.cpus) == ("a100", 64)


def test_full_nvlink_among_many_is_a_switch() -> None:
    names = [f"GPU{k}" for k in range(8)]
    rows = [
        "\t".join([name, *(" X " if other == name else "NV18" for other in names), "0-95"]) for name in names
    ]
    kind = parse_nvidia_topology("\n".join(["\t" + "\t".join(names) + "\tCPU Affinity", *rows]))
    assert kind.link(0, 7) is LinkClass.NVSWITCH
    assert kind.islands == (tuple(range(8)),)


@pytest.mark.parametrize(
    ("text", "told"),
    [("nothing", "no matrix"), (TOPO.replace("GPU3\tSYS\tSYS\tNV4", "GPU3\tSYS\tBUS\tNV4"), "1 faults"),
     (TOPO.replace("GPU2\tSYS\tSYS\t X \tNV4\tSYS\tPIX\t32-63\t1\t\tN/A\n", ""), "1 faults")],
)  # fmt: skip
def test_a_damaged_matrix_is_refused(text: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        parse_nvidia_topology(text)


SCONTROL = """NodeName=g1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUEfctv=64 CPUTot=64 CPULoad=0.10
   Gres=gpu:a100:4(S:0-1)
   RealMemory=512000 AllocMem=0 State=MIXED ThreadsPerCore=1
   Partitions=gpu,all

NodeName=g2 CPUTot=64 Gres=gpu:a100:4 RealMemory=512000 State=IDLE+DRAIN Partitions=gpu
NodeName=c1 CPUTot=128 Gres=(null) RealMemory=256000 State=IDLE Partitions=cpu
"""


def test_nodes_of_scontrol_are_read_in_both_shapes_and_drained_ones_left_out() -> None:
    nodes = read_slurm_nodes(SCONTROL)
    assert [(node.name, node.gpu_type, node.gpu_count, node.is_up) for node in nodes] == [
        ("g1", "a100", 4, True), ("g2", "a100", 4, False), ("c1", "", 0, True),
    ]  # fmt: skip
    tree = read_slurm_topology("SwitchName=s0 Switches=s1\nSwitchName=s1 Nodes=g[1-2],c1")
    profile = profile_of_slurm(nodes, tree)
    assert (profile.node_count, profile.gpu_count, profile.levels) == (2, 4, ("block", "rack"))
    assert parse_cluster(write_cluster(profile)) == profile


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["nodes24.json.gz", "nodes_2605.json.gz"])
def test_nodes_of_real_scontrol_json_are_read(name: str) -> None:
    path = SHARED / "slurm_captures" / name
    if not path.is_file():
        pytest.skip("needs ../shared/data")
    profile = profile_of_slurm(read_slurm_nodes(gzip.decompress(path.read_bytes()).decode()))
    assert {"a100", "h100"} <= set(profile.gpu_types)
    assert profile.gpu_count == 24


def test_gres_counts_are_summed() -> None:
    assert read_gres("gpu:4") == ("gpu", 4)
    assert read_gres("gpu:h100:8(S:0-1),shard:32") == ("h100", 8)
    assert read_gres("(null)") == ("", 0)


def test_blocks_and_trees_of_topology_conf_are_read() -> None:
    blocks = read_slurm_topology("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2")
    assert blocks.levels == ("block",)
    assert blocks.domains == {"n1": ("b1",), "n2": ("b1",), "n3": ("b2",)}
    tree = read_slurm_topology(
        "SwitchName=leafa Nodes=a[1-2]\nSwitchName=leafh Nodes=h1\n"
        "SwitchName=top Switches=leafa,leafh Nodes=a[1-2],h1"
    )
    assert tree.domains == {"a1": ("top", "leafa"), "a2": ("top", "leafa"), "h1": ("top", "leafh")}


@pytest.mark.parametrize(
    ("text", "told"),
    [("PartitionName=x", "neither"), ("SwitchName=a Switches=b", "faults"),
     ("SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n1", "faults"),
     ("BlockName=a Nodes=n1\nBlockName=b Nodes=n1", "faults")],
)  # fmt: skip
def test_a_topology_that_is_none_is_refused(text: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        read_slurm_topology(text)


def kubernetes_node(name: str, rack: str, *, ready: str = "True") -> dict[str, object]:
    return {
        "metadata": {"name": name, "labels": {
            "cloud.provider.com/topology-block": "b1", "cloud.provider.com/topology-rack": rack,
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}},
        "spec": {},
        "status": {"capacity": {"cpu": "192", "memory": "2113536Mi", "nvidia.com/gpu": "8"},
                   "conditions": [{"type": "Ready", "status": ready}]},
    }  # fmt: skip


def test_nodes_of_kubernetes_give_a_profile_by_their_labels() -> None:
    items = [
        kubernetes_node("n1", "r1"),
        kubernetes_node("n2", "r2"),
        kubernetes_node("n3", "r2", ready="False"),
    ]
    levels, nodes = read_kubernetes_nodes(json.dumps({"items": items}))
    profile = profile_of_kubernetes(levels, nodes)
    assert levels == ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack")
    assert (profile.node_count, profile.gpu_count, profile.gpu_types) == (2, 16, ("h100",))
    assert profile.shared_levels(("n1", "n2")) == 1
    assert profile.node_types[0].gpu_memory_mib == 81559


def test_levels_of_a_kueue_topology_are_its_labels_without_the_host() -> None:
    text = json.dumps({"spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "kubernetes.io/hostname"}]}})
    assert read_topology_levels(text) == ("block",)
    with pytest.raises(FormatError, match="no Kueue Topology"):
        read_topology_levels("{}")


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("Tesla-T4", "t4"),
        ("NVIDIA-L40S", "l40s"),
        ("NVIDIA-GB200", "gb200"),
    ],
)
def test_product_labels_become_short_types(label: str, short: str) -> None:
    assert gpu_type_of(label) == short


def test_a_table_of_nccl_tests_gives_times() -> None:
    text = """# nThread 1 nGpus 2 minBytes 8 maxBytes 64
#  all_reduce_perf
#  Rank  0 Group  0 Pid  1 on  nodea device  0 [0x07] NVIDIA A100
#  Rank  1 Group  0 Pid  1 on  nodea device  1 [0x0f] NVIDIA A100
#       size         count      type   redop    root     time   algbw   busbw #wrong
        1024       256   float   sum   -1    12.10    0.08    0.08    0    11.9    0.09    0.09    0
     1048576    262144   float   sum   -1    21.50   48.77   48.77    0    21.4    49.0    49.0    0
"""
    found = parse_nccl_tests(text)
    assert found["time_s"].tolist() == pytest.approx([12.1e-6, 21.5e-6])
    assert found[["workers", "per_node"]].drop_duplicates().to_numpy().tolist() == [[2, 2]]
    with pytest.raises(FormatError, match="0 tables and 0 ranks"):
        parse_nccl_tests("size time")

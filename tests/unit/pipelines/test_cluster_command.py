"""``predictor cluster`` shows, imports and measures; what it cannot use is one message and exit code 2."""

import json
from pathlib import Path

import pytest

from predictor.cli import main
from predictor.data.clusters.example_files import example_names, load_cluster
from predictor.data.clusters.toml_file import parse_cluster, read_cluster, write_cluster

RANKS = "".join(f"#  Rank {k} Group 0 Pid {k} on node1 device  {k} [0x07] GPU\n" for k in range(4))
HEAD = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"


def nccl_output(alpha_us: float = 30.0, gb_per_s: float = 150.0) -> str:
    rows = []
    for size in (2**k for k in range(10, 31, 2)):
        time_us = alpha_us + 1.5 * size / gb_per_s / 1e3
        algbw = size / time_us / 1e3
        rows.append(
            f"{size} {size // 4} float sum -1 {time_us:.2f} {algbw:.2f} {1.5 * algbw:.2f} 0 1.0 1.0 1.5 0"
        )
    return "# all_reduce_perf\n" + RANKS + HEAD + "\n".join(rows) + "\n"


@pytest.mark.parametrize("name", example_names())
def test_every_example_is_drawn(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "box.png"
    assert main(["cluster", "show", name, "--plot", str(picture)]) == 0
    drawn = capsys.readouterr().out
    assert f"{load_cluster(name).node_count:,} node" in drawn
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_is_shown_as_json_is_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "show", "pcie-pairwise-nvlink", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["nodes"], shown["gpus"]) == (8, 32)
    assert shown["node_types"][0]["islands"] == [[0, 1], [2, 3]]
    assert main(["cluster", "examples", "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} == set(example_names())


def test_nodes_of_slurm_and_a_matrix_become_a_file(tmp_path: Path) -> None:
    (tmp_path / "nodes.txt").write_text(
        "NodeName=n1 CPUTot=64 RealMemory=500000 State=IDLE Gres=gpu:a100:2 Partitions=gpu\n"
        "NodeName=n2 CPUTot=64 RealMemory=500000 State=IDLE Gres=gpu:a100:2 Partitions=gpu\n"
    )
    (tmp_path / "topology.conf").write_text("SwitchName=s1 Nodes=n[1-2]\n")
    (tmp_path / "matrix.txt").write_text(
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV12\t0-31\nGPU1\tNV12\tX\t0-31\n"
    )
    out = tmp_path / "my.toml"
    arguments = ["cluster", "import", "--slurm-nodes", str(tmp_path / "nodes.txt"), "--name", "my"]
    arguments += ["--slurm-topology", str(tmp_path / "topology.conf")]
    arguments += ["--nvidia", f"a100={tmp_path / 'matrix.txt'}", "--out", str(out)]
    assert main(arguments) == 0
    profile = read_cluster(out)
    assert (profile.name, profile.gpu_count, profile.levels) == ("my", 4, ("rack",))
    assert profile.node_types[0].islands == ((0, 1),)


def test_fitted_links_are_printed_and_go_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inside.txt").write_text(nccl_output())
    assert main(["cluster", "fit-links", str(tmp_path / "inside.txt"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["operation"], row["workers"], row["per_node"]) == ("all_reduce", 4, 4)
    assert row["alpha_us"] == pytest.approx(30.0, rel=0.01)
    assert row["bandwidth_gb_per_s"] == pytest.approx(150.0, rel=0.01)
    assert main(["cluster", "fit-links", str(tmp_path / "inside.txt"), "--toml", "--link", "NVLINK"]) == 0
    tables = capsys.readouterr().out
    profile = parse_cluster(write_cluster(load_cluster("philly-11cb48")) + tables)
    (cost,) = profile.link_costs.values()
    assert cost.source == "fitted"


def test_affinity_prints_what_a_launcher_can_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "affinity", "dgx-a100", "--free", "1,4,5", "--gpus", "2"]) == 0
    assert "export CUDA_VISIBLE_DEVICES=4,5\n" in capsys.readouterr().out
    assert main(["cluster", "affinity", "dgx-a100", "--gpus", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == list(range(8))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "nowhere"], "examples are"),
        (["show", "kth-sp2", "--plot", "/nowhere/at/all.png"], "picture cannot be written"),
        (["show", "kth-sp2", "--plot", "picture.words"], "picture cannot be written"),
        (["import", "--out", "x.toml"], "either --slurm-nodes or --kubernetes-nodes"),
        (["import", "--slurm-nodes", "nowhere.txt", "--out", "x.toml"], "cannot be read"),
        (["fit-links", "nowhere.txt"], "cannot be read"),
        (["fit-links", "nowhere.txt", "--link", "WIRE"], "is no class"),
        (["affinity", "kth-sp2", "--gpus", "1"], "it has no GPUs"),
        (["affinity", "dgx-a100", "--gpus", "9"], "cannot be chosen"),
        (["affinity", "dgx-a100", "--gpus", "1", "--free", "a"], "--free 'a' cannot be read"),
    ],
)
def test_what_cannot_be_used_is_one_message(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", *arguments]) == 2
    assert told in capsys.readouterr().err

"""This module checks topology fit on sizes it never saw: trained on placements, asked how many nodes to take.

``python benchmarks/topology_sizes.py --data DIR`` prints a table of regret. The second set has step times by
number of nodes, of up to 48 GPUs on 16 nodes; how GPUs lie on them is not said and taken as even.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.cluster import Placement
from predictor.contracts.topology import TopologyJob
from predictor.data.measurements.placements import PARAMETERS, read_placements
from predictor.evaluation.topology_scores import log_relative_throughput, regret_by, regrets
from predictor.forecasting.topology.forecaster import TopologyForecaster

FloatArray = npt.NDArray[np.float64]
KEYS = ["app", "cluster", "local_bsz", "num_replicas"]


def candidates(path: Path) -> pd.DataFrame:
    """Return step times by number of nodes, repeats averaged, in groups of at least two numbers."""
    frame = pd.read_csv(path)
    frame = frame[frame["app"].isin(PARAMETERS) & (frame["num_replicas"] >= 2)]
    frame = frame.groupby([*KEYS, "num_nodes"])["step_time"].mean().reset_index()
    frame = frame[frame.groupby(KEYS)["num_nodes"].transform("size") > 1].reset_index(drop=True)
    return frame.assign(group=frame.groupby(KEYS).ngroup())


def even(gpus: int, nodes: int) -> tuple[int, ...]:
    """Return GPUs per node where they are spread evenly."""
    return tuple(gpus // nodes + (node < gpus % nodes) for node in range(nodes))


def ours(model: TopologyForecaster, frame: pd.DataFrame, alone_s: "pd.Series[float]") -> FloatArray:
    """Return the natural log of the score of each row, shape (n,)."""
    score = np.zeros(len(frame))
    for _, rows in frame.groupby("group"):
        first = rows.iloc[0]
        job = TopologyJob(
            signature=str(first["app"]), local_batch=float(first["local_bsz"]),
            one_gpu_step_s=float(alone_s.get((first["app"], first["cluster"], first["local_bsz"]), math.nan)),
            gradient_bytes=4.0 * PARAMETERS[first["app"]],
        )  # fmt: skip
        asked = [
            Placement(gpu_type="", gpus_per_node=even(int(gpus), int(nodes)))
            for gpus, nodes in zip(rows["num_replicas"], rows["num_nodes"], strict=True)
        ]
        for one in model.rank(job, asked, cluster=str(first["cluster"])):
            score[rows.index[one.index]] = math.log(one.score)
    return score


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data / "topology"
    measured = pd.read_csv(folder / "placements.csv.gz", dtype={"placement": "str"}, low_memory=False)
    frame = candidates(folder / "scalability.csv.gz")
    group = frame["group"].to_numpy(dtype=np.intp)
    actual = log_relative_throughput(-np.log(frame["step_time"].to_numpy()), group)
    alone_s = measured[measured["placement"] == "1"].groupby(KEYS[:3])["step_time"].mean()
    nodes, gpus = frame["num_nodes"].to_numpy(dtype=np.float64), frame["num_replicas"].to_numpy()
    scores = {
        "ours": ours(TopologyForecaster.fit(read_placements(measured).runs), frame, alone_s),
        "smallest_max_per_node": -np.log(np.ceil(gpus / nodes)),
        "random": np.zeros(len(frame)),
        "fewest_nodes": -np.log(nodes),
    }
    clusters = frame["cluster"].to_numpy(dtype=np.str_)
    names = sorted(set(clusters.tolist()))
    print(f"{len(frame):,} candidates in {group.max() + 1:,} groups")
    print("| model | regret | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 2) + "|")
    for name, score in scores.items():
        by = regret_by(score, actual, group, clusters)
        mean = float(regrets(score, actual, group).mean())
        print(f"| {name} | {mean:.4f} | " + " | ".join(f"{by[one]:.4f}" for one in names) + " |")


if __name__ == "__main__":
    main()

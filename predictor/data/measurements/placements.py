"""This module reads measured step times by placement, in the layout of Pollux."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.contracts.topology import PlacementRuns
from predictor.errors import EmptyInputError, SchemaError

COLUMNS = ("placement", "local_bsz", "step_time", "app", "cluster")
# parameters of the programs, float32 gradients; published counts, but ncf, which is a guess
PARAMETERS = {"bert": 110e6, "cifar10": 11.2e6, "imagenet": 25.6e6, "ncf": 1.6e6, "yolov3": 62e6}
_LEFT_OUT = "gpt_pmp"  # simulated pipelines, not measured placements
_KEYS = ["app", "cluster", "gpus", "local_bsz"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementMeasurements:
    """Runs that can be compared, repeats averaged.

    Attributes:
        runs: rows on two GPUs or more, in groups of at least two placements.
        placements: the text of the placement of each run, such as ``"134"``.
        quarantined: rows left out, by reason.
    """

    runs: PlacementRuns
    placements: tuple[str, ...]
    quarantined: Mapping[str, int]


def read_placements(frame: pd.DataFrame) -> PlacementMeasurements:
    """Return the runs of a table whose digits of ``placement`` are GPUs per node.

    Raises:
        SchemaError: columns are missing.
        EmptyInputError: nothing can be compared.
    """
    absent = [name for name in COLUMNS if name not in frame.columns]
    if absent:
        raise SchemaError(f"a table of placements needs {', '.join(COLUMNS)}; it lacks {', '.join(absent)}")
    text = frame["placement"].astype("str")
    left_out = frame["app"].astype("str").str.contains(_LEFT_OUT) | frame["cluster"].astype(
        "str"
    ).str.contains(_LEFT_OUT)
    bad = ~text.str.fullmatch(r"[0-9]*[1-9][0-9]*") | ~(frame["step_time"] > 0)
    kept = frame[~left_out & ~bad].assign(placement=text)
    kept = kept.assign(gpus=[sum(map(int, pattern)) for pattern in kept["placement"]])
    kept["node_gpus"] = [max(map(int, pattern)) for pattern in kept["placement"]]
    kept["node_gpus"] = kept.groupby("cluster")["node_gpus"].transform("max")
    alone = kept[kept["gpus"] == 1].groupby(["app", "cluster", "local_bsz"])["step_time"].mean()
    spread = (
        kept[kept["gpus"] >= 2]
        .groupby([*_KEYS, "placement", "node_gpus"], sort=True)["step_time"]
        .mean()
        .reset_index()
    )
    single = spread.groupby(_KEYS)["placement"].transform("size") < 2
    rows = spread[~single].join(alone.rename("alone"), on=["app", "cluster", "local_bsz"])
    if rows.empty:
        raise EmptyInputError("no two placements of the same job and number of GPUs: nothing to compare")
    apps = rows["app"].astype("str")
    return PlacementMeasurements(
        runs=PlacementRuns(
            clusters=tuple(rows["cluster"].astype("str")), signatures=tuple(apps),
            patterns=tuple(tuple(map(int, pattern)) for pattern in rows["placement"]),
            node_gpus=rows["node_gpus"].to_numpy(dtype=np.float64),
            local_batch=rows["local_bsz"].to_numpy(dtype=np.float64),
            step_time_s=rows["step_time"].to_numpy(dtype=np.float64),
            one_gpu_step_s=rows["alone"].to_numpy(dtype=np.float64),
            gradient_bytes=np.array([4.0 * PARAMETERS.get(app, np.nan) for app in apps]),
        ),
        placements=tuple(rows["placement"]),
        quarantined={
            f"of {_LEFT_OUT}": int(left_out.sum()),
            "no placement or step time": int((bad & ~left_out).sum()),
            "only placement of its group": int(single.sum()),
        },
    )  # fmt: skip

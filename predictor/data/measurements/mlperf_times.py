"""This module reads times to train: one per MLPerf round, organisation, system and benchmark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.data.sources.mlperf import PUBLISHED
from predictor.errors import EmptyInputError, SchemaError

COLUMNS = (
    "round", "org", "system", "benchmark", "duration_s", "run_status", "sys_number_of_nodes",
    "sys_accelerators_per_node", "sys_accelerator_model_name",
)  # fmt: skip
_TYPES = re.compile(
    r"gb200|gb300|b200|b300|h200|h100|a100|a30|a10|l40s|l40|v100|t4|gaudi\s?\d?|gc200|tpu|mi\d{3}x?|ipu|rtx"
)
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MlperfTimes:
    """n results; the time is the median over the successful runs (seeds) of one submission.

    Attributes:
        rounds: n names, such as ``training-v4.0``.
        published: n months, ``YYYY-MM``.
        quarantined: rows left out, by reason.
    """

    rounds: tuple[str, ...]
    published: tuple[str, ...]
    benchmarks: tuple[str, ...]
    gpu_types: tuple[str, ...]
    organisations: tuple[str, ...]
    accelerators: FloatArray
    nodes: FloatArray
    duration_s: FloatArray
    quarantined: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.rounds)


def read_mlperf_times(frame: pd.DataFrame) -> MlperfTimes:
    """Return the results of a table of MLPerf runs.

    Raises:
        SchemaError: columns are missing.
        EmptyInputError: no run is usable.
    """
    absent = [name for name in COLUMNS if name not in frame.columns]
    if absent:
        raise SchemaError(f"a table of MLPerf runs needs {', '.join(COLUMNS)}; it lacks {', '.join(absent)}")
    ended = (frame["run_status"] == "success") & (frame["duration_s"] > 0)
    sized = (frame["sys_number_of_nodes"] > 0) & (frame["sys_accelerators_per_node"] > 0)
    named = frame["sys_accelerator_model_name"].notna() & frame["round"].isin(list(PUBLISHED))
    keys = ["round", "org", "system", "benchmark"]
    kept = frame[ended & sized & named]
    if kept.empty:
        raise EmptyInputError("no successful run says its accelerators, nodes and round")
    rows = (
        kept.groupby(keys)
        .agg(
            duration_s=("duration_s", "median"),
            nodes=("sys_number_of_nodes", "first"),
            per_node=("sys_accelerators_per_node", "first"),
            name=("sys_accelerator_model_name", "first"),
        )
        .reset_index()
    )
    rounds = tuple(rows["round"].astype("str"))
    nodes = rows["nodes"].to_numpy(dtype=np.float64)
    return MlperfTimes(
        rounds=rounds, published=tuple(PUBLISHED[name] for name in rounds),
        benchmarks=tuple(rows["benchmark"].astype("str")),
        gpu_types=tuple(gpu_type(name) for name in rows["name"].astype("str")),
        organisations=tuple(rows["org"].astype("str")), nodes=nodes,
        accelerators=nodes * rows["per_node"].to_numpy(dtype=np.float64),
        duration_s=rows["duration_s"].to_numpy(dtype=np.float64),
        quarantined={
            "not successful or without duration": int((~ended).sum()),
            "nodes or accelerators per node not given": int((ended & ~sized).sum()),
            "accelerator or round not known": int((ended & sized & ~named).sum()),
        },
    )  # fmt: skip


def gpu_type(name: str) -> str:
    """Return the type in the name of an accelerator, with ``-pcie`` for cards in a slot.

    Examples:
        >>> gpu_type("NVIDIA A100-PCIe-80GB"), gpu_type("NVIDIA H100-SXM5-80GB"), gpu_type("Habana Gaudi2")
        ('a100-pcie', 'h100', 'gaudi2')
    """
    low = name.lower()
    found = _TYPES.search(low)
    kind = found[0].replace(" ", "") if found else low
    return f"{kind}-pcie" if "pcie" in low else kind

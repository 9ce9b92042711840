"""This module reads throughputs by GPU type (the layout of Gavel: gpu, cons, model, bs, sf, thr)."""

import numpy as np
import pandas as pd

from predictor.contracts.topology import TypeRuns
from predictor.errors import EmptyInputError, SchemaError

COLUMNS = ("gpu", "cons", "model", "bs", "sf", "thr")


def read_gpu_throughputs(frame: pd.DataFrame) -> TypeRuns:
    """Return the runs; a type is the GPU with ``/spread`` where the job was not consolidated.

    Raises:
        SchemaError: columns are missing.
        EmptyInputError: no row has a throughput.
    """
    absent = [name for name in COLUMNS if name not in frame.columns]
    if absent:
        raise SchemaError(f"a table of throughputs needs {', '.join(COLUMNS)}; it lacks {', '.join(absent)}")
    rows = frame[frame["thr"] > 0]
    if rows.empty:
        raise EmptyInputError("no row has a throughput above 0")
    packed = rows["cons"].astype("str").str.lower() == "true"
    kinds = rows["gpu"].astype("str").where(packed, rows["gpu"].astype("str") + "/spread")
    return TypeRuns(
        signatures=tuple(rows["model"].astype("str")),
        gpu_types=tuple(kinds),
        config=np.log(np.maximum(rows[["bs", "sf"]].to_numpy(dtype=np.float64), 1.0)),  # 0 = no batch size
        throughput=rows["thr"].to_numpy(dtype=np.float64),
    )

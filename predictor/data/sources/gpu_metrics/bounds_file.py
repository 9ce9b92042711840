"""This module reads the lower bounds of out-of-memory messages that ``ingest-metrics --peaks`` wrote."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from predictor.errors import FormatError

SUFFIX = ".parquet"
_COLUMNS = ("job_id", "lower_bound_mib")


def read_lower_bounds(path: Path) -> Mapping[str, float]:
    """Return by job id how many MiB a job needed at least on one GPU, as its out-of-memory messages say.

    Raises:
        FormatError: it is no such file.
    """
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise FormatError(f"'{path.name}' cannot be read as Parquet: {error}") from error
    absent = [name for name in _COLUMNS if name not in frame.columns]
    if absent:
        raise FormatError(
            f"'{path.name}' is no file of peaks by GPU, it lacks {', '.join(absent)}; give one that "
            "'predictor ingest-metrics --peaks' wrote"
        )
    known = frame[frame["lower_bound_mib"] > 0]
    return {str(job): float(mib) for job, mib in known.groupby("job_id")["lower_bound_mib"].max().items()}

"""This module finds the reader of a file of measurements by its columns."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from predictor.data.measurements import adapters, detectors, llm_tuning, synthetic, timm
from predictor.data.measurements.base import MeasuredRuns
from predictor.errors import FormatError

_READERS: tuple[tuple[tuple[str, ...], Callable[[pd.DataFrame], tuple[MeasuredRuns, ...]]], ...] = (
    (timm.COLUMNS, timm.read_timm),
    (synthetic.COLUMNS, synthetic.read_synthetic),
    (llm_tuning.COLUMNS, llm_tuning.read_llm_tuning),
    (adapters.COLUMNS, adapters.read_adapters),
    (detectors.COLUMNS, detectors.read_detectors),
)


def read_measurements(path: Path) -> tuple[MeasuredRuns, ...]:
    """Read a CSV file, gzipped or not; one set for each kind of peak in it.

    Raises:
        FormatError: the file cannot be read, or its columns are those of no known set.
    """
    try:
        frame = pd.read_csv(path, low_memory=False)
    except (OSError, ValueError) as error:
        raise FormatError(f"'{path.name}' cannot be read as CSV: {error}") from error
    for columns, read in _READERS:
        if set(columns) <= set(frame.columns):
            return read(frame)
    known = "; ".join(f"{columns[0]}, {columns[1]}, ... {columns[-1]}" for columns, _ in _READERS)
    raise FormatError(
        f"'{path.name}' has columns {', '.join(map(str, frame.columns[:6]))}, ... of no known measurements; "
        f"known are files with: {known}"
    )

"""This module keeps forecasts of whole logs on disk, so that a second simulation of a log starts at once."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from predictor import __version__
from predictor.contracts.forecast import LEVELS
from predictor.data.schema import seconds
from predictor.data.table import fingerprint
from predictor.errors import FormatError
from predictor.forecasting.duration import DurationSettings
from predictor.simulation.forecasts import GROWTH, prequential_forecasts
from predictor.simulation.trace import FloatArray

_SHORT = 16


def forecasts_of(
    frame: pd.DataFrame, folder: Path, *, seed: int, progress: Callable[[str, float], None]
) -> FloatArray:
    """Return forecasts of each row as of its submission, shape (n, L), from the folder where they were made.

    They are made anew for other data, another seed or another version of the project.
    """
    name = f"{fingerprint(frame)[:_SHORT]}-seed{seed}-growth{GROWTH}-v{__version__}.npz"
    path = folder / name
    if path.is_file():
        return read_forecasts(path, frame)
    quantiles_s = prequential_forecasts(
        frame, settings=DurationSettings(random_state=seed), progress=progress
    )
    folder.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(half, q=quantiles_s.astype(np.float32), sub=seconds(frame["submitted_at"]))
    half.replace(path)
    return quantiles_s.astype(np.float32).astype(np.float64)  # as the next run will read them


def read_forecasts(path: Path, frame: pd.DataFrame) -> FloatArray:
    """Return the forecasts of a file, shape (n, L).

    Raises:
        FormatError: it cannot be read, or is of another table.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            quantiles_s, submitted_s = file["q"].astype(np.float64), file["sub"]
    except (OSError, ValueError, KeyError) as error:
        raise FormatError(
            f"'{path}' holds no forecasts ({error}); remove it, and they are made anew"
        ) from error
    if quantiles_s.shape != (len(frame), len(LEVELS)) or not np.array_equal(
        submitted_s, seconds(frame["submitted_at"])
    ):
        raise FormatError(f"'{path}' holds forecasts of another table; leave --forecasts away to make them")
    return np.asarray(quantiles_s)

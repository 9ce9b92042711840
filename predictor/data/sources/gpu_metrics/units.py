"""This module turns memory values as monitors write them into MiB."""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.data.schema import seconds
from predictor.data.sources.gpu_metrics.samples import MIB
from predictor.data.sources.times import parse_times

# PyTorch prints GiB and MiB; programs that print GB or MB have divided by 2^30, 2^20 or 1e9, 1e6. The decimal
# reading is the smaller one and the one that MLflow documents; it differs by 7 % at most.
SCALES = {
    "b": 1.0 / MIB, "bytes": 1.0 / MIB, "kib": 1.0 / 1024, "mib": 1.0, "gib": 1024.0, "kb": 1e3 / MIB,
    "mb": 1e6 / MIB, "gb": 1e9 / MIB, "tib": 2.0**20, "k": 1.0 / 1024, "m": 1.0, "g": 1024.0,
}  # fmt: skip
_VALUE = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z]*)")


def to_mib(text: str, *, bare: str = "mib") -> float:
    """Return a size in MiB; NaN if it is none.

    Examples:
        >>> to_mib("2.00 GiB"), to_mib("1048576", bare="b"), to_mib("[N/A]")
        (2048.0, 1.0, nan)
    """
    found = _VALUE.fullmatch(text.strip())
    scale = SCALES.get((found["unit"] or bare).lower()) if found else None
    return float(found["number"]) * scale if found and scale is not None else np.nan


def column_mib(texts: "pd.Series[str]", *, bare: str = "mib") -> npt.NDArray[np.float64]:
    """Return a column of sizes in MiB; each distinct text is read once."""
    codes, distinct = pd.factorize(texts.astype("str").fillna(""))
    sizes = np.array([to_mib(str(text), bare=bare) for text in distinct] or [np.nan], dtype=np.float64)
    return sizes[codes]


def column_moments(texts: "pd.Series[str]", zone: str) -> npt.NDArray[np.float64]:
    """Return a column of times as epoch seconds; NaN where unreadable; dates may have slashes."""
    plain = texts.astype("str").fillna("").str.replace(r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3", regex=True)
    return seconds(parse_times(plain, zone).utc)

"""This module reads local times of the hour that the autumn clock change repeats by the other times of a row.

A job is submitted, started and ended in this order, and runs as long as the log says. Of the readings of a
row that keep to this, the earliest is taken; where none does, all times keep their earlier reading, and
validation tells what is wrong with them.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.data.schema import seconds
from predictor.data.sources.times import ParsedTimes

_SLACK_S = 1.0  # logs round times and durations to seconds
_EXACT, _IN_ORDER, _NEITHER = 0, 1, 2


def read_in_order(
    moments: Sequence[ParsedTimes], elapsed_s: npt.NDArray[np.float64]
) -> list["pd.Series[pd.Timestamp]"]:
    """Return submission, start and end of each row, the ambiguous ones read so that they fit together.

    Args:
        moments: the three, in this order.
        elapsed_s: shape (n,), how long each job ran, NaN = not known.
    """
    if not any(each.ambiguous for each in moments):
        return [each.utc for each in moments]
    early_s, late_s = (
        np.stack([seconds(times) for times in readings])
        for readings in ([each.utc for each in moments], [each.later for each in moments])
    )
    rows = np.flatnonzero((late_s > early_s).any(axis=0))
    takes_later = np.zeros((len(moments), len(rows)), dtype=np.bool_)
    best = np.full(len(rows), _NEITHER)
    for choice in sorted(product((False, True), repeat=len(moments)), key=sum):
        later = np.array(choice)[:, None]
        rank = _rank(np.where(later, late_s[:, rows], early_s[:, rows]), elapsed_s[rows])
        better = rank < best
        takes_later[:, better] = later
        best[better] = rank[better]
    found = []
    for each, later in zip(moments, takes_later, strict=True):
        where = np.zeros(early_s.shape[1], dtype=np.bool_)
        where[rows] = later
        found.append(each.utc.mask(where, each.later))
    return found


def _rank(moments_s: npt.NDArray[np.float64], elapsed_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return how well readings fit together; what is missing contradicts nothing."""
    submitted_s, started_s, ended_s = moments_s
    with np.errstate(invalid="ignore"):
        disordered = (submitted_s > started_s) | (started_s > ended_s) | (submitted_s > ended_s)
        differs = np.abs(ended_s - started_s - elapsed_s) > _SLACK_S
    return np.where(disordered, _NEITHER, np.where(differs, _IN_ORDER, _EXACT))

"""This module forgets keys of the history that nobody has used for longest, so that memory has a bound.

Who submits jobs with ever new limits, sizes or names makes new keys with every job; each costs 600 bytes.
"""

import numpy as np
import numpy.typing as npt

from predictor.features.history_kernel import (
    LAST_END,
    LAST_SUBMIT,
    N_PENDING,
    N_RUNNING,
    HistoryState,
    new_state,
)

IntArray = npt.NDArray[np.int64]
MOST_KEYS = 32_768  # some 20 MiB; 157,182 jobs of two months of the Graham cluster make 10,178 without places
_AT_ONCE = 512
FORGOTTEN = 4  # one key in so many goes at once: what this costs is spread over as many new ones


def moved_keys(state: HistoryState, count: int, keep: int) -> IntArray:
    """Return the new number of each key, -1 = forgotten, shape (count + 1,); the last entry moves -1 to -1.

    Keys of jobs that wait or run stay; of the others those that were used last. Of two keys that were last
    used at the same moment the older one stays: a template is older than the places of its sweeps.

    Args:
        state: of the history.
        count: how many keys there are.
        keep: how many shall stay.
    """
    stat = state.stat[:count]
    used_s = np.fmax(stat[:, LAST_SUBMIT], stat[:, LAST_END])
    used_s[np.isnan(used_s)] = -np.inf
    used_s[(stat[:, N_PENDING] > 0) | (stat[:, N_RUNNING] > 0)] = np.inf
    stays = used_s == np.inf
    stays[np.lexsort((-np.arange(count), used_s))[max(count - keep, 0) :]] = True
    moved = np.full(count + 1, -1, dtype=np.int64)
    moved[:-1][stays] = np.arange(stays.sum())
    return moved


def forget_keys(state: HistoryState, moved: IntArray) -> None:
    """Put what stays under its new numbers, in place and bit by bit: copies leave holes in the heap."""
    stays = np.flatnonzero(moved[:-1] >= 0)
    columns = (state.stat, state.ring, state.ends)
    for first in range(0, len(stays), _AT_ONCE):
        rows = stays[first : first + _AT_ONCE]  # none of them lies before the place that it moves to
        for column in columns:
            column[first : first + len(rows)] = column[rows]
    unused, end = new_state(1, 1, 1), len(stays)
    state.stat[end:], state.ring[end:], state.ends[end:] = unused.stat, unused.ring, unused.ends
    state.job_key[:] = np.where(state.job_key >= 0, moved[state.job_key], state.job_key)

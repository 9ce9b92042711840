"""This module says what an interruption would cost each running job: work since its last checkpoint."""

import numpy as np

from predictor.contracts.events import CHECKPOINT_KINDS
from predictor.scheduling import columns as c
from predictor.scheduling.store import FloatArray, IntArray, JobStore

NONE, APPLICATION, SYSTEM = range(len(CHECKPOINT_KINDS))


def work_done_s(store: JobStore, slots: IntArray, now_s: float) -> FloatArray:
    """Return the seconds of work that running jobs have done over all attempts, shape (n,)."""
    floats, ints = store.floats, store.ints
    restart_s = np.where(ints[c.EVICTIONS, slots] > 0, floats[c.RESTART_COST, slots], 0.0)
    this_attempt_s = np.maximum(now_s - floats[c.START, slots] - restart_s, 0.0)
    return np.asarray(floats[c.BASE, slots] + this_attempt_s)


def saved_work_s(store: JobStore, slots: IntArray, now_s: float) -> FloatArray:
    """Return the seconds of work that would survive an eviction now, shape (n,).

    ``system`` keeps all; ``application`` what was last reported, or the last multiple of its interval.
    """
    floats, ints = store.floats, store.ints
    done_s = work_done_s(store, slots, now_s)
    saved_s = floats[c.SAVED, slots]
    interval_s = floats[c.CHECKPOINT_EVERY, slots]
    with np.errstate(divide="ignore", invalid="ignore"):
        intervals = np.floor((done_s - floats[c.BASE, slots]) / interval_s)
        by_interval_s = np.where(interval_s > 0, floats[c.BASE, slots] + intervals * interval_s, 0.0)
    kind = ints[c.CHECKPOINT, slots]
    kept_s = np.where(kind == SYSTEM, done_s, np.where(kind == APPLICATION, by_interval_s, 0.0))
    return np.asarray(np.minimum(np.maximum(saved_s, kept_s), done_s))


def lost_work_s(store: JobStore, slots: IntArray, now_s: float) -> FloatArray:
    """Return the seconds that an eviction now would cost, work to be repeated and restart, shape (n,)."""
    repeated_s = work_done_s(store, slots, now_s) - saved_work_s(store, slots, now_s)
    return np.asarray(repeated_s + store.floats[c.RESTART_COST, slots])

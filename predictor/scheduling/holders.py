"""This module describes the jobs that hold units of a pool, as those that may have to leave it.

What does not depend on who asks for their units is computed once for a whole round of evictions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from predictor.scheduling import checkpoint
from predictor.scheduling import columns as c
from predictor.scheduling.expected import still_to_run_s
from predictor.scheduling.gittins import gittins_ranks_s
from predictor.scheduling.order import Order
from predictor.scheduling.store import BoolArray, FloatArray, IntArray, JobStore


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Running jobs of one pool at one moment; of those taken, only who may be evicted at all.

    Attributes:
        pool: which.
        slots: shape (h,).
        lost_s: shape (h,), what an eviction costs each, restart included.
        remaining_s: shape (h,), until its planned end.
        ranks: shape (h,), eviction rank of its class.
        entitled: shape (h,), whether its class may evict others.
        borrows: shape (h,), whether its team is beyond its own quota.
        owns: shape (h,), whether its team has a quota of its own and stays within it.
    """

    pool: int
    slots: IntArray
    lost_s: FloatArray
    remaining_s: FloatArray
    ranks: IntArray
    entitled: BoolArray
    borrows: BoolArray
    owns: BoolArray
    store: JobStore
    now_s: float
    order: Order
    numbers: FloatArray

    @cached_property
    def widths(self) -> IntArray:
        """Units that each holds, shape (h,)."""
        return np.asarray(self.store.ints[c.WIDTH, self.slots])

    @cached_property
    def levels(self) -> FloatArray:
        """Queue of least attained service that each is in, shape (h,).

        All service counts, saved or not: if what is lost were forgotten, two jobs that cannot be resumed
        would evict each other for ever.
        """
        step = self.order.attained_step
        floats = self.store.floats
        served_s = floats[c.SERVED, self.slots] + (self.now_s - floats[c.START, self.slots])
        served = served_s * self._factors
        return np.asarray(np.floor(np.log2(1.0 + served / step)))

    @cached_property
    def gittins_s(self) -> FloatArray:
        """Gittins rank of each, by width and weight, shape (h,)."""
        done_s = checkpoint.work_done_s(self.store, self.slots, self.now_s)
        limits_s = self.store.floats[c.LIMIT, self.slots]
        return np.asarray(
            gittins_ranks_s(self.store.log_quantiles[self.slots], limits_s, done_s) * self._factors
        )

    @cached_property
    def left_s(self) -> FloatArray:
        """Seconds each has still to run, by the part of its forecast that waiting jobs are planned with."""
        store = self.store
        return still_to_run_s(
            store.floats, store.ints, store.log_quantiles, self.slots, self.now_s, self.numbers
        )

    @property
    def _factors(self) -> FloatArray:
        """What the size of a waiting job is multiplied with, shape (h,)."""
        weights = self.store.floats[c.WEIGHT, self.slots]
        return np.asarray(self.widths.astype(np.float64) ** self.order.width_exponent / weights)

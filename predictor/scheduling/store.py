"""This module stores jobs column-wise, in slots that are used again, so that memory follows live jobs."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.scheduling.columns import FLOATS, FREE_SLOT, INTS, PLACE, RUNNING, SEQUENCE, STATE, WAITING

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class JobStore:
    """Waiting and running jobs as columns.

    Attributes:
        floats: shape (FLOATS, capacity). ints: shape (INTS, capacity).
        given_log_quantiles: shape (capacity, L), logarithms of forecast seconds at ``LEVELS``, as given.
        log_quantiles: the same, renewed by what siblings have turned out to be.
        last_sibling: user, team, width and limit -> slot of the last such job that waits or runs.
        queue: slots of waiting jobs in order of submission, the first ``n_queue`` count.
        running: slots of running jobs in no order, the first ``n_running`` count.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self.floats: FloatArray = np.full((FLOATS, capacity), np.nan)
        self.ints: IntArray = np.zeros((INTS, capacity), dtype=np.int64)
        self.log_quantiles: FloatArray = np.zeros((capacity, len(LEVELS)))
        self.given_log_quantiles: FloatArray = np.zeros_like(self.log_quantiles)
        self.queue: IntArray = np.zeros(capacity, dtype=np.int64)
        self.running: IntArray = np.zeros(capacity, dtype=np.int64)
        self.n_queue = 0
        self.n_running = 0
        self.ids: list[str] = []
        self.slot_of: dict[str, int] = {}
        self.last_sibling: dict[tuple[str, str, int, float], int] = {}
        self.free_slots: list[int] = []
        self.next_sequence = 0

    def add(self, job_id: str) -> int:
        """Return a slot for a new job."""
        if self.free_slots:
            slot = self.free_slots.pop()
            self.ids[slot] = job_id
        else:
            slot = len(self.ids)
            if slot == self.floats.shape[1]:
                self.grow()
            self.ids.append(job_id)
        self.slot_of[job_id] = slot
        return slot

    def remove(self, slot: int) -> None:
        """Forget a job that neither waits nor runs."""
        del self.slot_of[self.ids[slot]]
        self.ids[slot] = ""
        self.ints[STATE, slot] = FREE_SLOT
        self.free_slots.append(slot)

    def enqueue(self, slot: int) -> None:
        """Put a job into the queue at the place of its sequence number."""
        self.ints[STATE, slot] = WAITING
        n = self.n_queue
        sequence = int(self.ints[SEQUENCE, slot])
        if n and self.ints[SEQUENCE, self.queue[n - 1]] > sequence:
            at = int(np.searchsorted(self.ints[SEQUENCE, self.queue[:n]], sequence))
            self.queue[at + 1 : n + 1] = self.queue[at:n].copy()
        else:
            at = n
        self.queue[at] = slot
        self.n_queue = n + 1

    def dequeue(self, slot: int) -> None:
        """Take a job out of the queue."""
        n = self.n_queue
        at = int(np.searchsorted(self.ints[SEQUENCE, self.queue[:n]], self.ints[SEQUENCE, slot]))
        self.queue[at : n - 1] = self.queue[at + 1 : n].copy()
        self.n_queue = n - 1

    def add_running(self, slot: int) -> None:
        """Put a job among those that run."""
        self.ints[STATE, slot] = RUNNING
        self.ints[PLACE, slot] = self.n_running
        self.running[self.n_running] = slot
        self.n_running += 1

    def remove_running(self, slot: int) -> None:
        """Take a job out of those that run."""
        self.n_running -= 1
        place = int(self.ints[PLACE, slot])
        last = self.running[self.n_running]
        self.running[place] = last
        self.ints[PLACE, last] = place

    @property
    def waiting_slots(self) -> IntArray:
        """Slots of waiting jobs in order of submission, as a view."""
        return self.queue[: self.n_queue]

    @property
    def running_slots(self) -> IntArray:
        """Slots of running jobs, as a view."""
        return self.running[: self.n_running]

    def job_ids(self, slots: Iterable[int]) -> list[str]:
        """Return the ids of jobs by slot."""
        return [self.ids[slot] for slot in slots]

    def copy(self) -> "JobStore":
        """Return an independent copy."""
        other = JobStore.__new__(JobStore)
        other.floats, other.ints = self.floats.copy(), self.ints.copy()
        other.log_quantiles = self.log_quantiles.copy()
        other.given_log_quantiles = self.given_log_quantiles.copy()
        other.last_sibling = dict(self.last_sibling)
        other.queue, other.running = self.queue.copy(), self.running.copy()
        other.n_queue, other.n_running = self.n_queue, self.n_running
        other.ids, other.slot_of = list(self.ids), dict(self.slot_of)
        other.free_slots, other.next_sequence = list(self.free_slots), self.next_sequence
        return other

    def grow(self) -> None:
        """Double the capacity."""
        self.floats = np.concatenate([self.floats, np.full_like(self.floats, np.nan)], axis=1)
        self.ints = np.concatenate([self.ints, np.zeros_like(self.ints)], axis=1)
        self.log_quantiles = np.concatenate([self.log_quantiles, np.zeros_like(self.log_quantiles)])
        self.given_log_quantiles = np.concatenate(
            [self.given_log_quantiles, np.zeros_like(self.given_log_quantiles)]
        )
        self.queue = np.concatenate([self.queue, np.zeros_like(self.queue)])
        self.running = np.concatenate([self.running, np.zeros_like(self.running)])

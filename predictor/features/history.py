"""This module keeps the as-of history of keys: a store that a whole log or single events feed.

As-of rule: a job submitted at t sees the durations of jobs that ended before t, the age of jobs running
at t, and the submissions before t (rows of the same second in their order). What happens in the very
second of t is seen by later jobs only, which also keeps a job of zero length from seeing itself. Using
the previously *submitted* job instead is leakage: it may still be running.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.schema import seconds
from predictor.features.forgetting import FORGOTTEN, MOST_KEYS, forget_keys, moved_keys
from predictor.features.history_kernel import (
    READINGS,
    RECENT,
    ROW_GAP_S,
    HistoryState,
    new_state,
    on_end,
    on_start,
    on_submit,
    read_jobs,
    read_places,
    sweep,
)
from predictor.features.keys import KEY_KINDS, KeyNumbers, kind_index
from predictor.features.request import RequestColumns, request_columns

FloatArray = npt.NDArray[np.float64]
RECENT_KINDS: tuple[str, ...] = ("user", "template", "place")
JobKey = tuple[str | None, str, int]
_TEMPLATE, _PLACE = kind_index("template"), kind_index("place")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFeatures:
    """Readings of n jobs.

    Attributes:
        values: shape (n, kinds x readings), float32, ordered as ``history_names()``.
        recent_log_s: shape (n, len(RECENT_KINDS), RECENT), natural logs of the last durations in
            seconds, newest first, NaN-padded.
    """

    values: npt.NDArray[np.float32]
    recent_log_s: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """When attempts started and ended, shape (n,) each; NaN where it has not happened (or is unknown)."""

    start_s: FloatArray
    end_s: FloatArray
    elapsed_s: FloatArray
    failed: npt.NDArray[np.bool_]
    censored: npt.NDArray[np.bool_]
    cancelled: npt.NDArray[np.bool_]


_NAMES: tuple[str, ...] = tuple(f"{kind.name}_{reading}" for kind in KEY_KINDS for reading in READINGS)


def history_names() -> tuple[str, ...]:
    """Return the names of the history features, kind by kind."""
    return _NAMES


def lifetimes(frame: pd.DataFrame) -> Lifetimes:
    """Return starts and ends of a canonical job table.

    A log that records durations but no starts is taken to start at submission. A pending job that
    was cancelled ends at its recorded end (or at submission) without an elapsed time.
    """
    state = frame["state"].to_numpy(dtype=object)
    submit_s = seconds(frame["submitted_at"])
    start_s = seconds(frame["started_at"])
    end_s = seconds(frame["ended_at"])
    elapsed_s = frame["elapsed_s"].to_numpy(dtype=np.float64).copy()
    final = np.isin(state, [name.value for name in JobState if name.is_final])
    running = state == JobState.RUNNING.value
    no_start = np.isnan(start_s) & ~np.isnan(elapsed_s) & (final | running) & ~((elapsed_s == 0) & final)
    start_s = np.where(no_start, np.where(np.isnan(end_s), submit_s, end_s - elapsed_s), start_s)
    ran = ~np.isnan(start_s)
    elapsed_s = np.where(ran & np.isnan(elapsed_s), end_s - start_s, elapsed_s)
    elapsed_s[~ran] = np.nan
    end_s = np.where(final & ran & np.isnan(end_s), start_s + elapsed_s, end_s)
    end_s = np.where(final & ~ran & np.isnan(end_s), submit_s, end_s)
    end_s[~final] = np.nan
    return Lifetimes(
        start_s=start_s,
        end_s=end_s,
        elapsed_s=elapsed_s,
        failed=np.isin(state, [name.value for name in JobState if name.is_failure]),
        censored=final & ~np.isin(state, [name.value for name in JobState if name.observes_duration]),
        cancelled=state == JobState.CANCELLED.value,
    )


class HistoryStore:
    """The history of all keys, fed by a log (``sweep_log``) or by single events.

    Single events bring at most so many keys as ``most_keys``, or as many again as a log brought; then a part
    of them is forgotten, those that were not used for longest. Not thread-safe: the caller serialises.

    Examples:
        >>> store = HistoryStore()
        >>> len(store)
        0
    """

    def __init__(self, *, most_keys: int = MOST_KEYS) -> None:
        self._keys = KeyNumbers()
        self._least_bound = self._bound = most_keys
        self._state = new_state(64, 64, len(KEY_KINDS))
        self._slots: dict[JobKey, int] = {}
        self._free: list[int] = list(range(63, -1, -1))
        self._recent_kinds = np.array([kind_index(name) for name in RECENT_KINDS], dtype=np.int64)

    def __len__(self) -> int:
        """Return how many jobs are pending or running."""
        return len(self._slots)

    @property
    def key_count(self) -> int:
        """How many keys have a history."""
        return self._keys.count

    def only_cluster(self) -> str | None:
        """Return the cluster that all history is of; None where there are several, or none has a name."""
        clusters = self._keys.clusters()
        only = next(iter(clusters)) if len(clusters) == 1 else None
        return only if isinstance(only, str) else None

    def sweep_log(self, frame: pd.DataFrame, *, until_s: float = np.inf) -> HistoryFeatures:
        """Play a whole log into an empty store and return what each job saw at its submission.

        Args:
            frame: canonical job table, n rows, any order.
            until_s: events at or after this time are not played; rows submitted then read NaN.

        Raises:
            ValueError: the store is not empty; a log is played once, from the start.
        """
        if self._keys.count:
            raise ValueError("the store already has a history; play a log into a new HistoryStore")
        requests = request_columns(frame)
        life = lifetimes(frame)
        rows = len(frame)
        numbers = self._keys.number(requests)
        self._keys.number_places(numbers, _places_of_log(requests, numbers[:, _TEMPLATE]))
        state = new_state(max(self._keys.count, 64), max(rows, 1), len(KEY_KINDS))
        state.job_key[:rows] = numbers
        order_job, order_kind = _event_order(requests.submitted_s, life, until_s)
        values = np.full((rows, len(KEY_KINDS), len(READINGS)), np.nan, dtype=np.float32)
        recent = np.full((rows, len(RECENT_KINDS), RECENT), np.nan, dtype=np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_duration = np.log(np.maximum(life.elapsed_s, 1.0))
            log_limit = np.log(requests.walltime_s)
        sweep(
            state, order_job, order_kind, requests.submitted_s, life.start_s, life.end_s,
            log_limit, log_duration, life.failed, life.censored, self._recent_kinds, values, recent,
        )  # fmt: skip
        self._adopt(state, frame, order_job, order_kind)
        self._least_bound = self._bound = max(self._bound, 2 * self._keys.count)
        return HistoryFeatures(values=values.reshape(rows, len(_NAMES)), recent_log_s=recent)

    def read(self, requests: RequestColumns, jobs: Sequence[JobKey | None] | None = None) -> HistoryFeatures:
        """Return what n jobs would see if they were submitted now; changes nothing.

        A job that was submitted already keeps its place in its sweep; ``jobs`` says which jobs they are.
        """
        rows = len(requests)
        values = np.empty((rows, len(KEY_KINDS), len(READINGS)), dtype=np.float32)
        recent = np.empty((rows, len(RECENT_KINDS), RECENT), dtype=np.float32)
        keys = self._keys.find(requests)
        self._keys.find_places(keys, self._places_now(requests, keys[:, _TEMPLATE]))
        for row, job in enumerate(jobs or ()):
            slot = self._slots.get(job) if job is not None else None
            if slot is not None:
                keys[row, _PLACE] = self._state.job_key[slot, _PLACE]
        read_jobs(self._state, keys, requests.submitted_s, self._recent_kinds, values, recent)
        return HistoryFeatures(values=values.reshape(rows, len(_NAMES)), recent_log_s=recent)

    def submit(self, job: JobKey, requests: RequestColumns) -> None:
        """Enter one job (``requests`` has one row) as pending; a job already known is left as it is."""
        if job in self._slots:
            return
        if self._keys.count + len(KEY_KINDS) > self._bound:
            self._forget()
        numbers = self._keys.number(requests)
        self._grow_keys()
        self._keys.number_places(numbers, self._places_now(requests, numbers[:, _TEMPLATE]))
        self._grow_keys()
        slot = self._take_slot()
        self._slots[job] = slot
        self._state.job_key[slot] = numbers[0]
        walltime_s = requests.walltime_s[0]
        on_submit(
            self._state, slot, requests.submitted_s[0], np.log(walltime_s) if walltime_s > 0 else np.nan
        )

    def start(self, job: JobKey, at_s: float) -> bool:
        """Move a job to running; returns False when the job is unknown or runs already."""
        slot = self._slots.get(job)
        if slot is None or not np.isnan(self._state.job_number[slot, 0]):
            return False
        on_start(self._state, slot, at_s)
        return True

    def end(self, job: JobKey, at_s: float, *, elapsed_s: float, state: JobState) -> bool:
        """Take a job out and learn its duration (NaN: it never ran); returns False when it is unknown."""
        slot = self._slots.pop(job, None)
        if slot is None:
            return False
        log_duration = np.nan if np.isnan(elapsed_s) else np.log(max(elapsed_s, 1.0))
        on_end(self._state, slot, at_s, log_duration, state.is_failure, not state.observes_duration)
        self._free.append(slot)
        return True

    def export_arrays(self) -> dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int64]]:
        """Return the state as named arrays; together with ``export_names`` it restores the store."""
        slots = np.array(list(self._slots.values()), dtype=np.int64)
        return {**self._state._asdict(), "slots": slots}

    def export_names(self) -> dict[str, object]:
        """Return keys and unfinished jobs as plain JSON values."""
        return {"keys": self._keys.export(), "jobs": [list(job) for job in self._slots]}

    @classmethod
    def restore(cls, arrays: Mapping[str, npt.NDArray[Any]], names: Mapping[str, Any]) -> "HistoryStore":
        """Return the store that ``export_arrays`` and ``export_names`` wrote."""
        store = cls()
        store._keys = KeyNumbers.restore(names["keys"])
        store._least_bound = store._bound = max(MOST_KEYS, 2 * store._keys.count)
        store._state = HistoryState(**{name: np.array(arrays[name]) for name in HistoryState._fields})
        taken = [int(slot) for slot in arrays["slots"]]
        jobs = [(job[0], job[1], int(job[2])) for job in names["jobs"]]
        store._slots = dict(zip(jobs, taken, strict=True))
        store._free = sorted(set(range(len(store._state.job_key))) - set(taken), reverse=True)
        return store

    def knows(self, job: JobKey) -> bool:
        """Return whether the job is pending or running here."""
        return job in self._slots

    def _places_now(
        self, requests: RequestColumns, templates: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        places = np.empty(len(templates), dtype=np.int64)
        read_places(self._state.stat, templates, requests.submitted_s, requests.number("array_index"), places)
        return places

    def _forget(self) -> None:
        """Let go of the keys that nobody has used for longest."""
        count = self._keys.count
        moved = moved_keys(self._state, count, count - count // FORGOTTEN)
        forget_keys(self._state, moved)
        self._keys.renumber(moved)
        # where many jobs wait, most keys stay: there must be room until the next time nevertheless
        self._bound = max(self._least_bound, self._keys.count + count // FORGOTTEN)

    def _take_slot(self) -> int:
        if not self._free:
            old = self._state
            size = len(old.job_key)
            more = new_state(1, size, len(KEY_KINDS))
            self._state = old._replace(
                job_key=np.concatenate([old.job_key, more.job_key]),
                job_number=np.concatenate([old.job_number, more.job_number]),
                link=np.concatenate([old.link, more.link]),
            )
            self._free = list(range(2 * size - 1, size - 1, -1))
        return self._free.pop()

    def _grow_keys(self) -> None:
        old = self._state
        if self._keys.count > len(old.stat):
            more = new_state(max(len(old.stat), self._keys.count - len(old.stat)), 1, len(KEY_KINDS))
            self._state = old._replace(
                stat=np.concatenate([old.stat, more.stat]),
                ring=np.concatenate([old.ring, more.ring]),
                ends=np.concatenate([old.ends, more.ends]),
            )

    def _adopt(
        self,
        state: HistoryState,
        frame: pd.DataFrame,
        order_job: npt.NDArray[np.int64],
        order_kind: npt.NDArray[np.int8],
    ) -> None:
        """Keep the state of a played log, with slots only for jobs that have not ended."""
        rows = len(frame)
        entered = np.zeros(rows, dtype=bool)
        entered[order_job[order_kind == 0]] = True
        entered[order_job[order_kind == 2]] = False
        kept = np.flatnonzero(entered)
        size = max(64, 2 * len(kept))
        moved = np.full(rows + 1, -1, dtype=np.int64)  # the last entry maps -1 to -1
        moved[kept] = np.arange(len(kept))
        fresh = new_state(1, size, len(KEY_KINDS))
        fresh.job_key[: len(kept)] = state.job_key[kept]
        fresh.job_number[: len(kept)] = state.job_number[kept]
        fresh.link[: len(kept)] = moved[state.link[kept]]
        self._state = HistoryState(
            stat=state.stat, ring=state.ring, ends=moved[state.ends],
            job_key=fresh.job_key, job_number=fresh.job_number, link=fresh.link,
        )  # fmt: skip
        cluster = frame["cluster"].to_numpy(dtype=object)
        job_id = frame["job_id"].to_numpy(dtype=object)
        attempt = frame["attempt"].to_numpy(dtype=np.float64)
        self._slots = {
            (
                cluster[row] if isinstance(cluster[row], str) else None,
                str(job_id[row]),
                int(attempt[row]),
            ): slot
            for slot, row in enumerate(kept)
        }
        self._free = list(range(size - 1, len(kept) - 1, -1))


def _places_of_log(requests: RequestColumns, templates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of the jobs of a log, as ``read_places`` finds them one by one."""
    rows = np.arange(len(templates))
    order = np.lexsort((requests.submitted_s, templates))
    template, at_s = templates[order], requests.submitted_s[order]
    opens = np.ones(len(rows), dtype=bool)
    opens[1:] = (template[1:] != template[:-1]) | ~(at_s[1:] - at_s[:-1] <= ROW_GAP_S)
    before = np.empty(len(rows))
    before[order] = rows - np.maximum.accumulate(np.where(opens, rows, 0))
    index = requests.number("array_index")
    return np.where(np.isnan(index), before, index + 1.0).astype(np.int64)


def _event_order(
    submit_s: FloatArray, life: Lifetimes, until_s: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    rows = np.arange(len(submit_s), dtype=np.int64)
    started = ~np.isnan(life.start_s)
    ended = ~np.isnan(life.end_s)
    job = np.concatenate([rows, rows[started], rows[ended]])
    kind = np.concatenate([np.zeros(len(rows)), np.ones(started.sum()), np.full(ended.sum(), 2)]).astype(
        np.int8
    )
    time = np.concatenate([submit_s, life.start_s[started], life.end_s[ended]])
    known = time < until_s
    job, kind, time = job[known], kind[known], time[known]
    order = np.lexsort((job, kind, time))
    return job[order], kind[order]

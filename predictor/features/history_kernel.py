"""This module holds the as-of history of keys: one state, four transitions, one reading.

The batch sweep and the online store call the very same compiled functions, so their values are equal
bit by bit. A transition at time ``t`` changes what readings after it see; the callers order events so
that a reading at ``t`` sees only what happened strictly before ``t`` (see ``history.py``).

Layout: every key (one user, one account, one template, ...) owns one row of ``stat`` and ``ring``; every
job that is pending or running owns one slot. Running jobs of a key form a doubly linked list in start
order, so that the oldest one is at the head and leaving costs O(1).
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from predictor.features.compiled import compiled

RECENT = 10  # durations remembered per key (the template predictor of Gaussier et al. 2015 keeps as many)
_LN2 = math.log(2.0)
DECAY_HALF_LIFE_S = 7 * 86400.0
BURST_HALF_LIFE_S = 3600.0
ROW_GAP_S = 60.0  # jobs of one sweep follow each other within it

NO_KEY, UNSEEN = -1, -2  # the job has no key of this kind; it has one that nobody had before

# columns of `stat`
N_ENDED, N_SUBMITTED, N_PENDING, N_RUNNING = 0, 1, 2, 3
SUM_START, LAST_END, LAST_SUBMIT, DECAY_AT = 4, 5, 6, 7
D_WEIGHT, D_LOG, D_LOG2, D_FAILED, D_CENSORED, D_USAGE, D_USAGE_WEIGHT = 8, 9, 10, 11, 12, 13, 14
BURST, BURST_AT, LAST_USAGE, EWMA_LOG, IN_A_ROW = 15, 16, 17, 18, 19
STAT_COLUMNS = 20

READINGS: tuple[str, ...] = (
    "count_ended",
    "last_log_s",
    "mean2_log_s",
    "median_log_s",
    "low_log_s",
    "high_log_s",
    "spread_log",
    "ewma_log_s",
    "decayed_mean_log_s",
    "decayed_std_log",
    "failure_rate",
    "censored_rate",
    "usage_log",
    "last_usage_log",
    "since_end_log_s",
    "since_submit_log_s",
    "burst",
    "pending",
    "running",
    "running_mean_elapsed_log_s",
    "running_oldest_elapsed_log_s",
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class HistoryState(NamedTuple):
    """Arrays of the state; K = key kinds.

    Attributes:
        stat: shape (keys, STAT_COLUMNS), running statistics of each key.
        ring: shape (keys, RECENT), natural logs of the last durations in seconds, newest overwrites oldest.
        ends: shape (keys, 2), slots of the oldest and the newest running job, -1 = none.
        job_key: shape (slots, K), key of the job for each kind, NO_KEY or UNSEEN where there is none.
        job_number: shape (slots, 2), start time (NaN while pending) and log of the limit (NaN = none).
        link: shape (slots, K, 2), previous and next running job of the same key, -1 = none.
    """

    stat: FloatArray
    ring: FloatArray
    ends: IntArray
    job_key: IntArray
    job_number: FloatArray
    link: IntArray


def new_state(keys: int, slots: int, kinds: int) -> HistoryState:
    """Return an empty state with room for so many keys and unfinished jobs."""
    stat = np.zeros((keys, STAT_COLUMNS))
    stat[:, [LAST_END, LAST_SUBMIT, LAST_USAGE, EWMA_LOG]] = np.nan
    return HistoryState(
        stat=stat,
        ring=np.full((keys, RECENT), np.nan),
        ends=np.full((keys, 2), -1, dtype=np.int64),
        job_key=np.full((slots, kinds), -1, dtype=np.int64),
        job_number=np.full((slots, 2), np.nan),
        link=np.full((slots, kinds, 2), -1, dtype=np.int64),
    )


@compiled
def log_span(seconds: float) -> float:
    """Return ln(1 + seconds) of a span, with spans that a backward clock made negative taken as 0."""
    return math.log1p(max(seconds, 0.0))


@compiled
def in_a_row(stat: FloatArray, at_s: float) -> float:
    """Return how many jobs of a key were submitted in a row right before ``at_s``."""
    return float(stat[IN_A_ROW]) if at_s - stat[LAST_SUBMIT] <= ROW_GAP_S else 0.0


@compiled
def on_submit(state: HistoryState, slot: int, at_s: float, log_limit: float) -> None:
    """Enter a job as pending; its keys stand in ``state.job_key[slot]``."""
    state.job_number[slot, 0] = np.nan
    state.job_number[slot, 1] = log_limit
    for kind in range(state.job_key.shape[1]):
        key = state.job_key[slot, kind]
        if key < 0:
            continue
        stat = state.stat[key]
        stat[N_SUBMITTED] += 1
        stat[N_PENDING] += 1
        stat[IN_A_ROW] = in_a_row(stat, at_s) + 1.0
        if not stat[LAST_SUBMIT] > at_s:  # NaN, or no later than this one
            stat[LAST_SUBMIT] = at_s
        stat[BURST] = (
            stat[BURST] * math.exp(-_LN2 * max(at_s - stat[BURST_AT], 0.0) / BURST_HALF_LIFE_S) + 1.0
        )
        stat[BURST_AT] = max(at_s, stat[BURST_AT])


@compiled
def on_start(state: HistoryState, slot: int, at_s: float) -> None:
    """Move a pending job to running."""
    state.job_number[slot, 0] = at_s
    for kind in range(state.job_key.shape[1]):
        key = state.job_key[slot, kind]
        if key < 0:
            continue
        stat = state.stat[key]
        stat[N_PENDING] -= 1
        stat[N_RUNNING] += 1
        stat[SUM_START] += at_s
        newest = state.ends[key, 1]
        state.link[slot, kind, 0] = newest
        state.link[slot, kind, 1] = -1
        if newest >= 0:
            state.link[newest, kind, 1] = slot
        else:
            state.ends[key, 0] = slot
        state.ends[key, 1] = slot


@compiled
def _unlink(state: HistoryState, slot: int, kind: int, key: int) -> None:
    before = state.link[slot, kind, 0]
    after = state.link[slot, kind, 1]
    if before >= 0:
        state.link[before, kind, 1] = after
    else:
        state.ends[key, 0] = after
    if after >= 0:
        state.link[after, kind, 0] = before
    else:
        state.ends[key, 1] = before


@compiled
def on_end(
    state: HistoryState, slot: int, at_s: float, log_duration: float, failed: bool, censored: bool
) -> None:
    """Take a job out; ``log_duration`` is NaN when it never ran, and then teaches nothing."""
    start = state.job_number[slot, 0]
    log_limit = state.job_number[slot, 1]
    for kind in range(state.job_key.shape[1]):
        key = state.job_key[slot, kind]
        if key < 0:
            continue
        stat = state.stat[key]
        if math.isnan(start):
            stat[N_PENDING] -= 1
        else:
            stat[N_RUNNING] -= 1
            stat[SUM_START] -= start
            if stat[N_RUNNING] == 0:
                stat[SUM_START] = 0.0  # no residue of float subtraction may outlive the last job
            _unlink(state, slot, kind, key)
        if math.isnan(log_duration):
            continue
        keep = math.exp(-_LN2 * max(at_s - stat[DECAY_AT], 0.0) / DECAY_HALF_LIFE_S)
        for column in range(D_WEIGHT, D_USAGE_WEIGHT + 1):
            stat[column] *= keep
        stat[DECAY_AT] = max(at_s, stat[DECAY_AT])
        stat[D_WEIGHT] += 1.0
        stat[D_LOG] += log_duration
        stat[D_LOG2] += log_duration * log_duration
        if failed:
            stat[D_FAILED] += 1.0
        if censored:
            stat[D_CENSORED] += 1.0
        if not math.isnan(log_limit):
            stat[D_USAGE] += log_duration - log_limit
            stat[D_USAGE_WEIGHT] += 1.0
            stat[LAST_USAGE] = log_duration - log_limit
        if math.isnan(stat[EWMA_LOG]):
            stat[EWMA_LOG] = log_duration
        else:
            stat[EWMA_LOG] += 0.3 * (log_duration - stat[EWMA_LOG])
        state.ring[key, int(stat[N_ENDED]) % RECENT] = log_duration
        stat[N_ENDED] += 1
        if not stat[LAST_END] > at_s:
            stat[LAST_END] = at_s
    state.job_number[slot, 0] = np.nan


@compiled
def sorted_recent(ring: FloatArray, count: int, into: FloatArray) -> int:
    """Sort the last durations of a key into ``into`` (ascending) and return how many there are."""
    size = min(count, RECENT)
    for index in range(size):
        value = ring[index]
        place = index
        while place > 0 and into[place - 1] > value:
            into[place] = into[place - 1]
            place -= 1
        into[place] = value
    return size


@compiled
def _interpolate(ascending: FloatArray, size: int, level: float) -> float:
    position = level * (size - 1)
    low = int(position)
    high = min(low + 1, size - 1)
    below = float(ascending[low])
    return below + (position - low) * (float(ascending[high]) - below)


@compiled
def read_key(
    state: HistoryState, key: int, at_s: float, scratch: FloatArray, out: npt.NDArray[np.float32]
) -> None:
    """Write the readings of one key as of ``at_s`` into ``out``, shape (len(READINGS),)."""
    if key < 0:
        out[:] = np.nan
        if key == UNSEEN:  # reads like a key that has been numbered but has no past
            out[0] = out[16] = out[17] = out[18] = 0.0
        return
    stat = state.stat[key]
    ended = int(stat[N_ENDED])
    out[0] = math.log1p(stat[N_ENDED])
    if ended == 0:
        out[1:16] = np.nan
    else:
        ring = state.ring[key]
        size = sorted_recent(ring, ended, scratch)
        last = ring[(ended - 1) % RECENT]
        out[1] = last
        out[2] = (
            last if ended == 1 else math.log(0.5 * (math.exp(last) + math.exp(ring[(ended - 2) % RECENT])))
        )
        out[3] = _interpolate(scratch, size, 0.5)
        out[4] = scratch[0]
        out[5] = scratch[size - 1]
        out[6] = _interpolate(scratch, size, 0.75) - _interpolate(scratch, size, 0.25)
        out[7] = stat[EWMA_LOG]
        mean = stat[D_LOG] / stat[D_WEIGHT]
        out[8] = mean
        out[9] = math.sqrt(max(stat[D_LOG2] / stat[D_WEIGHT] - mean * mean, 0.0))
        out[10] = stat[D_FAILED] / stat[D_WEIGHT]
        out[11] = stat[D_CENSORED] / stat[D_WEIGHT]
        out[12] = stat[D_USAGE] / stat[D_USAGE_WEIGHT] if stat[D_USAGE_WEIGHT] > 1e-9 else np.nan
        out[13] = stat[LAST_USAGE]
        out[14] = log_span(at_s - stat[LAST_END])
    out[15] = np.nan if math.isnan(stat[LAST_SUBMIT]) else log_span(at_s - stat[LAST_SUBMIT])
    out[16] = math.log1p(stat[BURST] * math.exp(-_LN2 * max(at_s - stat[BURST_AT], 0.0) / BURST_HALF_LIFE_S))
    out[17] = math.log1p(stat[N_PENDING])
    running = stat[N_RUNNING]
    out[18] = math.log1p(running)
    if running > 0:
        out[19] = log_span(at_s - stat[SUM_START] / running)
        out[20] = log_span(at_s - state.job_number[state.ends[key, 0], 0])
    else:
        out[19] = np.nan
        out[20] = np.nan


@compiled
def read_recent(state: HistoryState, key: int, out: npt.NDArray[np.float32]) -> None:
    """Write the last durations of a key, newest first, as logs, NaN-padded, into ``out`` (RECENT,)."""
    out[:] = np.nan
    if key < 0:
        return
    ended = int(state.stat[key, N_ENDED])
    for index in range(min(ended, RECENT)):
        out[index] = state.ring[key, (ended - 1 - index) % RECENT]


@compiled
def read_places(
    stat: FloatArray, templates: IntArray, at_s: FloatArray, array_index: FloatArray, out: IntArray
) -> None:
    """Write the places of n jobs in their sweeps: after the jobs of their template right before them.

    A task of an array stands where its index says, whatever was submitted before it.

    Args:
        stat: of the state.
        templates: shape (n,), keys; below 0 where nobody had one.
        at_s: shape (n,), when they are submitted.
        array_index: shape (n,), NaN for a job of no array.
        out: shape (n,), written.
    """
    for row in range(templates.shape[0]):
        if not math.isnan(array_index[row]):
            out[row] = int(array_index[row]) + 1
        elif templates[row] >= 0:
            out[row] = int(in_a_row(stat[templates[row]], at_s[row]))
        else:
            out[row] = 0


@compiled
def read_job(
    state: HistoryState,
    keys: IntArray,
    at_s: float,
    recent_kinds: IntArray,
    scratch: FloatArray,
    out: npt.NDArray[np.float32],
    recent: npt.NDArray[np.float32],
) -> None:
    """Read all kinds of one job.

    Args:
        state: what is known.
        keys: shape (K,), the job's key of each kind.
        at_s: when.
        recent_kinds: kinds whose last durations are wanted.
        scratch: shape (RECENT,), overwritten.
        out: shape (K, len(READINGS)), written.
        recent: shape (len(recent_kinds), RECENT), written.
    """
    for kind in range(keys.shape[0]):
        read_key(state, keys[kind], at_s, scratch, out[kind])
    for index in range(recent_kinds.shape[0]):
        read_recent(state, keys[recent_kinds[index]], recent[index])


@compiled
def read_jobs(
    state: HistoryState,
    keys: IntArray,
    at_s: FloatArray,
    recent_kinds: IntArray,
    out: npt.NDArray[np.float32],
    recent: npt.NDArray[np.float32],
) -> None:
    """Read n jobs; ``keys`` has shape (n, K), ``at_s`` (n,), the others one row for each job."""
    scratch = np.empty(RECENT)
    for row in range(keys.shape[0]):
        read_job(state, keys[row], at_s[row], recent_kinds, scratch, out[row], recent[row])


@compiled
def sweep(
    state: HistoryState,
    event_job: IntArray,
    event_kind: npt.NDArray[np.int8],
    submit_s: FloatArray,
    start_s: FloatArray,
    end_s: FloatArray,
    log_limit: FloatArray,
    log_duration: FloatArray,
    failed: npt.NDArray[np.bool_],
    censored: npt.NDArray[np.bool_],
    recent_kinds: IntArray,
    out: npt.NDArray[np.float32],
    recent: npt.NDArray[np.float32],
) -> None:
    """Play the events of a whole log in order; job i owns slot i. Kinds: 0 submit, 1 start, 2 end."""
    scratch = np.empty(RECENT)
    for position in range(event_job.shape[0]):
        job = event_job[position]
        kind = event_kind[position]
        if kind == 0:
            read_job(state, state.job_key[job], submit_s[job], recent_kinds, scratch, out[job], recent[job])
            on_submit(state, job, submit_s[job], log_limit[job])
        elif kind == 1:
            on_start(state, job, start_s[job])
        else:
            on_end(state, job, end_s[job], log_duration[job], failed[job], censored[job])

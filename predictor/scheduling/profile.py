"""This module keeps free capacity of a counted pool over future time, as a step function.

Step k says that ``frees[k]`` units are free from ``times[k]`` to ``times[k + 1]``. It begins now, rises
where running jobs are expected to end, and is carved by promised starts. Compiled.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling.store import FloatArray, IntArray


@compiled
def build_profile(
    floats: FloatArray,
    ints: IntArray,
    running: IntArray,
    n_running: int,
    pool: int,
    free: int,
    now_s: float,
    times: FloatArray,
    frees: IntArray,
) -> int:
    """Fill the steps of a pool from the expected ends of what runs in it; return their number."""
    slots = np.empty(n_running, np.int64)
    n = 0
    for k in range(n_running):
        if ints[c.POOL, running[k]] == pool:
            slots[n] = running[k]
            n += 1
    ends = np.empty(n)
    for k in range(n):
        ends[k] = floats[c.PLAN_END, slots[k]]
    times[0], frees[0] = now_s, free
    steps = 1
    for k in np.argsort(ends):
        if ends[k] > times[steps - 1]:
            times[steps], frees[steps] = ends[k], frees[steps - 1]
            steps += 1
        frees[steps - 1] += ints[c.WIDTH, slots[k]]
    return steps


@compiled
def earliest_start(times: FloatArray, frees: IntArray, steps: int, width: int, duration_s: float) -> int:
    """Return the first step at which ``width`` units are free for so long, -1 = never."""
    first = 0
    while first < steps:
        if frees[first] < width:
            first += 1
            continue
        end_s = times[first] + duration_s
        step = first + 1
        while step < steps and times[step] < end_s and frees[step] >= width:
            step += 1
        if step == steps or times[step] >= end_s:
            return first
        first = step
    return -1


@compiled
def carve(times: FloatArray, frees: IntArray, steps: int, first: int, duration_s: float, width: int) -> int:
    """Take units away for so long from step ``first`` on; return the new number of steps."""
    end_s = times[first] + duration_s
    last = first + 1
    while last < steps and times[last] < end_s:
        last += 1
    if end_s < np.inf and (last == steps or times[last] != end_s):
        for k in range(steps, last, -1):
            times[k], frees[k] = times[k - 1], frees[k - 1]
        times[last], frees[last] = end_s, frees[last - 1]
        steps += 1
    for k in range(first, last):
        frees[k] -= width
    return steps

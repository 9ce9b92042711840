"""This module finds the earliest start of a gang on nodes, among promises already made; compiled.

Free units of a node only grow with time, except where promised starts take them. So a start at ``t`` for
``d`` seconds is possible if its nodes are free at ``t`` and at each promised start before ``t + d``.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling.nodes import add_listed, place
from predictor.scheduling.store import FloatArray, IntArray


@compiled
def limit_to_promises(
    free: IntArray,
    slack: IntArray,
    promise_at: FloatArray,
    promise_pool: IntArray,
    n_promises: int,
    pool: int,
    after_s: float,
    before_s: float,
    first: int,
    last: int,
) -> None:
    """Lower free units of nodes to what promised starts within (after, before) leave."""
    for k in range(n_promises):
        if promise_pool[k] == pool and after_s < promise_at[k] < before_s:
            for node in range(first, last):
                free[node] = min(free[node], slack[k, node])


@compiled
def earliest_on_nodes(
    floats: FloatArray,
    ints: IntArray,
    running: IntArray,
    n_running: int,
    node_free: IntArray,
    node_units: IntArray,
    islands: IntArray,
    first: int,
    last: int,
    listed: IntArray,
    slot: int,
    pool: int,
    now_s: float,
    promise_at: FloatArray,
    promise_end: FloatArray,
    promise_pool: IntArray,
    uses: IntArray,
    slack: IntArray,
    n_promises: int,
    first_fit: bool,
    chosen: IntArray,
    amounts: IntArray,
    at_start: IntArray,
) -> tuple[float, int]:
    """Return (start, number of nodes) of the earliest start; (inf, 0) = never.

    Fills ``chosen``, ``amounts`` and ``at_start`` (free units of each node at that start, promises active
    then taken off).
    """
    width, nodes = ints[c.WIDTH, slot], ints[c.NODES, slot]
    one_island = ints[c.ISLAND, slot] == 1
    plan_s = floats[c.PLAN, slot]
    slots = np.empty(n_running, np.int64)
    n = 0
    for k in range(n_running):
        if ints[c.POOL, running[k]] == pool:
            slots[n] = running[k]
            n += 1
    moments = np.empty(n + n_promises + 1)
    moments[0] = now_s
    for k in range(n):
        moments[k + 1] = floats[c.PLAN_END, slots[k]]
    for k in range(n_promises):
        moments[n + 1 + k] = promise_end[k] if promise_pool[k] == pool else now_s
    order = np.argsort(moments[1 : n + 1])
    moments.sort()
    free = node_free.copy()
    trial = node_free.copy()
    ended = 0
    previous = -np.inf
    for moment in moments:
        if not previous < moment < np.inf:
            continue
        previous = moment
        while ended < n and floats[c.PLAN_END, slots[order[ended]]] <= moment:
            add_listed(free, listed, ints[c.NODE_LIST, slots[order[ended]]], 1)
            ended += 1
        total = 0
        for node in range(first, last):
            trial[node] = free[node]
            total += max(free[node], 0)
        if total < width:
            continue
        for k in range(n_promises):
            if promise_pool[k] == pool and promise_at[k] <= moment < promise_end[k]:
                for node in range(first, last):
                    trial[node] -= uses[k, node]
        for node in range(first, last):
            at_start[node] = trial[node]
        limit_to_promises(
            trial, slack, promise_at, promise_pool, n_promises, pool, moment, moment + plan_s, first, last
        )
        found = place(
            trial, node_units, islands, first, last, width, nodes, one_island, first_fit, chosen, amounts
        )
        if found:
            return moment, found
    return np.inf, 0

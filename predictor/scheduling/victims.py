"""This module picks, of the running jobs that may be evicted, the set whose eviction destroys least.

What an eviction costs is counted in unit-seconds: lost work and restart, times the units that lose it. The
cheapest set that frees enough is a knapsack cover (Kellerer, Pferschy, Pisinger, Knapsack problems, 2004),
solved exactly over units: in a counted pool over the whole pool, on nodes for each node. A gang of several
nodes takes the nodes that are cheapest to clear, and who is not needed in the end stays.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Capacity
from predictor.scheduling.nodes import NEXT, NODE, UNITS, add_listed, place, shares_of
from predictor.scheduling.store import BoolArray, FloatArray, IntArray, JobStore

_MOST_CELLS = 20_000_000  # of one table of the cover: beyond, victims are taken one by one, cheapest first


def cheapest_victims(
    store: JobStore, capacity: Capacity, slot: int, pool: int, victims: IntArray, costs: FloatArray
) -> IntArray | None:
    """Return positions of the cheapest victims that make room for a waiting job, None = all do not suffice.

    Args:
        victims: shape (v,), slots of the running jobs of that pool that may be evicted.
        costs: shape (v,), what the eviction of each costs.
    """
    in_turn = first_victims(store, capacity, slot, pool, victims[order := np.argsort(costs, kind="stable")])
    if in_turn is None:
        return None
    best = order[in_turn]
    chosen = np.zeros(len(victims), dtype=np.bool_)
    if not capacity.has_nodes(pool):
        short = int(store.ints[c.WIDTH, slot]) - int(capacity.free[pool])
        if short * len(victims) <= _MOST_CELLS:
            cheapest_cover(store.ints[c.WIDTH, victims], costs, short, chosen)
    else:
        _clear_nodes(
            capacity.node_free,
            capacity.islands,
            capacity.listed,
            store.ints[c.NODE_LIST, victims],
            costs,
            int(capacity.first[pool]),
            int(capacity.first[pool + 1]),
            shares_of(
                capacity.node_units,
                int(capacity.first[pool]),
                int(capacity.first[pool + 1]),
                int(store.ints[c.WIDTH, slot]),
                int(store.ints[c.NODES, slot]),
            ),
            bool(store.ints[c.ISLAND, slot] == 1),
            chosen,
        )
    cover = np.flatnonzero(chosen)
    if len(cover):
        cover = cover[np.argsort(costs[cover], kind="stable")]
        needed = first_victims(store, capacity, slot, pool, victims[cover])
        if needed is not None and costs[cover[needed]].sum() < costs[best].sum():
            best = cover[needed]
    return np.asarray(best)


def first_victims(
    store: JobStore, capacity: Capacity, slot: int, pool: int, ordered: IntArray
) -> IntArray | None:
    """Return positions of the fewest of the first victims that make room, None = all do not suffice."""
    width = int(store.ints[c.WIDTH, slot])
    if not capacity.has_nodes(pool):
        freed = np.cumsum(store.ints[c.WIDTH, ordered])
        short = width - int(capacity.free[pool])
        if not len(freed) or freed[-1] < short:
            return None
        kept = list(range(int(np.searchsorted(freed, short)) + 1))
        spare = int(freed[kept[-1]]) - short
        for k in kept[-2::-1]:  # who is not needed after all stays, the costliest first
            if store.ints[c.WIDTH, ordered[k]] <= spare:
                spare -= int(store.ints[c.WIDTH, ordered[k]])
                kept.remove(k)
        return np.array(kept)
    free = capacity.node_free.copy()
    kept = []
    for k, victim in enumerate(ordered):
        add_listed(free, capacity.listed, int(store.ints[c.NODE_LIST, victim]), 1)
        kept.append(k)
        if fits(store, capacity, free, slot, pool):
            break
    else:
        return None
    for k in kept[-2::-1]:
        add_listed(free, capacity.listed, int(store.ints[c.NODE_LIST, ordered[k]]), -1)
        if fits(store, capacity, free, slot, pool):
            kept.remove(k)
        else:
            add_listed(free, capacity.listed, int(store.ints[c.NODE_LIST, ordered[k]]), 1)
    return np.array(kept)


def has_room(store: JobStore, capacity: Capacity, slot: int, pool: int) -> bool:
    """Return whether a job would fit as things are."""
    if capacity.has_nodes(pool):
        return fits(store, capacity, capacity.node_free, slot, pool)
    return bool(store.ints[c.WIDTH, slot] <= capacity.free[pool])


def fits(store: JobStore, capacity: Capacity, free: IntArray, slot: int, pool: int) -> bool:
    """Return whether a job's gang fits on nodes with so many free units."""
    chosen = np.empty(len(free), dtype=np.int64)
    found = place(
        free,
        capacity.node_units,
        capacity.islands,
        int(capacity.first[pool]),
        int(capacity.first[pool + 1]),
        int(store.ints[c.WIDTH, slot]),
        int(store.ints[c.NODES, slot]),
        bool(store.ints[c.ISLAND, slot] == 1),
        False,  # whether it fits does not hang on which nodes are chosen
        chosen,
        np.empty_like(chosen),
    )
    return found > 0


@compiled
def cheapest_cover(widths: IntArray, costs: FloatArray, short: int, chosen: BoolArray) -> float:
    """Mark the cheapest items whose widths sum up to ``short`` or more; return their cost, inf = none do.

    Args:
        widths, costs, chosen: shape (n,). ``chosen`` is overwritten.
    """
    n = widths.shape[0]
    chosen[:] = False
    if short <= 0:
        return 0.0
    best = np.full(short + 1, np.inf)
    best[0] = 0.0
    taken = np.zeros((n, short + 1), np.bool_)
    for k in range(n):
        for units in range(short, 0, -1):
            cost = best[max(units - widths[k], 0)] + costs[k]
            if cost < best[units]:
                best[units] = cost
                taken[k, units] = True
    if best[short] == np.inf:
        return np.inf
    units = short
    for k in range(n - 1, -1, -1):
        if units > 0 and taken[k, units]:
            chosen[k] = True
            units = max(units - widths[k], 0)
    return float(best[short])


@compiled
def _clear_nodes(
    node_free: IntArray,
    islands: IntArray,
    listed: IntArray,
    heads: IntArray,
    costs: FloatArray,
    first: int,
    last: int,
    counts: tuple[int, int, int, int],
    one_island: bool,
    chosen: BoolArray,
) -> None:
    """Mark victims on the nodes cheapest to clear for two groups of shares (how many, of which size).

    A victim on several nodes counts in full on each of them: an upper bound.
    """
    n_nodes = last - first
    ends = np.zeros(n_nodes + 1, np.int64)
    for k in range(heads.shape[0]):
        entry = heads[k]
        while entry >= 0:
            ends[listed[NODE, entry] - first + 1] += 1
            entry = listed[NEXT, entry]
    for node in range(n_nodes):
        ends[node + 1] += ends[node]
    here = np.empty(ends[n_nodes], np.int64)
    units = np.empty(ends[n_nodes], np.int64)
    at = ends[:-1].copy()
    for k in range(heads.shape[0]):
        entry = heads[k]
        while entry >= 0:
            node = listed[NODE, entry] - first
            here[at[node]], units[at[node]] = k, listed[UNITS, entry]
            at[node] += 1
            entry = listed[NEXT, entry]

    totals = np.empty((2, n_nodes))
    for node in range(n_nodes):
        a, b = ends[node], ends[node + 1]
        marks = np.zeros(b - a, np.bool_)
        for group in range(2):
            short = counts[2 * group + 1] - node_free[first + node]
            totals[group, node] = cheapest_cover(units[a:b], costs[here[a:b]], short, marks)

    best_cost = np.inf
    picked = np.zeros((2, n_nodes), np.bool_)
    node = 0
    while node < n_nodes:
        island = islands[first + node]
        inside = np.ones(n_nodes, np.bool_)
        if one_island:
            for k in range(n_nodes):
                inside[k] = islands[first + k] == island
        cost, trial = _cheapest_nodes(totals, inside, counts)
        if cost < best_cost:
            best_cost, picked = cost, trial
        if not one_island:
            break
        while node < n_nodes and islands[first + node] == island:
            node += 1
    for node in range(n_nodes):
        for group in range(2):
            if picked[group, node]:
                a, b = ends[node], ends[node + 1]
                marks = np.zeros(b - a, np.bool_)
                short = counts[2 * group + 1] - node_free[first + node]
                cheapest_cover(units[a:b], costs[here[a:b]], short, marks)
                for k in range(b - a):
                    if marks[k]:
                        chosen[here[a + k]] = True


@compiled
def _cheapest_nodes(
    totals: FloatArray, inside: BoolArray, counts: tuple[int, int, int, int]
) -> tuple[float, BoolArray]:
    """Return the cost of the cheapest nodes for both groups of shares, larger first, and which they are."""
    picked = np.zeros(totals.shape, np.bool_)
    cost = 0.0
    for group in range(2):
        for _ in range(counts[2 * group]):
            best = -1
            for node in range(totals.shape[1]):
                if not inside[node] or picked[0, node] or picked[1, node]:
                    continue
                if totals[group, node] < np.inf and (best < 0 or totals[group, node] < totals[group, best]):
                    best = node
            if best < 0:
                return np.inf, picked
            picked[group, best] = True
            cost += totals[group, best]
    return cost, picked

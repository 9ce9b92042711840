"""This module places gangs on nodes, all or nothing: as few nodes as possible, one island first.

A job that fits on one node goes on one node and never spreads; a wider one takes whole nodes and one rest;
a job that names its number of nodes is spread evenly. Of the nodes (and islands) that would do, best fit
takes the fullest; first fit takes the first, so that a job laid out again stays where it was as long as
nobody takes that room, whatever else fills up. Compiled; per-node free units are one array over all pools,
pool k owning the nodes from ``first[k]`` to ``first[k + 1]``.
"""

import numpy as np

from predictor.features.compiled import compiled
from predictor.scheduling.store import IntArray

NODE, UNITS, NEXT = 0, 1, 2  # rows of the placement list


@compiled
def place(
    free: IntArray,
    units: IntArray,
    islands: IntArray,
    first: int,
    last: int,
    width: int,
    nodes: int,
    one_island: bool,
    first_fit: bool,
    chosen: IntArray,
    amounts: IntArray,
) -> int:
    """Choose nodes for a job; return how many (0 = it does not fit) and fill ``chosen`` and ``amounts``."""
    if nodes > width:
        return 0
    counts = shares_of(units, first, last, width, nodes)
    wanted = counts[0] + counts[2]
    if wanted == 1 and not one_island:
        return _pick(free, islands, first, last, -1, counts, first_fit, chosen, amounts)
    # Best fit tries the island that is left with the least first, and then the next emptier one.
    tried_free = -1
    tried_island = -1
    while True:
        best_free, best_island = np.iinfo(np.int64).max, -1
        k = first
        while k < last:
            island = islands[k]
            total = 0
            while k < last and islands[k] == island:
                total += max(free[k], 0)
                k += 1
            left = 0 if first_fit else total
            later = left > tried_free or (left == tried_free and island > tried_island)
            if total >= width and later and left < best_free:
                best_free, best_island = left, island
        if best_island < 0:
            break
        found = _pick(free, islands, first, last, best_island, counts, first_fit, chosen, amounts)
        if found:
            return found
        tried_free, tried_island = best_free, best_island
    if one_island:
        return 0
    return _pick(free, islands, first, last, -1, counts, first_fit, chosen, amounts)


@compiled
def shares_of(units: IntArray, first: int, last: int, width: int, nodes: int) -> tuple[int, int, int, int]:
    """Return how a job is laid over nodes: how many hold how many units, and how many hold fewer."""
    if nodes > 0:
        low, many = width // nodes, width % nodes  # ``many`` nodes hold one unit more
        return many, low + 1, nodes - many, low
    size = 1
    for k in range(first, last):
        size = max(size, units[k])
    if width <= size:
        return 1, width, 0, 0
    return width // size, size, 1 if width % size else 0, width % size


@compiled
def _pick(
    free: IntArray,
    islands: IntArray,
    first: int,
    last: int,
    island: int,
    counts: tuple[int, int, int, int],
    first_fit: bool,
    chosen: IntArray,
    amounts: IntArray,
) -> int:
    """Choose fitting nodes for two groups of shares (how many, of which size), larger first."""
    n = 0
    for group in range(2):
        many, share = counts[2 * group], counts[2 * group + 1]
        for _ in range(many):
            best, best_free = -1, np.iinfo(np.int64).max
            for k in range(first, last):
                if free[k] < share or free[k] >= best_free or (island >= 0 and islands[k] != island):
                    continue
                taken = False
                for m in range(n):
                    if chosen[m] == k:
                        taken = True
                        break
                if not taken:
                    best, best_free = k, free[k]
                    if first_fit:
                        break
            if best < 0:
                return 0
            chosen[n], amounts[n] = best, share
            n += 1
    return n


@compiled
def hold_nodes(
    free: IntArray, listed: IntArray, spare: IntArray, chosen: IntArray, amounts: IntArray, n: int
) -> int:
    """Take units on nodes; return the head of the job's placement list.

    Args:
        listed: shape (3, m), rows NODE, UNITS, NEXT. spare: shape (1,), head of its unused entries.
    """
    head = -1
    for k in range(n - 1, -1, -1):
        entry = spare[0]
        spare[0] = listed[NEXT, entry]
        listed[NODE, entry], listed[UNITS, entry], listed[NEXT, entry] = chosen[k], amounts[k], head
        head = entry
        free[chosen[k]] -= amounts[k]
    return head


@compiled
def release_nodes(free: IntArray, listed: IntArray, spare: IntArray, head: int) -> None:
    """Give the units of a placement list back."""
    while head >= 0:
        free[listed[NODE, head]] += listed[UNITS, head]
        following = listed[NEXT, head]
        listed[NEXT, head] = spare[0]
        spare[0] = head
        head = following


@compiled
def add_listed(vector: IntArray, listed: IntArray, head: int, sign: int) -> None:
    """Add (or subtract) the units of a placement list to a vector over nodes."""
    while head >= 0:
        vector[listed[NODE, head]] += sign * listed[UNITS, head]
        head = listed[NEXT, head]

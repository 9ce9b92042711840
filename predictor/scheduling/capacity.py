"""This module defines the pools that the Coordinator hands out, and counts what is free in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.errors import ArgumentError
from predictor.scheduling.nodes import NEXT, place, release_nodes
from predictor.scheduling.store import IntArray

_MOST_POOLS = 62  # a job's pools are a bit set


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Units of one kind that jobs hold.

    Attributes:
        total: how many units it has; 0 = the sum over its nodes.
        node_units: units of each node, () = the pool is only counted.
        islands: index of the NVLink (or network) island of each node, ascending; () = each node is its own.
        gpu_type, vram_mib, region: of its devices; "" and 0 = unknown.
        scarcity: of several suitable pools, the one of the lowest scarcity is used first.
        scarce: small jobs stay off it unless they name its type.
        admits: the only workload classes it is kept for, () = all.
    """

    name: str
    total: int = 0
    node_units: tuple[int, ...] = ()
    islands: tuple[int, ...] = ()
    gpu_type: str = ""
    vram_mib: int = 0
    region: str = ""
    scarcity: float = 0.0
    scarce: bool = False
    admits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        faults = []
        if self.node_units:
            if self.total not in (0, sum(self.node_units)):
                faults.append(f"total={self.total}, but its nodes have {sum(self.node_units)} units")
            object.__setattr__(self, "total", sum(self.node_units))
        if self.total < 1:
            faults.append(f"total={self.total} must be 1 or more")
        if self.islands and len(self.islands) != len(self.node_units):
            faults.append(f"{len(self.islands)} islands are given for {len(self.node_units)} nodes")
        if list(self.islands) != sorted(self.islands):
            faults.append("nodes of one island must follow one another: sort nodes by island")
        if faults:
            raise ArgumentError(f"pool {self.name!r} cannot be used", faults=faults)

    @property
    def node_islands(self) -> tuple[int, ...]:
        """Island of each node."""
        return self.islands or tuple(range(len(self.node_units)))

    @property
    def largest_island(self) -> int:
        """Units of its largest island; of a pool that is only counted, all."""
        if not self.node_units:
            return self.total
        sums: dict[int, int] = {}
        for island, units in zip(self.node_islands, self.node_units, strict=True):
            sums[island] = sums.get(island, 0) + units
        return max(sums.values())

    def could_hold(self, width: int, nodes: int, island: bool) -> bool:
        """Return whether the empty pool holds a job of that width over that many nodes (0 = any)."""
        if not 1 <= width <= (self.largest_island if island else self.total) or nodes > width:
            return False
        if not self.node_units or (nodes <= 1 and width <= max(self.node_units)):
            return True
        units, islands = np.array(self.node_units), np.array(self.node_islands)
        chosen = np.empty_like(units)
        return bool(
            place(units, units, islands, 0, len(units), width, nodes, island, True, chosen, chosen.copy())
        )


class Capacity:
    """What is free, per pool and per node.

    Attributes:
        pools: by ascending scarcity.
        free, total: shape (P,), units; free may be below zero after units were taken away.
        node_free, node_units, islands: shape (N,), nodes of all pools one after the other.
        first: shape (P + 1,), where each pool's nodes begin. listed, spare: see ``nodes``.
    """

    def __init__(self, pools: Sequence[Pool]) -> None:
        names = [pool.name for pool in pools]
        if not 1 <= len(names) <= _MOST_POOLS or len(set(names)) < len(names):
            raise ArgumentError(
                f"pass 1 to {_MOST_POOLS} pools of different names; given: {', '.join(names)}"
            )
        self.pools = tuple(sorted(pools, key=lambda pool: pool.scarcity))
        self.index = {pool.name: k for k, pool in enumerate(self.pools)}
        self.total: IntArray = np.array([pool.total for pool in self.pools], dtype=np.int64)
        self.free = self.total.copy()
        self.node_units: IntArray = np.array(
            [units for pool in self.pools for units in pool.node_units], dtype=np.int64
        )
        self.node_free = self.node_units.copy()
        self.islands: IntArray = np.array(
            [island for pool in self.pools for island in pool.node_islands], dtype=np.int64
        )
        counts = [len(pool.node_units) for pool in self.pools]
        self.first: IntArray = np.array([0, *np.cumsum(counts)], dtype=np.int64)
        entries = int(self.node_units.sum()) + 1
        self.listed: IntArray = np.zeros((3, entries), dtype=np.int64)
        self.listed[NEXT] = np.arange(1, entries + 1)
        self.listed[NEXT, -1] = -1
        self.spare: IntArray = np.zeros(1, dtype=np.int64)

    def has_nodes(self, pool: int) -> bool:
        """Return whether a pool consists of nodes."""
        return bool(self.first[pool + 1] > self.first[pool])

    def release(self, pool: int, width: int, node_list: int) -> None:
        """Give a job's units back."""
        if node_list >= 0:
            release_nodes(self.node_free, self.listed, self.spare, node_list)
        self.free[pool] += width
        if self.has_nodes(pool):
            self.recount(pool)

    def recount(self, pool: int) -> None:
        """Count a pool's free units over its nodes."""
        self.free[pool] = np.maximum(self.node_free[self.first[pool] : self.first[pool + 1]], 0).sum()

    def change(self, pool: int, total: int | None, node_units: Mapping[int, int]) -> None:
        """Set the units of a counted pool, or those of some of a pool's nodes."""
        if self.has_nodes(pool):
            for node, units in node_units.items():
                at = self.first[pool] + node
                self.node_free[at] += units - self.node_units[at]
                self.node_units[at] = units
            self.total[pool] = self.node_units[self.first[pool] : self.first[pool + 1]].sum()
            self.recount(pool)
            self.list_more(int((self.node_units - np.minimum(self.node_free, 0)).sum()) + 1)
        elif total is not None:
            self.free[pool] += total - self.total[pool]
            self.total[pool] = total

    def list_more(self, entries: int) -> None:
        """Make room for so many entries of placement lists: one for each unit that may be held."""
        known = self.listed.shape[1]
        if entries > known:
            more: IntArray = np.zeros((3, entries - known), dtype=np.int64)
            more[NEXT] = np.arange(known + 1, entries + 1)
            more[NEXT, -1] = self.spare[0]
            self.listed = np.concatenate([self.listed, more], axis=1)
            self.spare[0] = known

    def copy(self) -> "Capacity":
        """Return an independent copy."""
        other = Capacity.__new__(Capacity)
        other.pools, other.index, other.first, other.islands = (
            self.pools,
            self.index,
            self.first,
            self.islands,
        )
        other.total, other.free = self.total.copy(), self.free.copy()
        other.node_units, other.node_free = self.node_units.copy(), self.node_free.copy()
        other.listed, other.spare = self.listed.copy(), self.spare.copy()
        return other

"""This module defines the pools that the Coordinator hands out, and counts what is free in them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Units of one kind that jobs hold.

    Attributes:
        total: how many units it has.
        node_units: units of each node, () = the pool is only counted.
        islands: index of the NVLink (or network) island of each node, () = each node is its own.
        gpu_type, vram_mib, region: of its devices; "" and 0 = unknown.
        scarcity: of several suitable pools, the one of the lowest scarcity is used first.
        scarce: small jobs stay off it unless they name its type.
        admits: the only workload classes it is kept for, () = all.
    """

    name: str
    total: int
    node_units: tuple[int, ...] = ()
    islands: tuple[int, ...] = ()
    gpu_type: str = ""
    vram_mib: int = 0
    region: str = ""
    scarcity: float = 0.0
    scarce: bool = False
    admits: tuple[str, ...] = ()

"""This module draws when nodes fail, and says which jobs a failure stops."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.errors import ArgumentError
from predictor.scheduling.capacity import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A node that is gone for a while; in a pool that is only counted, one unit.

    Attributes:
        pool: index of the pool, in the Coordinator's order. node: index in the pool.
    """

    from_s: float
    to_s: float
    pool: int
    node: int


def draw_outages(
    pools: Sequence[Pool], *, from_s: float, to_s: float, mean_between_s: float, repair_s: float, seed: int
) -> tuple[Outage, ...]:
    """Return outages: each node fails after an exponential time and is repaired in a fixed one.

    Args:
        pools: in the Coordinator's order.
        mean_between_s: mean time between two failures of one node.
        repair_s: until a failed node is back.

    Raises:
        ArgumentError: a time is not above 0.
    """
    if not (mean_between_s > 0 and repair_s > 0):
        raise ArgumentError("time between failures and time of repair must be above 0 seconds")
    draw = np.random.default_rng(seed)
    outages = []
    for pool, what in enumerate(pools):
        for node in range(len(what.node_units) or what.total):
            at_s = from_s + draw.exponential(mean_between_s)
            while at_s < to_s:
                outages.append(Outage(from_s=at_s, to_s=at_s + repair_s, pool=pool, node=node))
                at_s += repair_s + draw.exponential(mean_between_s)
    return tuple(sorted(outages, key=lambda outage: (outage.from_s, outage.pool, outage.node)))


def running_on(
    outage: Outage,
    pool: Pool,
    running: Sequence[tuple[int, int, tuple[tuple[int, int], ...]]],
    gone: Collection[int] = (),
) -> list[int]:
    """Return the jobs that an outage stops, of (job, units, nodes) of those that run in its pool.

    Where units are only counted, the job that holds the failing one is found by counting through those that
    are not ``gone`` already, so that no job runs on units that are not there.
    """
    if pool.node_units:
        return [job for job, _, nodes in running if any(node == outage.node for node, _ in nodes)]
    place, passed = outage.node - sum(node < outage.node for node in gone), 0
    for job, units, _ in running:
        passed += units
        if place < passed:
            return [job]
    return []

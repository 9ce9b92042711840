"""This module says on what simulated jobs run: a cluster profile, or so many units without places."""

import re
from dataclasses import dataclass

from predictor.data.clusters.example_files import load_cluster
from predictor.errors import ArgumentError
from predictor.scheduling.capacity import Pool
from predictor.scheduling.cluster_pools import cluster_pools
from predictor.simulation.trace import Trace

_COUNTED = re.compile(r"(cpus|gpus)(?:=(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    """Pools to play on.

    Attributes:
        units: what they count, ``gpus`` or ``cpus``.
        is_given: False where their size was chosen for a load.
    """

    units: str
    pools: tuple[Pool, ...]
    is_given: bool

    @property
    def total(self) -> int:
        """Units of all pools."""
        return sum(pool.total for pool in self.pools)


def cluster_for(text: str, trace: Trace | None = None, load: float | None = None) -> SimulatedCluster:
    """Return the cluster that ``--cluster`` names; a size for a load needs the jobs.

    Raises:
        ArgumentError: it names none, or a size for a load lacks the load.
    """
    counted = _COUNTED.fullmatch(text)
    if counted is None:
        pools = cluster_pools(load_cluster(text))
        gpus = tuple(pool for pool in pools if pool.gpu_type)
        return SimulatedCluster(units="gpus" if gpus else "cpus", pools=gpus or pools, is_given=True)
    units, count = counted[1], int(counted[2] or 0)
    if counted[2] is not None and not count:
        raise ArgumentError(f"--cluster {text}: give a number above 0, such as {units}=64")
    if counted[2] is None and trace is not None:
        if load is None:
            raise ArgumentError(f"--cluster {text}: give --load, such as 0.9, or a size, such as {text}=64")
        count = trace.units_for(load)
    pools = (Pool(name=units, total=count),) if count else ()
    return SimulatedCluster(units=units, pools=pools, is_given=counted[2] is not None)

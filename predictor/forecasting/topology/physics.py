"""This module says how long a job communicates per step on a placement, and which link bounds it."""

import math
from dataclasses import dataclass

from predictor.contracts.cluster import ClusterProfile, LinkClass, Placement
from predictor.contracts.topology import LimitingLink, Strategy, TopologyJob
from predictor.forecasting.topology.collectives import (
    Collective,
    CollectiveTime,
    node_type_of,
    placed_collective,
)

_ALL_REDUCES_PER_LAYER = 4.0  # tensor parallel, forward and backward (Shoeybi et al., "Megatron-LM", 2019)
_SHARDED_VOLUME = 1.5  # of an all-reduce of the gradients (Rajbhandari et al., "ZeRO", SC 2020, section 7)
# what overlaps with computation is not known; half is the value without preference
EXPOSED_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What a step sends on one placement; ``step_s`` is nan where the job does not say what it sends."""

    step_s: float
    link: LimitingLink | None


def communication(job: TopologyJob, placement: Placement, profile: ClusterProfile | None) -> Communication:
    """Return the communication of a step; nothing for one GPU, unknown without a profile."""
    if placement.gpu_count <= 1:
        return Communication(step_s=0.0, link=None)
    if profile is None:
        return Communication(step_s=math.nan, link=None)
    operation, message_bytes, times = _message(job)
    found = placed_collective(operation, max(message_bytes, 0.0), placement, profile)
    step_s = times * found.time_s if message_bytes > 0 else math.nan
    return Communication(step_s=step_s, link=_limiting(placement, profile, found, step_s))


def log_penalty(job: TopologyJob, communication_s: float) -> float:
    """Return the log of throughput lost to communication, at most 0; 0 where it is not known.

    It falls with the time of communication, so that a slower link never raises a forecast.
    """
    if not job.one_gpu_step_s > 0 or not communication_s > 0:
        return 0.0
    return -math.log1p(EXPOSED_SHARE * communication_s / job.one_gpu_step_s)


def _message(job: TopologyJob) -> tuple[Collective, float, float]:
    if job.strategy is Strategy.TENSOR:
        return (
            Collective.ALL_REDUCE,
            job.activation_bytes if job.layer_count else math.nan,
            _ALL_REDUCES_PER_LAYER * job.layer_count,
        )
    if job.strategy is Strategy.PIPELINE:
        return Collective.SEND_RECV, job.activation_bytes, 2.0
    times = _SHARDED_VOLUME if job.strategy is Strategy.SHARDED else 1.0
    return Collective.ALL_REDUCE, job.gradient_bytes, times


def _limiting(
    placement: Placement, profile: ClusterProfile, found: CollectiveTime, step_s: float
) -> LimitingLink:
    if found.limiting is LinkClass.NETWORK:
        hosts = placement.hosts or tuple(f"node {at + 1}" for at in range(len(placement.gpus_per_node)))
        used = [host for host, count in zip(hosts, placement.gpus_per_node, strict=False) if count > 0]
        return LimitingLink(link=found.limiting, between=(used[0], used[-1]), step_comm_s=step_s)
    first, second = _slowest_pair(placement, profile, found.limiting)
    return LimitingLink(link=found.limiting, between=(f"gpu{first}", f"gpu{second}"), step_comm_s=step_s)


def _slowest_pair(placement: Placement, profile: ClusterProfile, link: LinkClass) -> tuple[int, int]:
    """Return the first pair of GPUs on one node that reach each other by this link."""
    kind = node_type_of(placement, profile)
    if kind is not None:
        given = placement.gpu_indices or (tuple(range(kind.gpu_count)),)
        for gpus in given:
            for at, first in enumerate(gpus):
                for second in gpus[at + 1 :]:
                    if kind.link(first, second) == link:
                        return first, second
    return 0, 1

"""This module says in a sentence why a placement stands where it does."""

import math

from predictor.contracts.cluster import LinkClass, Placement
from predictor.contracts.topology import Evidence
from predictor.forecasting.topology.physics import Communication

_RESTS_ON = {
    Evidence.SEEN_SHAPE: "{count} runs of this job on this shape",
    Evidence.SEEN_JOB: "{count} runs of this job on other shapes of this cluster",
    Evidence.SEEN_CLUSTER: "{count} runs of other jobs on this cluster",
    Evidence.NO_HISTORY: "no run of this size on this cluster: the least crowded node and the links decide",
}
_NOTABLE_LOSS = 0.02


def explain(
    placement: Placement, log_relative: float, evidence: Evidence, count: int, sent: Communication
) -> tuple[str, str]:
    """Return the stable code of the reason and its sentence."""
    rests_on = _RESTS_ON[evidence].format(count=count)
    if placement.gpu_count == 1:
        return "single-gpu", f"one GPU communicates with no other; {rests_on}"
    shape = "+".join(str(one) for one in sorted(placement.gpus_per_node, reverse=True) if one)
    nodes = placement.node_count
    where = f"{shape} GPUs on {nodes} node{'s' if nodes > 1 else ''}"
    loss = -math.expm1(log_relative)
    much = f"about {loss:.0%} below the best" if loss >= _NOTABLE_LOSS else "as fast as the best"
    sentence = f"{where}: {much}; {rests_on}"
    if sent.link is not None:
        first, second = sent.link.between
        sentence += f"; its slowest link is {sent.link.link.name} between {first} and {second}"
        if math.isfinite(sent.link.step_comm_s):
            sentence += f", {sent.link.step_comm_s * 1e3:.3g} ms per step"
    return _code(evidence, sent), sentence


def _code(evidence: Evidence, sent: Communication) -> str:
    if evidence is not Evidence.NO_HISTORY:
        return f"measured-{evidence.value}"
    if sent.link is None:
        return "no-history"
    return "bounded-by-network" if sent.link.link is LinkClass.NETWORK else "bounded-inside-node"

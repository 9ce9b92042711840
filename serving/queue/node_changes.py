"""This module turns changes of nodes into events, for real and for trials alike."""

from collections.abc import Sequence

from predictor.contracts.events import NodesChanged
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.views import capacity
from serving.problems import Fault, ProblemError, invalid_request
from serving.queue.schemas import NodeState


def node_events(coordinator: Coordinator, nodes: Sequence[NodeState], now_s: float) -> list[NodesChanged]:
    """Return the events; a node that is up again and names no capacity offers all that it has.

    Raises:
        ProblemError: pools or nodes do not exist; all are named.
    """
    pools = {pool.pool: pool for pool in capacity(coordinator, now_s)} if nodes else {}
    faults = []
    events = []
    for place, node in enumerate(nodes):
        pool = pools.get(node.pool)
        if pool is None:
            detail = f"there is no pool '{node.pool[:60]}'; known are {', '.join(pools)}"
            faults.append(Fault(pointer=f"/nodes/{place}/pool", code="unknown-pool", detail=detail))
        elif (node.node is None) == bool(pool.nodes):
            detail = f"pool '{node.pool[:60]}' " + (
                "has nodes: name one by its index" if pool.nodes else "has no nodes"
            )
            faults.append(Fault(pointer=f"/nodes/{place}/node", code="invalid", detail=detail))
        elif node.node is not None and node.node >= len(pool.nodes):
            detail = f"node {node.node} does not exist; pool '{node.pool[:60]}' has {len(pool.nodes)}"
            faults.append(Fault(pointer=f"/nodes/{place}/node", code="out-of-range", detail=detail))
        else:
            full = pool.full_total if node.node is None else pool.nodes[node.node].full
            units = (full if node.capacity is None else node.capacity) if node.state == "up" else 0
            if node.node is None:
                events.append(NodesChanged(now_s=now_s, pool=node.pool, total=units))
            else:
                events.append(NodesChanged(now_s=now_s, pool=node.pool, node_units={node.node: units}))
    if faults:
        raise ProblemError(invalid_request(faults))
    return events

"""This module says what a link costs: as the profile states it, else the nominal value of its class.

Bandwidths are per GPU and direction, from data sheets as collected in Bekman, *Machine Learning Engineering*
(2024); latencies are of the order that NCCL shows for small messages.
"""

from predictor.contracts.cluster import ClusterProfile, LinkClass, LinkCost, NodeType, Placement

_NVLINK_BYTES_PER_S = {"v100": 150e9, "a100": 300e9, "h100": 450e9, "h200": 450e9, "b200": 900e9}
_NOMINAL = {
    LinkClass.NVSWITCH: LinkCost(alpha_s=25e-6, bandwidth_bytes_per_s=300e9),
    LinkClass.NVLINK: LinkCost(alpha_s=25e-6, bandwidth_bytes_per_s=150e9),
    LinkClass.PIX: LinkCost(alpha_s=35e-6, bandwidth_bytes_per_s=24e9),
    LinkClass.PXB: LinkCost(alpha_s=40e-6, bandwidth_bytes_per_s=22e9),
    LinkClass.PHB: LinkCost(alpha_s=45e-6, bandwidth_bytes_per_s=18e9),
    LinkClass.NODE: LinkCost(alpha_s=45e-6, bandwidth_bytes_per_s=16e9),
    LinkClass.SYS: LinkCost(alpha_s=55e-6, bandwidth_bytes_per_s=12e9),
}
_NETWORK = LinkCost(alpha_s=75e-6, bandwidth_bytes_per_s=9.4e9)  # one card of 100 Gb/s
_ARRIVING = 0.75  # share of the speed of network cards that collectives reach


def link_cost(link: LinkClass, profile: ClusterProfile, gpu_type: str = "") -> LinkCost:
    """Return the cost of a link class inside nodes: of the profile, else the nominal one of the GPU type."""
    found = profile.link_costs.get(link)
    if found is not None:
        return found
    nominal = _NOMINAL.get(link, _NOMINAL[LinkClass.SYS])
    if link in (LinkClass.NVSWITCH, LinkClass.NVLINK):
        for name, bandwidth in _NVLINK_BYTES_PER_S.items():
            if gpu_type.startswith(name):
                return LinkCost(alpha_s=nominal.alpha_s, bandwidth_bytes_per_s=bandwidth)
    return nominal


def network_cost(placement: Placement, profile: ClusterProfile, kind: NodeType | None) -> LinkCost:
    """Return the cost between the nodes of a placement, with the bandwidth of a whole node of this type."""
    shared = placement.shared_levels
    if shared is None:
        shared = profile.shared_levels(placement.hosts) if placement.hosts else len(profile.levels)
    known = profile.network_cost(shared)
    if known is not None:
        return known
    if kind is None or not kind.nic_gbit_per_s:
        return _NETWORK
    bandwidth = _ARRIVING * kind.nic_gbit_per_s / 8.0 * 1e9
    return LinkCost(alpha_s=_NETWORK.alpha_s, bandwidth_bytes_per_s=bandwidth)


def card_share(kind: NodeType | None, count: int, gpus: tuple[int, ...] = ()) -> float:
    """Return which share of the speed of a node's cards GPUs on it can use, in (0, 1].

    A GPU sends through the cards that are nearest to it, and through those that are near to none.

    Args:
        count: how many GPUs.
        gpus: which ones; () = those that reach the most.
    """
    if kind is None or not kind.nic_gbit_per_s:
        return 1.0
    reached = {place for place, nic in enumerate(kind.nics) if not nic.gpus or set(nic.gpus) & set(gpus)}
    for _ in range(0 if gpus else count):
        more = [
            {place for place, nic in enumerate(kind.nics) if gpu in nic.gpus} - reached
            for gpu in range(kind.gpu_count)
        ]
        reached |= max(
            more, key=lambda places: sum(kind.nics[place].gbit_per_s for place in places), default=set()
        )
    speeds = [nic.gbit_per_s for nic in kind.nics]
    return sum(speeds[place] for place in reached or {speeds.index(min(speeds))}) / sum(speeds)

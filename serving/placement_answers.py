"""This module answers which of the placements that a job could get suits it best, and why."""

import math

import numpy as np

from predictor.contracts.cluster import ClusterProfile, NodeType, Placement
from predictor.contracts.forecast import DurationForecasts, named_quantiles
from predictor.contracts.memory import MemoryForecast, MemoryRequest
from predictor.contracts.topology import (
    ExcludedPlacement,
    MemoryNeed,
    PlacementRanking,
    RankedPlacement,
    TopologyJob,
)
from predictor.forecasting.topology.affinity import AffinityHint, choose_gpus
from predictor.forecasting.topology.collectives import node_type_of
from predictor.forecasting.topology.duration_on import duration_on
from predictor.forecasting.topology.forecaster import TopologyForecaster
from predictor.forecasting.topology.jobs import topology_job
from predictor.forecasting.topology.level_advice import advise_level
from serving.memory_answers import identity_of
from serving.model_slot import ModelSlot
from serving.ports import Forecast
from serving.problems import Fault
from serving.resource_schemas import (
    AffinityView,
    Candidate,
    LevelView,
    LinkView,
    PlacementAnswer,
    ReasonView,
    TopologyAnswer,
)
from serving.served_topology import ServedTopology

_HINTED = 8  # best candidates that get hints for a launcher


class PlacementAnswers:
    """Answers from the bundle in service, else from rules and physics alone.

    Args:
        profile: the cluster, None = not known: then there are no links, levels and hints.
    """

    def __init__(self, slot: ModelSlot[ServedTopology], profile: ClusterProfile | None) -> None:
        self._slot = slot
        self._profile = profile
        self._prior = TopologyForecaster.prior()
        self._hints: dict[tuple[str, int], AffinityHint] = {}

    def rank(
        self, placements: list[Placement], request: MemoryRequest, *, cluster: str,
        duration: Forecast, memory: MemoryForecast | None,
    ) -> tuple[list[PlacementAnswer], TopologyAnswer]:  # fmt: skip
        """Return the candidates, the best first and the excluded last, and what holds for all of them.

        Raises:
            ArgumentError: they cannot be compared.
        """
        served = self._slot.state.model
        model = self._prior if served is None else served.model
        job = topology_job(request)
        need = None
        if memory is not None:
            need = MemoryNeed(
                upper_mib={one.gpu_type: memory.upper_mib for one in placements},
                capacity_mib={one.name: one.capacity_mib for one in memory.devices},
            )
        ranking = model.rank(job, placements, cluster=cluster, profile=self._profile, memory=need)
        reference = DurationForecasts.build(
            np.array([duration.level_quantiles_s]),
            np.array([math.inf if duration.limit_s is None else duration.limit_s]),
        )
        answers = [
            self._ranked(one, reference, hinted=place < _HINTED) for place, one in enumerate(ranking.ranked)
        ]
        answers += [_excluded(one) for one in ranking.excluded]
        level = self._level(model, job, ranking, cluster)
        identity = None if served is None else identity_of(served.info)
        return answers, TopologyAnswer(no_history=ranking.no_history, level=level, model=identity)

    def _ranked(self, one: RankedPlacement, reference: DurationForecasts, *, hinted: bool) -> PlacementAnswer:
        answer = _about(one.index, one.placement)
        there = duration_on(reference, one)
        answer.score = one.score
        answer.interval = one.interval
        answer.expected_slowdown = one.expected_slowdown
        answer.evidence = str(one.evidence)
        answer.evidence_count = one.evidence_count
        answer.reason = ReasonView(code=one.code, sentence=one.reason)
        answer.quantiles_s = named_quantiles(there, 0)
        link = one.limiting_link
        if link is not None:
            known = math.isfinite(link.step_comm_s)
            answer.limiting_link = LinkView(
                link=link.link.name, between=link.between, step_comm_s=link.step_comm_s if known else None
            )
        if hinted and self._profile is not None:
            answer.affinity = self._affinity(one.placement, self._profile)
        return answer

    def _affinity(self, placement: Placement, profile: ClusterProfile) -> list[AffinityView]:
        found = []
        for place, count in enumerate(placement.gpus_per_node):
            kind = node_type_of(placement, profile, place)
            if kind is None or not 0 < count <= kind.gpu_count:
                continue
            fixed = placement.gpu_indices[place] if placement.gpu_indices else ()
            if any(gpu >= kind.gpu_count for gpu in fixed):
                continue
            hint = self._hint(kind, fixed, count)
            found.append(AffinityView(
                host=placement.hosts[place] if placement.hosts else None, gpus=list(hint.gpus),
                cpu_bind=hint.cpu_bind, slurm_cpu_bind=hint.slurm_cpu_bind,
                environment=hint.environment, sentence=hint.sentence,
            ))  # fmt: skip
        return found

    def _hint(self, kind: NodeType, fixed: tuple[int, ...], count: int) -> AffinityHint:
        """Return the hint for fixed GPUs, or for the best of a whole node; those are few and kept."""
        if fixed:
            return choose_gpus(kind, fixed, count)
        if (kind.name, count) not in self._hints:
            self._hints[kind.name, count] = choose_gpus(kind, tuple(range(kind.gpu_count)), count)
        return self._hints[kind.name, count]

    def _level(
        self, model: TopologyForecaster, job: TopologyJob, ranking: PlacementRanking, cluster: str
    ) -> LevelView | None:
        if self._profile is None or not ranking.ranked:
            return None
        best = ranking.ranked[0].placement
        choice = advise_level(
            model, job, self._profile, gpu_type=best.gpu_type, gpu_count=best.gpu_count, cluster=cluster
        )
        if choice is None:
            return None
        return LevelView(
            level=choice.level, loss=choice.loss, loss_beyond=choice.loss_beyond, slurm=list(choice.slurm),
            policy="any" if not choice.level else "required" if choice.is_required else "preferred",
            kueue={} if choice.kueue is None else dict([choice.kueue]),
        )  # fmt: skip


def placements_of(candidates: list[Candidate], gpu_type: str | None) -> tuple[list[Placement], list[Fault]]:
    """Return the candidates as placements, and every fault of theirs."""
    placements = [
        Placement(
            gpu_type=(one.gpu_type or gpu_type or "").lower(), gpus_per_node=tuple(one.gpus_per_node),
            hosts=tuple(one.hosts or ()), shared_levels=one.shared_levels,
            gpu_indices=tuple(tuple(gpus) for gpus in one.gpu_indices or ()),
        )
        for one in candidates
    ]  # fmt: skip
    faults = []
    first = placements[0].gpu_count
    for place, one in enumerate(placements):
        said = list(one.faults)
        if not said and one.gpu_count != first:
            said.append(f"{one.gpu_count} GPUs, but the first has {first}; compare those of one number")
        faults += [Fault(pointer=f"/candidates/{place}", code="invalid", detail=text) for text in said]
    return placements, faults


def _about(index: int, placement: Placement) -> PlacementAnswer:
    return PlacementAnswer(
        candidate=index, gpu_type=placement.gpu_type, gpus_per_node=list(placement.gpus_per_node),
        hosts=list(placement.hosts), nodes_spanned=placement.node_count,
    )  # fmt: skip


def _excluded(one: ExcludedPlacement) -> PlacementAnswer:
    answer = _about(one.index, one.placement)
    answer.excluded = ReasonView(code=one.code, sentence=one.reason)
    return answer

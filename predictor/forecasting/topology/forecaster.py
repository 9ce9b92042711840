"""This module ranks the placements that a cluster could give a job by their expected relative throughput."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from predictor.contracts.cluster import ClusterProfile, Placement
from predictor.contracts.topology import (
    Evidence,
    ExcludedPlacement,
    MemoryNeed,
    PlacementRanking,
    PlacementRuns,
    RankedPlacement,
    TopologyJob,
)
from predictor.errors import ArgumentError
from predictor.forecasting.topology.calibrate import Residuals, calibrate
from predictor.forecasting.topology.cluster_fit import ClusterFit, KernelSettings
from predictor.forecasting.topology.cluster_system import ClusterSystem
from predictor.forecasting.topology.collectives import node_type_of
from predictor.forecasting.topology.gpu_types import TypeSpeeds
from predictor.forecasting.topology.intervals import band
from predictor.forecasting.topology.physics import Communication, communication, log_penalty
from predictor.forecasting.topology.reasons import explain
from predictor.forecasting.topology.relative import (
    SEEN_STRETCH,
    STRETCH,
    crowding,
    evidence_weight,
    expected_log_relative,
    shrunk,
)
from predictor.forecasting.topology.rows import (
    Rows,
    rows_of_candidates,
    rows_of_runs,
    shape_name,
)

FloatArray = npt.NDArray[np.float64]
MAX_CLUSTER_RUNS = 5000  # the newest of a cluster; the fit is cubic in their number
_NO_TYPES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyForecaster:
    """Ranks placements by what was measured on their cluster, and by physics as far as that is missing.

    Attributes:
        runs: the measured runs, in the order in which they were observed.
        fits: what was learned, by cluster.
        residuals: how far forecasts were off, by strength of evidence.
        types: speeds of GPU types, None = they are not compared.
    """

    runs: PlacementRuns
    fits: Mapping[str, ClusterFit] = field(default_factory=dict)
    residuals: Residuals = field(default_factory=Residuals)
    types: TypeSpeeds | None = None
    settings: KernelSettings = field(default_factory=KernelSettings)
    version: str = "prior"

    @classmethod
    def prior(cls) -> "TopologyForecaster":
        """Return a model that has learned nothing: physics and the rule, with wide intervals."""
        nothing = np.zeros(0)
        return cls(
            runs=PlacementRuns(
                clusters=(), signatures=(), patterns=(), node_gpus=nothing, local_batch=nothing,
                step_time_s=nothing, one_gpu_step_s=nothing, gradient_bytes=nothing,
            )
        )  # fmt: skip

    @classmethod
    def fit(
        cls,
        runs: PlacementRuns,
        *,
        types: TypeSpeeds | None = None,
        settings: KernelSettings | None = None,
        version: str = "unpublished",
    ) -> "TopologyForecaster":
        """Learn from measured runs and calibrate the intervals on runs left out; no runs give the prior."""
        given = settings or KernelSettings()
        names = sorted(set(runs.clusters))
        parts = [newest_runs(runs, name) for name in names]
        systems = [_solved(part, given) for part in parts]
        return cls(
            runs=runs, fits={name: one.fit() for name, one in zip(names, systems, strict=True)},
            residuals=calibrate(parts, systems), types=types, settings=given, version=version,
        )  # fmt: skip

    def observe(self, more: PlacementRuns) -> "TopologyForecaster":
        """Return a model that has learned from more runs too; the calibration stays as it is."""
        runs = self.runs.joined(more)
        touched = {
            name: _solved(newest_runs(runs, name), self.settings).fit() for name in sorted(set(more.clusters))
        }
        return replace(self, runs=runs, fits={**self.fits, **touched})

    def evidence_count(self, cluster: str) -> int:
        """Return how many runs were measured on a cluster."""
        return sum(name == cluster for name in self.runs.clusters)

    def rank(
        self,
        job: TopologyJob,
        candidates: Sequence[Placement],
        *,
        cluster: str = "",
        profile: ClusterProfile | None = None,
        memory: MemoryNeed | None = None,
    ) -> PlacementRanking:
        """Rank candidates that have the same number of GPUs.

        Args:
            cluster: whose history counts; default the name of the profile.
            memory: bounds of the peak per GPU; candidates that cannot hold it are excluded.

        Raises:
            ArgumentError: there are no candidates, or they cannot be compared; all faults are listed.
        """
        _check(candidates)
        excluded = [
            found
            for index, placement in enumerate(candidates)
            if (found := _too_small(index, placement, profile, memory)) is not None
        ]
        out = {one.index for one in excluded}
        kept = [index for index in range(len(candidates)) if index not in out]
        name = cluster or (profile.name if profile is not None else "")
        return PlacementRanking(
            ranked=self._ranked(job, candidates, kept, name, profile) if kept else (),
            excluded=tuple(excluded), no_history=name not in self.fits, model_version=self.version,
        )  # fmt: skip

    def _ranked(
        self,
        job: TopologyJob,
        candidates: Sequence[Placement],
        kept: Sequence[int],
        cluster: str,
        profile: ClusterProfile | None,
    ) -> tuple[RankedPlacement, ...]:
        chosen = [candidates[index] for index in kept]
        sent = [communication(job, placement, profile) for placement in chosen]
        effects = self._effects(job, chosen, sent, cluster, profile)
        known = [self._evidence(job, placement, cluster) for placement in chosen]
        # forecasts that are compared rest on the weakest evidence among them
        weakest = max((evidence for evidence, _ in known), key=list(Evidence).index)
        stretch = SEEN_STRETCH if weakest is Evidence.SEEN_SHAPE else STRETCH
        relative = expected_log_relative(effects, np.zeros(len(chosen), dtype=np.intp), stretch)
        if chosen[0].gpu_count == 1 and len({placement.gpu_type for placement in chosen}) == 1:
            relative = np.zeros(len(chosen))
        score = np.exp(relative - relative.max())
        order = sorted(range(len(chosen)), key=lambda at: (-score[at], kept[at]))
        return tuple(
            _answer(
                kept[at],
                chosen[at],
                float(score[at]),
                float(relative[at]),
                known[at],
                self.residuals.of(weakest),
                sent[at],
            )
            for at in order
        )

    def _effects(
        self,
        job: TopologyJob,
        placements: Sequence[Placement],
        sent: Sequence[Communication],
        cluster: str,
        profile: ClusterProfile | None,
    ) -> FloatArray:
        """Return the log throughput of placements, up to a constant.

        What was measured is of the shape alone. Physics enters with a weight that no link changes and falls
        with the time of communication, hence a slower link never raises it.
        """
        single = placements[0].gpu_count == 1
        effects = np.zeros(len(placements))
        if not single:
            fit = self.fits.get(cluster)
            rows = _candidate_rows(job, placements, profile, fit)
            weight = 0.0
            if fit is not None and all(fit.reaches(one.gpu_count, one.node_count) for one in placements):
                effects = fit.effects(rows)
                weight = evidence_weight(float(len(fit.rows)))
            prior = np.array([log_penalty(job, one.step_s) for one in sent])
            prior += crowding([one.gpus_per_node for one in placements])
            effects = shrunk(effects, prior, weight)
        return effects + self._type_effects(job, placements)

    def _type_effects(self, job: TopologyJob, placements: Sequence[Placement]) -> FloatArray:
        kinds = [placement.gpu_type for placement in placements]
        if self.types is None or len(set(kinds)) == 1 or not set(kinds) <= self.types.known:
            return np.zeros(len(placements))
        batch = math.log(job.local_batch) if job.local_batch >= 1 else 0.0
        config = np.array([[batch, math.log(placement.gpu_count)] for placement in placements])
        return self.types.log_speeds([job.signature] * len(kinds), kinds, config)

    def _evidence(self, job: TopologyJob, placement: Placement, cluster: str) -> tuple[Evidence, int]:
        fit = self.fits.get(cluster)
        if fit is None or not fit.reaches(placement.gpu_count, placement.node_count):
            return Evidence.NO_HISTORY, 0
        same_job = (fit.rows.signature == job.signature) & (job.signature != "")
        same_shape = same_job & (fit.rows.shape_name == shape_name(placement.gpus_per_node))
        if same_shape.any():
            return Evidence.SEEN_SHAPE, int(same_shape.sum())
        if same_job.any():
            return Evidence.SEEN_JOB, int(same_job.sum())
        return Evidence.SEEN_CLUSTER, len(fit.rows)


def _answer(
    index: int,
    placement: Placement,
    score: float,
    log_relative: float,
    known: tuple[Evidence, int],
    quantiles: tuple[float, ...],
    sent: Communication,
) -> RankedPlacement:
    if placement.gpu_count == 1 and log_relative == 0.0:
        quantiles = tuple(0.0 for _ in quantiles)
    evidence, count = known
    code, reason = explain(placement, log_relative, evidence, count, sent)
    return RankedPlacement(
        index=index, placement=placement, score=score, relative_throughput=math.exp(log_relative),
        interval=band(log_relative, quantiles), log_residual_quantiles=quantiles,
        expected_slowdown=math.exp(-log_relative), limiting_link=sent.link,
        nodes_spanned=placement.node_count, evidence=evidence, evidence_count=count,
        code=code, reason=reason,
    )  # fmt: skip


def _solved(part: PlacementRuns, settings: KernelSettings) -> ClusterSystem:
    return ClusterSystem(rows_of_runs(part), -np.log(part.step_time_s), settings)


def newest_runs(runs: PlacementRuns, cluster: str) -> PlacementRuns:
    """Return the runs of a cluster that its fit learns from."""
    rows = np.flatnonzero(np.array(runs.clusters, dtype=np.str_) == cluster)
    return runs.take(rows[-MAX_CLUSTER_RUNS:])


def _candidate_rows(
    job: TopologyJob, placements: Sequence[Placement], profile: ClusterProfile | None, fit: ClusterFit | None
) -> Rows:
    """Return the rows; a whole node is as large as the profile or else the largest measured shape says."""
    usual = 0.0
    if fit is not None:
        usual = max(float(part) for name in fit.rows.shape_name for part in str(name).split("-"))
    sizes = []
    for placement in placements:
        kind = node_type_of(placement, profile) if profile is not None else None
        sizes.append(float(kind.gpu_count) if kind is not None else usual)
    if fit is not None:
        job = _as_measured(job, fit)
    return rows_of_candidates(job, [placement.gpus_per_node for placement in placements], sizes)


def _as_measured(job: TopologyJob, fit: ClusterFit) -> TopologyJob:
    """Return the job with what it does not say as its own measured runs have it, at the nearest batch."""
    own = np.flatnonzero((fit.rows.signature == job.signature) & (job.signature != ""))
    if not len(own):
        return job
    away = np.zeros(len(own))
    if job.local_batch > 0:
        away = np.abs(fit.rows.log_batch[own] - math.log(job.local_batch))
    step_s, gradient_bytes = np.exp(fit.rows.job[own[np.argmin(away)]]).tolist()
    return replace(
        job, one_gpu_step_s=job.one_gpu_step_s if job.one_gpu_step_s > 0 else step_s,
        gradient_bytes=job.gradient_bytes if job.gradient_bytes > 0 else gradient_bytes,
    )  # fmt: skip


def _too_small(
    index: int, placement: Placement, profile: ClusterProfile | None, memory: MemoryNeed | None
) -> ExcludedPlacement | None:
    if memory is None:
        return None
    need = memory.upper_mib.get(placement.gpu_type)
    kind = node_type_of(placement, profile) if profile is not None else None
    has = float(kind.gpu_memory_mib) if kind is not None and kind.gpu_memory_mib else None
    if has is None:
        has = memory.capacity_mib.get(placement.gpu_type)
    if need is None or has is None or need <= has:
        return None
    return ExcludedPlacement(
        index=index, placement=placement, code="memory-does-not-fit",
        reason=f"the job may need {need:,.0f} MiB per GPU, a {placement.gpu_type} has {has:,.0f} MiB",
    )  # fmt: skip


def _check(candidates: Sequence[Placement]) -> None:
    if not candidates:
        raise ArgumentError("no candidates to rank; give at least one placement")
    faults = [
        f"candidate {index}: {fault}"
        for index, placement in enumerate(candidates)
        for fault in placement.faults
    ]
    counts = sorted({placement.gpu_count for placement in candidates})
    if len(counts) > 1:
        faults.append(f"candidates have {', '.join(map(str, counts))} GPUs; compare those of one number")
    if faults:
        raise ArgumentError("placements cannot be ranked", faults=faults)

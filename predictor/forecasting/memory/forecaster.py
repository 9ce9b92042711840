"""This module is the memory forecaster: trained on runs, asked for jobs, told how they went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import (
    DeviceFit,
    MemoryForecast,
    MemoryObservation,
    MemoryPart,
    MemoryRequest,
    PeakKind,
    Regime,
    Stratum,
)
from predictor.errors import ArgumentError, EmptyInputError
from predictor.forecasting.memory.bound import AdaptiveRisk, GroupScores, MemoryBound, scores_of
from predictor.forecasting.memory.breakdown import COMPONENT_NAMES, MIB
from predictor.forecasting.memory.envelope import monotone_log_mib
from predictor.forecasting.memory.expert import Expert, ExpertSettings, TrainingRows, train_expert
from predictor.forecasting.memory.physics import breakdown_of, floor_mib
from predictor.forecasting.memory.signature_history import SignatureHistory

FloatArray = npt.NDArray[np.float64]

_NO_DEVICES: Mapping[str, float] = {}
_HISTORY_UNIT = 0.3  # scores of histories are in these units, as all scores are


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How the forecaster is trained and kept.

    Attributes:
        risk: chance of exceeding the upper bound that the operator accepts.
        gamma: step of the online calibration; 0 = off.
        expert: of both experts.
        keep_history: whether peaks of the training runs are remembered by signature.
        train_poor: whether the expert for requests without a spec is trained.
    """

    risk: float = 0.05
    gamma: float = 0.01
    expert: ExpertSettings = field(default_factory=ExpertSettings)
    keep_history: bool = True
    train_poor: bool = True

    def __post_init__(self) -> None:
        if not 0.0 < self.risk < 1.0:
            raise ArgumentError(f"risk={self.risk} is no probability; pass a value between 0 and 1")


class MemoryForecaster:
    """Peak memory per GPU (or of the host): formula, learned residual, history, and a bound that adapts.

    Attributes:
        kind: what the peaks count.
        rich, poor: experts for requests with and without a spec; None where nothing could be learned.
        known_families: families of the training rows.
        risks: online calibration of each stratum.
    """

    def __init__(
        self,
        *,
        kind: PeakKind,
        settings: MemorySettings,
        rich: Expert | None,
        poor: Expert | None,
        history: SignatureHistory,
        history_scores: GroupScores,
        known_families: frozenset[str],
        risks: dict[Stratum, AdaptiveRisk] | None = None,
    ) -> None:
        self.kind = kind
        self.settings = settings
        self.rich = rich
        self.poor = poor
        self.history = history
        self.history_scores = history_scores
        self.known_families = known_families
        self.risks = risks or {
            stratum: AdaptiveRisk(target=settings.risk, gamma=settings.gamma) for stratum in Stratum
        }

    @classmethod
    def fit(
        cls,
        observations: Sequence[MemoryObservation],
        *,
        kind: PeakKind = PeakKind.USED,
        groups: Sequence[str] | None = None,
        settings: MemorySettings | None = None,
    ) -> "MemoryForecaster":
        """Learn from runs; those that died for want of memory teach lower bounds, never targets.

        Args:
            groups: what a calibration must keep together; None = signature, or family, or each run alone.

        Raises:
            EmptyInputError: no run ended with a peak.
            ArgumentError: a spec cannot be.
        """
        settings = settings or MemorySettings()
        names = list(groups) if groups is not None else [
            one.request.signature or one.request.family or f"row {at}" for at, one in enumerate(observations)
        ]  # fmt: skip
        seen = [at for at, one in enumerate(observations) if not one.is_oom and one.peak_mib > 0]
        if not seen:
            raise EmptyInputError(
                "no run has a peak to learn from; give runs that ended with a recorded peak"
            )
        families = [observations[at].request.family for at in seen]
        rows = TrainingRows(
            requests=tuple(observations[at].request for at in seen),
            log_mib=np.log(np.array([observations[at].peak_mib for at in seen])),
            groups=tuple(names[at] for at in seen),
            families=_families(families, [names[at] for at in seen]),
        )
        history = SignatureHistory()
        if settings.keep_history:
            for one in observations:
                if one.request.signature is not None and one.peak_mib > 0:
                    history.add(one.request.signature, one.request.batch, one.peak_mib, is_oom=one.is_oom)
        errors, signatures = history.kept_out_errors()
        return cls(
            kind=kind, settings=settings, rich=_train(rows, settings, with_spec=True),
            poor=_train(rows, settings, with_spec=False) if settings.train_poor else None, history=history,
            history_scores=GroupScores.of(errors / _HISTORY_UNIT, signatures),
            known_families=frozenset(name for name in families if name),
        )  # fmt: skip

    def predict(
        self,
        requests: Sequence[MemoryRequest],
        *,
        risk: float | None = None,
        devices: Mapping[str, float] = _NO_DEVICES,
    ) -> list[MemoryForecast]:
        """Forecast each request.

        Args:
            risk: chance of exceeding the upper bound; None = the one the online calibration holds.
            devices: MiB of one GPU by class, to tell where a job fits.

        Raises:
            ArgumentError: a spec cannot be, or the risk is no probability.
        """
        if risk is not None and not 0.0 < risk < 1.0:
            raise ArgumentError(f"risk={risk} is no probability; pass a value between 0 and 1")
        logs, units = np.zeros(len(requests)), np.ones(len(requests))
        bounds: list[MemoryBound] = [MemoryBound(strata={})] * len(requests)
        regimes = [self._regime(request) for request in requests]
        for rich in (True, False):
            at = [row for row, request in enumerate(requests) if self._is_rich(request) is rich]
            expert = self.rich if rich else self.poor or self.rich
            if not at:
                continue
            if expert is None:
                logs[at] = [self._formula_log(requests[row]) for row in at]
                continue
            asked = [requests[row] if rich else requests[row].without_spec() for row in at]
            logs[at] = monotone_log_mib(expert, asked)
            units[at] = expert.unit(*expert.inputs(asked))
            for row in at:
                bounds[row] = expert.bound
        return [
            self._answer(request, regimes[row], logs[row], units[row], bounds[row], risk, devices)
            for row, request in enumerate(requests)
        ]

    def observe(self, observation: MemoryObservation) -> None:
        """Learn online how a run went: history, and whether the bound held.

        An out-of-memory counts as exceeded where the need was above the bound, and is remembered as a lower
        bound of the signature.
        """
        request = observation.request
        before = self.predict([request])[0]
        need = observation.peak_mib
        if observation.is_oom:
            need = max(need, observation.capacity_mib or 0.0)
        exceeded = need > before.upper_mib or (observation.is_oom and need >= before.upper_mib)
        if exceeded or not observation.is_oom:  # an out-of-memory below the bound says nothing
            self.risks[before.stratum].update(exceeded=exceeded)
        if request.signature is not None and need > 0:
            self.history.add(request.signature, request.batch, need, is_oom=observation.is_oom)

    def with_risk(self, risk: float) -> "MemoryForecaster":
        """Return the same forecaster for another risk; the online calibration starts anew."""
        return MemoryForecaster(
            kind=self.kind, settings=replace(self.settings, risk=risk), rich=self.rich, poor=self.poor,
            history=self.history, history_scores=self.history_scores, known_families=self.known_families,
        )  # fmt: skip

    def _is_rich(self, request: MemoryRequest) -> bool:
        return request.has_spec and (self.rich is not None or self.poor is None)

    def _regime(self, request: MemoryRequest) -> Regime:
        if self.history.support(request.signature):
            return Regime.SEEN_SIGNATURE
        if request.has_spec:
            return Regime.FULL_SPEC
        return Regime.POOR_SPEC if request.words or request.numbers else Regime.COLD

    def _formula_log(self, request: MemoryRequest) -> float:
        if not request.has_spec:
            return float(np.log(4096.0))
        breakdown = breakdown_of(request)
        peak = breakdown.peak_bytes if self.kind is PeakKind.USED else breakdown.tensor_peak_bytes
        return float(np.log(max(peak / MIB, 1.0)))

    def _answer(
        self,
        request: MemoryRequest,
        regime: Regime,
        log_mib: float,
        unit: float,
        bound: MemoryBound,
        risk: float | None,
        devices: Mapping[str, float],
    ) -> MemoryForecast:
        stratum = self._stratum(request, regime)
        remembered = self.history.forecast_mib(request.signature, request.batch)
        scores, guess_log = bound.scores(stratum), bound.guess_share * request.guess_log
        if remembered is not None:
            log_mib, unit, guess_log = float(np.log(max(remembered, 1.0))), _HISTORY_UNIT, 0.0
            if self.history_scores.support:
                scores = self.history_scores
        breakdown = breakdown_of(request) if request.has_spec else None
        floor = floor_mib(request)
        least = max(floor, self.history.at_least_mib(request.signature, request.batch), 1.0)
        if self.kind is PeakKind.HOST:
            floor, least = 0.0, 1.0
        log_mib = float(np.log(max(np.exp(min(log_mib, 40.0)), least)))
        asked = self.risks[stratum].asked if risk is None else risk
        upper_log = MemoryBound(strata={stratum: scores}).upper_log(
            stratum, log_mib=log_mib, unit=unit, risk=asked,
            guess_log=guess_log,
        )  # fmt: skip
        few = scores.is_few(asked)
        room_log = np.log(np.fromiter(devices.values(), dtype=np.float64)) - log_mib
        chances = scores.exceedance(scores_of(room_log, unit, guess_log)).tolist()
        upper_mib = float(np.exp(upper_log))
        fits = tuple(
            DeviceFit(name=name, capacity_mib=capacity, oom_probability=chance, fits=upper_mib <= capacity)
            for (name, capacity), chance in zip(devices.items(), chances, strict=True)
        )
        parts = () if breakdown is None else tuple(
            MemoryPart(name=name, mib=getattr(breakdown.peak_phase.parts, name) / MIB)
            for name in COMPONENT_NAMES if getattr(breakdown.peak_phase.parts, name) > 0
        )  # fmt: skip
        return MemoryForecast(
            p50_mib=float(np.exp(log_mib)), upper_mib=upper_mib,
            risk=self.settings.risk if risk is None else risk, floor_mib=floor,
            analytical_mib=None if breakdown is None else breakdown.peak_bytes / MIB, regime=regime,
            stratum=stratum, support=scores.support, few_groups=few, parts=parts, devices=fits,
        )  # fmt: skip

    def _stratum(self, request: MemoryRequest, regime: Regime) -> Stratum:
        if regime is Regime.SEEN_SIGNATURE:
            return Stratum.SEEN_SIGNATURE
        return Stratum.SEEN_FAMILY if request.family in self.known_families else Stratum.NEW


def _families(families: Sequence[str | None], groups: Sequence[str]) -> tuple[str, ...] | None:
    """Return wider names than the groups, or None where they are no wider."""
    named = tuple(family or group for family, group in zip(families, groups, strict=True))
    return named if len(set(named)) < len(set(groups)) else None


def _train(rows: TrainingRows, settings: MemorySettings, *, with_spec: bool) -> Expert | None:
    """Train one expert; that for poor requests sees every run as if nobody had sent its spec."""
    at = [row for row, request in enumerate(rows.requests) if request.has_spec or not with_spec]
    if not at:
        return None
    chosen = TrainingRows(
        requests=tuple(rows.requests[row] if with_spec else rows.requests[row].without_spec() for row in at),
        log_mib=rows.log_mib[at], groups=tuple(rows.groups[row] for row in at),
        families=None if rows.families is None else tuple(rows.families[row] for row in at),
    )  # fmt: skip
    if with_spec:
        return train_expert(chosen, settings.expert)
    wide = replace(settings.expert.residual, huber_log=0.7)  # a constant is corrected, not a formula
    small = replace(settings.expert.small, huber_log=0.7)
    return train_expert(chosen, replace(settings.expert, residual=wide, small=small))

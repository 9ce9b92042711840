"""This module answers how much GPU memory jobs will peak at, and on which GPUs of the site they fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from predictor.contracts.cluster import ClusterProfile
from predictor.contracts.memory import MemoryForecast, MemoryRequest, PeakKind
from predictor.contracts.request import JobRequest
from predictor.forecasting.memory.gpus import find_gpu, gpu_classes
from predictor.forecasting.memory.jobs import job_request
from predictor.forecasting.memory.prior import prior_forecast
from serving.model_slot import ModelSlot
from serving.outcome_rows import WORKLOAD
from serving.ports import BundleFacts
from serving.resource_schemas import BundleIdentity, GpuFit, MemoryAnswer
from serving.schemas import RequestFields
from serving.served_memory import ServedMemory

USUAL_RISK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuestion:
    """One job whose memory is asked for.

    Attributes:
        risk: chance of exceeding the upper bound.
        gpu_types: types that the job could get, beside those of the site.
    """

    request: MemoryRequest
    risk: float = USUAL_RISK
    gpu_types: tuple[str, ...] = ()


class MemoryAnswers:
    """Answers from the bundle in service, else from the formula alone.

    Args:
        profile: the cluster, whose GPUs the jobs could get; None = any known class.
    """

    def __init__(self, slot: ModelSlot[ServedMemory], profile: ClusterProfile | None) -> None:
        self._slot = slot
        self._site = _site_devices(profile)

    def forecast(self, questions: Sequence[MemoryQuestion]) -> list[MemoryForecast]:
        """Forecast together what can be asked together; one forecast per question, in order.

        Raises:
            ArgumentError: a spec cannot be.
        """
        served = self._slot.state.model
        if served is None:
            return [
                prior_forecast(one.request, risk=one.risk, devices=self.devices(one.gpu_types))
                for one in questions
            ]
        alike: dict[tuple[float, tuple[str, ...]], list[int]] = {}
        for place, one in enumerate(questions):
            alike.setdefault((one.risk, one.gpu_types), []).append(place)
        found: dict[int, MemoryForecast] = {}
        for (risk, gpu_types), places in alike.items():
            requests = [questions[place].request for place in places]
            answers = served.predict(requests, risk=risk, devices=self.devices(gpu_types))
            found.update(zip(places, answers, strict=True))
        return [found[place] for place in range(len(questions))]

    def devices(self, gpu_types: Sequence[str]) -> Mapping[str, float]:
        """Return MiB of one GPU by class: those of the site, and those asked about that are known."""
        devices = dict(self._site)
        for name in gpu_types:
            gpu = find_gpu(name) if name and name not in devices else None
            if gpu is not None:
                devices[name] = gpu.usable_mib
        return devices

    def view(self, forecast: MemoryForecast) -> MemoryAnswer:
        """Return a forecast as it is answered."""
        served = self._slot.state.model
        regime = str(forecast.regime)
        if served is None:
            regime = "prior" if forecast.analytical_mib is None else "analytical"
        return MemoryAnswer(
            p50_mib=forecast.p50_mib, upper_mib=forecast.upper_mib, risk=forecast.risk,
            kind=str(PeakKind.USED if served is None else served.kind), regime=regime,
            support=forecast.support, few_groups=forecast.few_groups, floor_mib=forecast.floor_mib,
            analytical_mib=forecast.analytical_mib,
            breakdown_mib={part.name: part.mib for part in forecast.parts},
            fits_on=[
                GpuFit(gpu_class=one.name, memory_mib=one.capacity_mib, oom_probability=one.oom_probability,
                       fits=one.fits)
                for one in forecast.devices
            ],
            model=None if served is None else identity_of(served.info),
        )  # fmt: skip


def memory_request(fields: RequestFields, job: JobRequest) -> MemoryRequest:
    """Return the request of a body: its columns win over its command."""
    workload: dict[str, object] = {name: getattr(fields, name) for name in WORKLOAD}
    workload["submit_line"] = fields.command
    return job_request(job, {name: value for name, value in workload.items() if value is not None})


def is_blind(forecast: MemoryForecast) -> bool:
    """Whether neither a spec nor any run stands behind a forecast: it must not exclude a placement."""
    return forecast.analytical_mib is None and not forecast.support


def identity_of(info: BundleFacts) -> BundleIdentity:
    """Return the identity of a bundle as it is answered."""
    return BundleIdentity(
        name=info.name, version=info.version, digest=info.digest, feature_spec=info.feature_spec
    )


def _site_devices(profile: ClusterProfile | None) -> Mapping[str, float]:
    """Return MiB by GPU type of the cluster; without one, of every whole card that is known."""
    if profile is None:
        return {gpu.name: gpu.usable_mib for gpu in gpu_classes() if not gpu.slice_of}
    devices: dict[str, float] = {}
    for kind in profile.node_types:
        gpu = find_gpu(kind.gpu_type) if kind.gpu_type else None
        has = float(kind.gpu_memory_mib) or (0.0 if gpu is None else gpu.usable_mib)
        if has > 0 and kind.gpu_type:
            devices[kind.gpu_type] = min(has, devices.get(kind.gpu_type, has))
    return devices

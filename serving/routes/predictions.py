"""This module answers ``POST /v1/predictions``: one job or a batch in, distributions of durations out."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import UNSET
from structlog.typing import FilteringBoundLogger

from predictor.contracts.request import JobRequest
from serving.accuracy import Accuracy
from serving.batching import Batcher
from serving.decoding import EARLIEST_S, LATEST_S, decode_struct, malformed, moment_faults
from serving.endpoint import JsonEndpoint
from serving.model_slot import ModelSlot
from serving.names import Names
from serving.ports import Clock, Forecast
from serving.problems import Fault, Problem, ProblemError, invalid_request, problem
from serving.resources import Asked, Resources, asks_more, candidate_faults
from serving.schemas import (
    FailedItem,
    Job,
    ModelIdentity,
    Prediction,
    PredictionBody,
    Remaining,
    Support,
    SurvivalPoint,
    as_epoch_s,
    as_text,
    field_names,
)
from serving.served_model import ServedModel
from serving.settings import Settings
from serving.telemetry import Telemetry
from serving.turns import give_way

PATH = "/v1/predictions"
_SLICE_S = 0.015  # longest time that a slice of a batch should keep others waiting


class PredictionsEndpoint(JsonEndpoint):
    """The hot route.

    A forecast takes less time than a switch of threads, so it is made on the event loop. That also makes
    decisions serial: nothing else touches the forecaster meanwhile. Long batches give way between slices.
    """

    def __init__(
        self, *, slot: ModelSlot[ServedModel], accuracy: Accuracy, settings: Settings, clock: Clock,
        telemetry: Telemetry, logger: FilteringBoundLogger, resources: Resources, names: Names,
    ) -> None:  # fmt: skip
        super().__init__(PATH, settings.max_body_bytes)
        self._slot = slot
        self._accuracy = accuracy
        self._max_jobs = settings.max_jobs
        self._slice_jobs = settings.slice_jobs
        self._clock = clock
        self._names = names
        self._telemetry = telemetry
        self._resources = resources
        self._body_decoder = msgspec.json.Decoder(PredictionBody)
        self._job_decoder = msgspec.json.Decoder(Job)
        self._batcher = Batcher(slot, logger, settings.slice_jobs)
        self._encoder = msgspec.json.Encoder()
        self._long_batch = asyncio.Lock()  # one at a time, so that others wait for one slice at most

    async def answer(self, body: bytes) -> bytes:
        """Return the forecast of one job, or those of a batch."""
        try:
            job = self._body_decoder.decode(body)
        except msgspec.ValidationError:
            raise ProblemError(invalid_request(_body_faults(body))) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise malformed(body, error) from None
        if job.jobs is not UNSET:
            return await self._answer_batch(job, job.jobs)
        now_s = self._clock()
        self._names.hide(job)
        request = _request_of(job, now_s)
        if isinstance(request, list):
            raise ProblemError(invalid_request(request))
        model, forecast = await self._batcher.predict(request)
        self._telemetry.count_forecasts(forecast.fallback)
        self._accuracy.remember(request, forecast)
        answer = _prediction(job, request, forecast, _identity(model, forecast))
        if asks_more(job):
            asked = Asked(job=job, request=request, forecast=forecast, answer=answer)
            [refused] = self._resources.complete([asked])
            if refused is not None:
                raise ProblemError(refused)
        return self._encoder.encode(answer)

    async def _answer_batch(self, body: PredictionBody, raws: Sequence[msgspec.Raw]) -> bytes:
        beside = [name for name in field_names(Job) if getattr(body, name)]
        if beside:
            detail = "a batch has the field 'jobs' only; put this into the jobs"
            faults = [Fault(pointer=f"/{name}", code="unknown-field", detail=detail) for name in beside]
            raise ProblemError(invalid_request(faults))
        if len(raws) > self._max_jobs:
            detail = f"the batch holds {len(raws)} jobs; at most {self._max_jobs} are taken at once"
            fault = Fault(pointer="/jobs", code="too-many-jobs", detail=detail)
            raise ProblemError(problem("too-many-jobs", detail, faults=[fault]))
        model = self._slot.model  # one model for the whole batch, also when a swap comes between slices
        now_s = self._clock()
        if len(raws) <= self._slice_jobs:
            parts = [self._answer_slice(model, raws, 0, now_s)]
        else:
            async with self._long_batch:
                parts = await self._answer_slices(model, raws, now_s)
        failed = sum(count for _, count in parts)
        items = b",".join(encoded for encoded, _ in parts)
        return b'{"predictions":[' + items + b'],"failed":' + str(failed).encode() + b"}"

    async def _answer_slices(
        self, model: ServedModel, raws: Sequence[msgspec.Raw], now_s: float
    ) -> list[tuple[bytes, int]]:
        """Answer slice by slice; slices shrink where their jobs are costly, so that others wait little."""
        parts = []
        start, size = 0, self._slice_jobs
        while start < len(raws):
            began = time.perf_counter()
            parts.append(self._answer_slice(model, raws[start : start + size], start, now_s))
            start += size
            share = _SLICE_S / max(time.perf_counter() - began, 1e-6)
            size = max(1, min(self._slice_jobs, int(size * min(share, 2.0))))
            await give_way()
        return parts

    def _answer_slice(
        self, model: ServedModel, raws: Sequence[msgspec.Raw], start: int, now_s: float
    ) -> tuple[bytes, int]:
        """Return the encoded items of a slice without brackets, and how many of them failed."""
        items: list[Prediction | FailedItem | None] = [None] * len(raws)
        jobs: list[Job] = []
        requests: list[JobRequest] = []
        places: list[int] = []
        for place, raw in enumerate(raws):
            job = decode_struct(raw, self._job_decoder, Job)
            if isinstance(job, Job):
                self._names.hide(job)
            request = job if isinstance(job, list) else _request_of(job, now_s)
            if isinstance(request, JobRequest) and isinstance(job, Job):
                jobs.append(job)
                requests.append(request)
                places.append(place)
            elif isinstance(request, list):
                faults = [fault.below(f"/jobs/{start + place}") for fault in request]
                items[place] = failed_item(raw, invalid_request(faults))
        reasons: Counter[str | None] = Counter()
        identities: dict[str, ModelIdentity] = {}
        asked: dict[int, Asked] = {}
        for place, job, request, forecast in zip(
            places, jobs, requests, self._batcher.predict_all(model, requests), strict=True
        ):
            if isinstance(forecast, Problem):
                items[place] = FailedItem(
                    status=forecast.status, job_id=request.job_id, problem=forecast.view()
                )
                continue
            calibration = forecast.provenance.calibration_id
            if calibration not in identities:
                identities[calibration] = _identity(model, forecast)
            answer = _prediction(job, request, forecast, identities[calibration])
            items[place] = answer
            if asks_more(job):
                asked[place] = Asked(job=job, request=request, forecast=forecast, answer=answer)
            reasons[forecast.fallback] += 1
            self._accuracy.remember(request, forecast)
        for (place, one), refused in zip(
            asked.items(), self._resources.complete(list(asked.values())), strict=True
        ):
            if refused is not None:
                items[place] = FailedItem(
                    status=refused.status, job_id=one.request.job_id, problem=refused.view()
                )
        for reason, count in reasons.items():
            self._telemetry.count_forecasts(reason, count)
        failed = sum(not isinstance(item, Prediction) for item in items)
        return self._encoder.encode(items)[1:-1], failed


def failed_item(raw: msgspec.Raw, answer: Problem) -> FailedItem:
    """Return the item that stands in the place of an answer, with the job's id where it has one."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        value = None
    job_id = value.get("job_id") if isinstance(value, dict) else None
    return FailedItem(
        status=answer.status, job_id=as_text(job_id) if isinstance(job_id, str | int) else None,
        problem=answer.view(),
    )  # fmt: skip


def _body_faults(body: bytes) -> list[Fault]:
    """Return the faults of a body that is a job, or that has ``jobs`` of a wrong type."""
    decoded = decode_struct(body, msgspec.json.Decoder(PredictionBody), PredictionBody)
    return decoded if isinstance(decoded, list) else []


def _request_of(job: Job, now_s: float) -> JobRequest | list[Fault]:
    submitted_s = now_s if job.submitted_at is None else as_epoch_s(job.submitted_at)
    if not EARLIEST_S <= submitted_s < LATEST_S:
        return moment_faults("submitted_at", submitted_s)
    if job.candidates is not None and (faults := candidate_faults(job)):
        return faults
    return JobRequest(
        submitted_s=submitted_s, job_id=as_text(job.job_id), attempt=job.attempt, cluster=job.cluster,
        user=job.user, account=job.account, queue=job.queue, qos=job.qos, gpu_type=job.gpu_type,
        job_name=job.job_name,         requested_gpus=job.requested_gpus, requested_nodes=job.requested_nodes,
        requested_cpus=job.requested_cpus, requested_memory_mib=job.requested_memory_mib,
        walltime_s=job.walltime_s, array_job_id=as_text(job.array_job_id),
        array_task_index=job.array_task_index, dependency=job.dependency,
    )  # fmt: skip


def _identity(model: ServedModel, forecast: Forecast) -> ModelIdentity:
    info = model.info
    return ModelIdentity(
        name=info.name, version=info.version, digest=info.digest, feature_spec=info.feature_spec,
        calibration_id=forecast.provenance.calibration_id,
    )  # fmt: skip


def _prediction(job: Job, request: JobRequest, forecast: Forecast, model: ModelIdentity) -> Prediction:
    answer = Prediction(
        job_id=request.job_id, quantiles_s=forecast.quantiles_s, mean_s=forecast.mean_s,
        limit_s=forecast.limit_s, fallback=forecast.fallback,
        support=Support(level=forecast.support_level, count=forecast.support), model=model,
    )  # fmt: skip
    if job.elapsed_s is not None:
        answer.remaining = Remaining(
            elapsed_s=job.elapsed_s, quantiles_s=forecast.remaining_quantiles_s(job.elapsed_s)
        )
    if job.ages_s is not None:
        answer.survival = [
            SurvivalPoint(age_s=age_s, probability=probability)
            for age_s, probability in zip(job.ages_s, forecast.survival_at(job.ages_s), strict=True)
        ]
    return answer

"""This module adds GPU memory and placements to the forecasts of jobs that ask for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from predictor.contracts.memory import MemoryForecast
from predictor.contracts.request import JobRequest
from predictor.errors import PredictorError
from serving.memory_answers import USUAL_RISK, MemoryAnswers, MemoryQuestion, is_blind, memory_request
from serving.placement_answers import PlacementAnswers, placements_of
from serving.ports import Forecast
from serving.problems import Fault, Problem, domain_problem, problem
from serving.schemas import Job, Prediction, RequestFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A job that asks for more than its duration, and the answer to complete."""

    job: Job
    request: JobRequest
    forecast: Forecast
    answer: Prediction


class Resources:
    """Completes answers; everything is computed on the event loop, as forecasts of durations are."""

    def __init__(
        self, memory: MemoryAnswers, placements: PlacementAnswers, logger: FilteringBoundLogger
    ) -> None:
        self._memory = memory
        self._placements = placements
        self._logger = logger

    def upper_mib(self, fields: RequestFields, request: JobRequest, *, risk: float = USUAL_RISK) -> float:
        """Return the memory per GPU that is exceeded with probability ``risk``.

        Raises:
            ArgumentError: the workload cannot be.
        """
        question = MemoryQuestion(request=memory_request(fields, request), risk=risk)
        return self._memory.forecast([question])[0].upper_mib

    def complete(self, items: Sequence[Asked]) -> list[Problem | None]:
        """Complete answers; a problem stands for each that could not be, None for the others."""
        asking = [one for one in items if one.job.wants_memory]
        forecasts: dict[int, MemoryForecast] = {}
        try:
            found = self._memory.forecast([_question(one) for one in asking])
            forecasts = {id(one): forecast for one, forecast in zip(asking, found, strict=True)}
        except Exception as error:  # found again below, at the job that causes it
            if len(asking) > 1:
                self._logger.warning("memory could not be forecast together", reason=str(error))
        return [self._complete_one(one, forecasts.get(id(one))) for one in items]

    def _complete_one(self, one: Asked, memory: MemoryForecast | None) -> Problem | None:
        try:
            if one.job.wants_memory:
                if memory is None:
                    [memory] = self._memory.forecast([_question(one)])
                one.answer.vram = self._memory.view(memory)
            if one.job.candidates is not None:
                placements, _ = placements_of(one.job.candidates, one.job.gpu_type)
                one.answer.placements, one.answer.topology = self._placements.rank(
                    placements, memory_request(one.job, one.request), cluster=one.request.cluster or "",
                    duration=one.forecast, memory=None if memory is None or is_blind(memory) else memory,
                )  # fmt: skip
        except PredictorError as error:
            return domain_problem(error)
        except Exception as error:  # the other jobs must get their answers
            self._logger.error("forecast of memory or placements failed", exc_info=error)
            return problem("internal-error")
        return None


def asks_more(job: Job) -> bool:
    """Whether a job asks for more than its duration."""
    return job.candidates is not None or job.wants_memory


def candidate_faults(job: Job) -> list[Fault]:
    """Return what is wrong with the candidates of a job beyond the types of their fields."""
    return [] if job.candidates is None else placements_of(job.candidates, job.gpu_type)[1]


def _question(one: Asked) -> MemoryQuestion:
    types = [candidate.gpu_type for candidate in one.job.candidates or ()]
    asked = (one.job.gpu_type, *types)
    risk = USUAL_RISK if one.job.memory_risk is None else one.job.memory_risk
    return MemoryQuestion(
        request=memory_request(one.job, one.request), risk=risk,
        gpu_types=tuple(dict.fromkeys(name.lower() for name in asked if name)),
    )  # fmt: skip

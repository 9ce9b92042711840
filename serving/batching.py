"""This module forecasts jobs that arrive at the same moment together.

A forecast of several jobs costs little more than that of one. Requests that are read in one turn of the event
loop are therefore answered by one call at the end of that turn; nothing waits for a request yet to come.
"""

import asyncio
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from predictor.contracts.request import JobRequest
from predictor.errors import PredictorError
from serving.model_slot import ModelSlot
from serving.ports import Forecast
from serving.problems import Problem, ProblemError, domain_problem, problem
from serving.served_model import ServedModel

Answer = tuple[ServedModel, Forecast]


class Batcher:
    """The way of all predictions to the model that answers.

    Args:
        most: jobs in one call; more are left for the next turn.
    """

    def __init__(self, slot: ModelSlot[ServedModel], logger: FilteringBoundLogger, most: int) -> None:
        self._slot = slot
        self._logger = logger
        self._most = most
        self._waiting: list[tuple[JobRequest, asyncio.Future[Answer]]] = []

    async def predict(self, request: JobRequest) -> Answer:
        """Return the forecast of one job and the model that made it.

        Raises:
            ProblemError: there is no model, or it refuses the job.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._answer_waiting)
        self._waiting.append((request, answer))
        return await answer

    def predict_all(self, model: ServedModel, requests: Sequence[JobRequest]) -> Sequence[Forecast | Problem]:
        """Forecast together; where that fails, one by one, so that one job cannot spoil the others."""
        if not requests:
            return []
        if len(requests) > 1:
            try:
                return model.predict(requests)
            except Exception as error:  # found again below, at the job that causes it
                self._logger.warning("jobs could not be forecast together", reason=str(error))
        return [self._predict_one(model, request) for request in requests]

    def _predict_one(self, model: ServedModel, request: JobRequest) -> Forecast | Problem:
        try:
            return model.predict((request,))[0]
        except PredictorError as error:
            return domain_problem(error)
        except Exception as error:  # the other jobs must get their answers
            self._logger.error("forecast failed", exc_info=error)
            return problem("internal-error")

    def _answer_waiting(self) -> None:
        taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._answer_waiting)
        live = [(request, answer) for request, answer in taken if not answer.done()]
        try:
            model = self._slot.model
        except ProblemError as error:
            for _, answer in live:
                answer.set_exception(ProblemError(error.problem))
            return
        results = self.predict_all(model, [request for request, _ in live])
        for (_, answer), result in zip(live, results, strict=True):
            if isinstance(result, Problem):
                answer.set_exception(ProblemError(result))
            else:
                answer.set_result((model, result))

"""This module joins the queue to the models: forecasts on the way in, outcomes on the way out."""

import math
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from predictor.contracts.request import JobRequest
from serving.ledger import Ledger
from serving.model_slot import ModelSlot
from serving.ports import Forecast
from serving.problems import Problem
from serving.queue.schemas import Submission
from serving.queue.submissions import request_of
from serving.resources import Resources
from serving.schemas import ModelIdentity, OutcomeEvent
from serving.served_model import ServedModel


class ModelForecasts:
    """Forecasts submissions with the model that serves; where it cannot, the queue plans with the limit."""

    def __init__(
        self, slot: ModelSlot[ServedModel], resources: Resources, logger: FilteringBoundLogger
    ) -> None:
        self._slot = slot
        self._resources = resources
        self._logger = logger

    async def forecast(
        self, submissions: Sequence[Submission], now_s: float
    ) -> Sequence[tuple[Forecast | None, ModelIdentity | None, float | None]]:
        """Return duration forecast, its model and the bound of memory of each submission.

        Memory is forecast where the submission says what it computes.
        """
        requests = [request_of(submission, now_s) for submission in submissions]
        memory = [
            self._upper_mib(submission, request) if submission.has_workload else None
            for submission, request in zip(submissions, requests, strict=True)
        ]
        durations = self._durations(requests)
        return [(*found, upper_mib) for found, upper_mib in zip(durations, memory, strict=True)]

    def _upper_mib(self, submission: Submission, request: JobRequest) -> float | None:
        try:
            return self._resources.upper_mib(submission, request)
        except Exception as error:  # a submission must not fail for want of a forecast
            self._logger.warning("the memory of a submission could not be forecast", reason=str(error))
            return None

    def _durations(
        self, requests: Sequence[JobRequest]
    ) -> list[tuple[Forecast | None, ModelIdentity | None]]:
        model = self._slot.state.model
        if model is None or not requests:
            return [(None, None)] * len(requests)
        try:
            forecasts = model.predict(requests)
        except Exception as error:  # a submission must not fail for want of a forecast
            self._logger.error("submissions could not be forecast", exc_info=error)
            return [(None, None)] * len(requests)
        info = model.info
        return [
            (
                forecast,
                ModelIdentity(
                    name=info.name, version=info.version, digest=info.digest, feature_spec=info.feature_spec,
                    calibration_id=forecast.provenance.calibration_id,
                ),
            )
            for forecast in forecasts
        ]  # fmt: skip


class LedgerOutcomes:
    """Passes what happens to jobs of the queue on to the ledger, from which models and retraining learn."""

    def __init__(self, ledger: Ledger, logger: FilteringBoundLogger) -> None:
        self._ledger = ledger
        self._logger = logger

    async def tell(self, events: Sequence[OutcomeEvent]) -> None:
        """Record events; what the ledger refuses is logged, for the queue has recorded it already."""
        for (
            event
        ) in events:  # the queue knows no cluster: one that the submission named is part of the job's key
            if event.event != "submitted" and event.cluster is None:
                event.cluster = self._ledger.cluster_of(str(event.job_id))
        answers = await self._ledger.record(events, told_at_s=math.inf)  # by a clock that may be ahead
        for event, answer in zip(events, answers, strict=True):
            if isinstance(answer, Problem):
                self._logger.warning(
                    "an outcome of the queue was not learned", job_id=str(event.job_id),
                    event_kind=event.event, reason=answer.detail,
                )  # fmt: skip

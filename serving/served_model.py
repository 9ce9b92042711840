"""This module is a loaded model in service: a forecaster, and the jobs that it has been told of."""

import math
from collections.abc import Iterable, Sequence

from predictor.contracts.request import JobRequest
from predictor.errors import BundleCorruptError
from serving.evidence import Evidence
from serving.outcome_rows import FINISHED, STARTED, SUBMITTED, JobKey, OutcomeRow
from serving.ports import BundleFacts, Forecast, Forecaster
from serving.runs import Run


class ServedModel:
    """A forecaster that follows the outcome log.

    Args:
        forecaster: answers predictions; used from one thread at a time.
        source: version and digest of its bundle as the alias file records them, None for a fallback.
    """

    def __init__(self, forecaster: Forecaster, source: tuple[str, str] | None = None) -> None:
        self._forecaster = forecaster
        self._told: set[JobKey] = set()
        self.source = source

    @property
    def info(self) -> BundleFacts:
        """Identity of the bundle."""
        return self._forecaster.info

    @property
    def evidence(self) -> Evidence:
        """What live jobs and forecasts are held against."""
        return self._forecaster.evidence

    def predict(self, jobs: Sequence[JobRequest]) -> Sequence[Forecast]:
        """Return one forecast per job, in order."""
        return self._forecaster.predict(jobs)

    def record(self, row: OutcomeRow) -> Forecast | None:
        """Let the forecaster learn from one row.

        A submission is forecast first, so that its outcome can be compared with that.
        """
        if row.event == SUBMITTED:
            if row.job in self._told:
                return None
            forecast = self._forecaster.predict((row.request(),))[0]
            self._announce(row)
            return forecast
        if row.event == STARTED and row.started_at is not None:
            self._announce(row)
            self._forecaster.started(
                cluster=row.cluster, job_id=row.job_id, attempt=row.attempt, at_s=row.started_at.timestamp()
            )
        elif row.event == FINISHED:
            self._forecaster.finished(row.outcome())
            self._told.discard(row.job)
        return None

    def replay(self, rows: Iterable[OutcomeRow], open_jobs: Iterable[OutcomeRow]) -> int:
        """Learn what happened after the bundle was trained, and of jobs still open; return the count.

        Args:
            rows: rows of the log in their order; those up to ``trained_until_s`` are in the bundle already.
            open_jobs: latest rows of the jobs that have not finished.
        """
        count = 0
        until_s = self.info.trained_until_s
        for row in open_jobs:
            if row.moment_s <= until_s:
                self.record(row)
            elif row.submitted_at.timestamp() <= until_s:
                self._announce(row)
        over: dict[JobKey, Run] = {}
        for row in rows:
            if row.moment_s <= until_s or over.get(row.job, Run()).of(row.submitted_at).is_over:
                continue
            if row.event == FINISHED:
                over[row.job] = Run().after(row)
            self.record(row)
            count += 1
        return count

    def warm(self, now_s: float) -> None:
        """Forecast one job and two, so that no caller waits for caches or a compiler.

        Raises:
            BundleCorruptError: the answer is no distribution.
        """
        sample = JobRequest(submitted_s=now_s, user="warm-up", requested_gpus=1.0, walltime_s=3600.0)
        self.predict([sample, sample])
        values = list(self.predict([sample])[0].quantiles_s.values())
        if (
            not values
            or not all(math.isfinite(value) and value > 0 for value in values)
            or values != sorted(values)
        ):
            raise BundleCorruptError(f"the bundle's first forecast is no distribution: {values}")

    def _announce(self, row: OutcomeRow) -> None:
        if row.job not in self._told:
            self._told.add(row.job)
            self._forecaster.submitted(row.request())

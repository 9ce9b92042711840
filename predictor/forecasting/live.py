"""This module forecasts jobs one by one as they come, and learns from their outcomes at once.

It is the functional core of the prediction endpoint: same features, experts, pool and calibration as
the backtest, fed by single events. Not thread-safe: the caller serialises.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from predictor.contracts.forecast import LEVELS, NAMED_LEVELS, JobForecast, Provenance
from predictor.contracts.job import JobState
from predictor.contracts.outcome import Outcome
from predictor.contracts.request import JobRequest
from predictor.features.assemble import FeatureBuilder
from predictor.features.history import JobKey
from predictor.features.request import columns_of_requests
from predictor.forecasting.bundle import BundleInfo, DurationBundle
from predictor.forecasting.duration import RawForecasts
from predictor.forecasting.prequential import thinned

MAX_REMEMBERED = 200_000  # forecasts kept until their outcomes come; the oldest are forgotten first


class LiveForecaster:
    """Forecasts from a bundle, with history, expert weights and calibration that go on learning.

    A job that names no cluster is taken to be of the one that the bundle's history is of, if it is one.
    """

    def __init__(self, bundle: DurationBundle) -> None:
        self.info: BundleInfo = bundle.info
        self._experts = bundle.model.experts
        self._online = bundle.model.online
        self._settings = bundle.model.settings
        self._history = bundle.history
        self._cluster = bundle.history.only_cluster()
        self._builder = FeatureBuilder(self._experts.vocabulary)
        # forecasts made together, and the place of the job among them
        self._remembered: OrderedDict[JobKey, tuple[RawForecasts, int]] = OrderedDict()
        self._started_s: dict[JobKey, float] = {}  # of the remembered jobs that run

    @property
    def calibration_id(self) -> str:
        """Identifies the calibration state: the bundle and how many outcomes were learned."""
        return f"{self.info.version}+{self._online.calibration.outcomes}"

    def predict(self, jobs: Sequence[JobRequest]) -> list[JobForecast]:
        """Forecast jobs as if each were submitted now; jobs with an id are remembered for their outcome."""
        if not jobs:
            return []
        jobs = [self._placed(job) for job in jobs]
        requests = columns_of_requests(jobs)
        features = self._builder.assemble(requests, self._history.read(requests, [_key(job) for job in jobs]))
        raw = self._online.consider(features, self._experts.predict(features), requests.submitted_s)
        forecasts = self._online.forecast(raw)
        provenance = Provenance(
            model_version=self.info.version,
            feature_spec=self.info.feature_spec,
            calibration_id=self.calibration_id,
        )
        self._remember(jobs, raw)
        answers: list[JobForecast] = []
        columns = (
            forecasts.quantiles_s.tolist(), forecasts.mean_s().tolist(), forecasts.limit_s.tolist(),
            features.support[:, :2].tolist(),
        )  # fmt: skip
        for row, (values, mean_s, limit_s, counts) in enumerate(zip(*columns, strict=True)):
            level, support, fallback = _support(*counts)
            answers.append(
                JobForecast(
                    quantiles_s={name: values[at] for name, at in _NAMED},
                    mean_s=mean_s,
                    limit_s=None if limit_s == math.inf else limit_s,
                    fallback=fallback,
                    support_level=level,
                    support=support,
                    provenance=provenance,
                    distribution=forecasts if len(jobs) == 1 else forecasts.row(row),
                )
            )
        return answers

    def submitted(self, job: JobRequest) -> None:
        """Enter a job as pending; without an id there is nothing to enter."""
        job = self._placed(job)
        if job.job_id is not None:
            self._history.submit((job.cluster, job.job_id, job.attempt), columns_of_requests([job]))

    def started(self, *, cluster: str | None, job_id: str, attempt: int, at_s: float) -> bool:
        """Move a job to running; returns False when it is unknown or runs already."""
        key = (self._cluster if cluster is None else cluster, job_id, attempt)
        if key in self._remembered:
            self._started_s.setdefault(key, at_s)
        return self._history.start(key, at_s)

    def finished(self, outcome: Outcome) -> bool:
        """Learn how a job ended; returns False when nothing is known of it and no request is given."""
        cluster = self._cluster if outcome.cluster is None else outcome.cluster
        key: JobKey = (cluster, outcome.job_id, outcome.attempt)
        if not self._history.knows(key):
            if outcome.request is None:
                return False
            self._history.submit(key, columns_of_requests([self._placed(outcome.request)]))
        elapsed_s = outcome.duration_s
        if elapsed_s is not None:
            self._history.start(
                key, outcome.started_s if outcome.started_s is not None else outcome.ended_s - elapsed_s
            )
        self._history.end(
            key, outcome.ended_s, elapsed_s=np.nan if elapsed_s is None else elapsed_s, state=outcome.state
        )
        self._started_s.pop(key, None)
        remembered = self._remembered.pop(key, None)
        if remembered is not None and elapsed_s is not None and elapsed_s > 0:
            batch, row = remembered
            raw = batch.take(np.array([row]))
            self._online.learn(
                raw,
                np.array([elapsed_s]),
                np.array([self._observes(outcome.state) and elapsed_s < raw.limit_s[0]]),
                np.array([outcome.ended_s]),
            )
            if self._online.calibration.is_due(outcome.ended_s):
                self._refresh(outcome.ended_s)
        return True

    def _refresh(self, now_s: float) -> None:
        """Calibrate anew, with the ages of the jobs that run now."""
        running = [(key, start_s) for key, start_s in self._started_s.items() if start_s < now_s]
        if not running:
            self._online.refresh(now_s)
            return
        chosen = [running[row] for row in thinned(np.arange(len(running))).tolist()]
        raws = []
        for key, _ in chosen:
            batch, row = self._remembered[key]
            raws.append(batch.take(np.array([row])))
        start_s = np.array([start_s for _, start_s in chosen])
        self._online.refresh(now_s, RawForecasts.join(raws), start_s, len(chosen) / len(running))

    def _placed(self, job: JobRequest) -> JobRequest:
        return (
            job if job.cluster is not None or self._cluster is None else replace(job, cluster=self._cluster)
        )

    def _observes(self, state: JobState) -> bool:
        cancelled_ends = state is JobState.CANCELLED and self._settings.cancelled_ends_job
        return state.observes_duration or cancelled_ends

    def _remember(self, jobs: Sequence[JobRequest], raw: RawForecasts) -> None:
        """Keep the raw forecasts of the jobs that have an id, to be taken apart once an outcome comes."""
        known = [row for row, job in enumerate(jobs) if job.job_id is not None]
        if not known:
            return
        kept = raw if len(known) == len(jobs) else raw.take(np.array(known))
        for place, row in enumerate(known):
            job = jobs[row]
            key = (job.cluster, job.job_id or "", job.attempt)
            self._remembered[key] = kept, place
            self._remembered.move_to_end(key)
        while len(self._remembered) > MAX_REMEMBERED:
            oldest, _ = self._remembered.popitem(last=False)
            self._started_s.pop(oldest, None)


def _key(job: JobRequest) -> JobKey | None:
    return None if job.job_id is None else (job.cluster, job.job_id, job.attempt)


_NAMED = tuple((name, LEVELS.index(level)) for name, level in NAMED_LEVELS.items())


def _support(user: int, template: int) -> tuple[str, int, str | None]:
    """Return whose finished jobs stand behind a forecast, how many, and why no closer ones do."""
    if template:
        return "template", template, None
    if user:
        return "user", user, "no-history-of-this-request"
    return "site", 0, "no-history-of-this-user"

"""This module forecasts jobs one by one as they come, and learns from their outcomes at once.

It is the functional core of the prediction endpoint: same features, experts, pool and calibration as
the backtest, fed by single events. Not thread-safe: the caller serialises.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from predictor.contracts.forecast import LEVELS, NAMED_LEVELS, JobForecast, Provenance
from predictor.contracts.job import JobState
from predictor.contracts.outcome import Outcome
from predictor.contracts.request import JobRequest
from predictor.features.assemble import FeatureBuilder, FeatureTable
from predictor.features.history import JobKey
from predictor.features.request import columns_of_requests
from predictor.forecasting.bundle import BundleInfo, DurationBundle
from predictor.forecasting.duration import RawForecasts

MAX_REMEMBERED = 200_000  # forecasts kept until their outcomes come; the oldest are forgotten first


class LiveForecaster:
    """Forecasts from a bundle, with history, expert weights and calibration that go on learning."""

    def __init__(self, bundle: DurationBundle) -> None:
        self.info: BundleInfo = bundle.info
        self._experts = bundle.model.experts
        self._online = bundle.model.online
        self._settings = bundle.model.settings
        self._history = bundle.history
        self._builder = FeatureBuilder(self._experts.vocabulary)
        self._remembered: OrderedDict[JobKey, RawForecasts] = OrderedDict()
        self._named = {name: LEVELS.index(level) for name, level in NAMED_LEVELS.items()}

    @property
    def calibration_id(self) -> str:
        """Identifies the calibration state: the bundle and how many outcomes were learned."""
        return f"{self.info.version}+{self._online.calibration.outcomes}"

    def predict(self, jobs: Sequence[JobRequest]) -> list[JobForecast]:
        """Forecast jobs as if each were submitted now; jobs with an id are remembered for their outcome."""
        if not jobs:
            return []
        requests = columns_of_requests(jobs)
        features = self._builder.assemble(requests, self._history.read(requests))
        raw = self._online.consider(features, self._experts.predict(features))
        forecasts = self._online.forecast(raw)
        means = forecasts.mean_s()
        provenance = Provenance(
            model_version=self.info.version, feature_spec=self.info.feature_spec, calibration_id=self.calibration_id
        )
        answers = []
        for row, job in enumerate(jobs):
            if job.job_id is not None:
                self._remember((job.cluster, job.job_id, job.attempt), raw.take(np.array([row])))
            limit_s = float(forecasts.limit_s[row])
            values = forecasts.quantiles_s[row].tolist()
            level, support, fallback = _support(features, row)
            answers.append(
                JobForecast(
                    quantiles_s={name: values[at] for name, at in self._named.items()},
                    mean_s=float(means[row]),
                    limit_s=None if np.isinf(limit_s) else limit_s,
                    fallback=fallback,
                    support_level=level,
                    support=support,
                    provenance=provenance,
                    distribution=forecasts.take(np.array([row])),
                )
            )
        return answers

    def submitted(self, job: JobRequest) -> None:
        """Enter a job as pending; without an id there is nothing to enter."""
        if job.job_id is not None:
            self._history.submit((job.cluster, job.job_id, job.attempt), columns_of_requests([job]))

    def started(self, *, cluster: str | None, job_id: str, attempt: int, at_s: float) -> bool:
        """Move a job to running; returns False when it is unknown or runs already."""
        return self._history.start((cluster, job_id, attempt), at_s)

    def finished(self, outcome: Outcome) -> bool:
        """Learn how a job ended; returns False when nothing is known of it and no request is given."""
        key: JobKey = (outcome.cluster, outcome.job_id, outcome.attempt)
        if not self._history.knows(key):
            if outcome.request is None:
                return False
            self._history.submit(key, columns_of_requests([outcome.request]))
        elapsed_s = outcome.duration_s
        if elapsed_s is not None:
            self._history.start(key, outcome.started_s if outcome.started_s is not None else outcome.ended_s - elapsed_s)
        self._history.end(
            key, outcome.ended_s, elapsed_s=np.nan if elapsed_s is None else elapsed_s, state=outcome.state
        )
        raw = self._remembered.pop(key, None)
        if raw is not None and elapsed_s is not None and elapsed_s > 0:
            self._online.learn(
                raw,
                np.array([elapsed_s]),
                np.array([self._observes(outcome.state) and elapsed_s < raw.limit_s[0]]),
                np.array([outcome.ended_s]),
            )
        return True

    def _observes(self, state: JobState) -> bool:
        cancelled_ends = state is JobState.CANCELLED and self._settings.cancelled_ends_job
        return state.observes_duration or cancelled_ends

    def _remember(self, key: JobKey, raw: RawForecasts) -> None:
        self._remembered[key] = raw
        self._remembered.move_to_end(key)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)


def _support(features: FeatureTable, row: int) -> tuple[str, int, str | None]:
    user, template = (int(count) for count in features.support[row])
    if template:
        return "template", template, None
    if user:
        return "user", user, "no-history-of-this-request"
    return "site", 0, "no-history-of-this-user"

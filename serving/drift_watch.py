"""This module keeps the latest submissions, and compares them with what the model has learned from."""

from collections import deque

from predictor.contracts.request import JobRequest
from predictor.monitoring.alert import Alert
from predictor.monitoring.drift import DriftSettings, drift_alerts
from predictor.monitoring.watched import DriftReference


class DriftWatch:
    """The latest jobs that were submitted or forecast; belongs to the event loop.

    Args:
        window: how many jobs are kept.
    """

    def __init__(self, window: int) -> None:
        self._jobs: deque[JobRequest] = deque(maxlen=window)
        self._seen = 0
        self._looked: tuple[int, DriftReference | None] = (-1, None)
        self._alerts: list[Alert] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: JobRequest) -> None:
        """Take up a job, once, when it is first heard of."""
        self._jobs.append(job)
        self._seen += 1

    def look(self, reference: DriftReference | None) -> list[Alert]:
        """Return the alerts of the present window; none without a reference."""
        if self._looked == (self._seen, reference):  # nothing has changed since the last look
            return self._alerts
        self._alerts = []
        if reference is not None and self._jobs:
            recent = reference.values(tuple(self._jobs))
            self._alerts = drift_alerts(reference.features, recent, DriftSettings())
        self._looked = (self._seen, reference)
        return self._alerts

"""This module compares forecasts, as they stood at submission, with what happened."""

import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from predictor.contracts.job import JobState
from predictor.contracts.request import JobRequest
from serving.drift_watch import DriftWatch
from serving.outcome_rows import JobKey, OutcomeRow
from serving.ports import Forecast
from serving.telemetry import Telemetry

QUANTILES = ("q50", "q90", "q95")
MOST_REMEMBERED = 100_000  # jobs; the oldest give way
# A timeout shows the time that the job occupied, min(duration, limit), which is what is forecast.
_JUDGED = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.TIMEOUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The forecast of a job when it was first asked for."""

    quantiles_s: tuple[float, ...]
    limit_s: float | None


class Accuracy:
    """Rolling coverage of the quantiles, over jobs whose forecast was made before they ended.

    Only the first forecast of a job counts: later ones may know more.
    """

    def __init__(
        self, telemetry: Telemetry, window: int, drift: DriftWatch, quantiles: Sequence[str] = QUANTILES
    ) -> None:
        self._drift = drift
        self._errors: deque[float] = deque(maxlen=window)  # |ln(actual / median)|
        self._out_of_memory: deque[bool] = deque(maxlen=window)  # of jobs with GPUs that ran
        self._telemetry = telemetry
        self._quantiles = tuple(quantiles)
        self._remembered: OrderedDict[JobKey, Remembered] = OrderedDict()
        self._hits: deque[tuple[bool, ...]] = deque()
        self._window = window
        self._sums = [0] * len(self._quantiles)

    def remember(self, job: JobRequest, forecast: Forecast) -> None:
        """Keep the forecast of a job that has an id."""
        if job.job_id is None or (key := (job.cluster, job.job_id, job.attempt)) in self._remembered:
            return
        values = forecast.quantiles_s
        self._remembered[key] = Remembered(
            quantiles_s=tuple(values[name] for name in self._quantiles), limit_s=forecast.limit_s
        )
        self._drift.add(job)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    def judge(self, row: OutcomeRow) -> None:
        """Compare a finished job with its forecast, where there is one."""
        if row.requested_gpus and row.state in _JUDGED:
            self._out_of_memory.append(row.state == JobState.OUT_OF_MEMORY)
        forecast = self._remembered.pop(row.job, None)
        actual_s = row.outcome().duration_s
        if forecast is None or actual_s is None or row.state not in _JUDGED:
            return
        if forecast.limit_s is not None:
            actual_s = min(actual_s, forecast.limit_s)
        self._count(tuple(actual_s <= quantile_s for quantile_s in forecast.quantiles_s))
        self._errors.append(abs(math.log(max(actual_s, 1.0) / max(forecast.quantiles_s[0], 1.0))))
        self._telemetry.observe_ratio(actual_s / max(forecast.quantiles_s[0], 1.0))
        self._telemetry.set_coverage(self.coverage(), len(self._hits))

    @property
    def outcomes(self) -> int:
        """How many outcomes are in the window."""
        return len(self._hits)

    def mean_abs_log_ratio(self) -> float | None:
        """Return the mean of |ln(actual / median)| of the window, None before the first outcome."""
        return math.fsum(self._errors) / len(self._errors) if self._errors else None

    def out_of_memory(self) -> tuple[int, int]:
        """Return how many of the latest jobs with GPUs ran out of memory, and how many these were in all."""
        return sum(self._out_of_memory), len(self._out_of_memory)

    def coverage(self) -> dict[str, float]:
        """Return the share of judged jobs at or below each quantile; empty before the first."""
        if not self._hits:
            return {}
        return {
            name: total / len(self._hits) for name, total in zip(self._quantiles, self._sums, strict=True)
        }

    def _count(self, hits: tuple[bool, ...]) -> None:
        self._hits.append(hits)
        gone = self._hits.popleft() if len(self._hits) > self._window else (False,) * len(hits)
        self._sums = [total + new - old for total, new, old in zip(self._sums, hits, gone, strict=True)]

"""This module plays a day of jobs at the queue of a service over HTTP, many times as fast as it was.

The clock of the service is the real one: so forecasts, limits and durations shrink by the same factor.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

import pandas as pd

from pipelines.loopback_service import LoopbackService
from predictor.data.schema import seconds
from predictor.errors import PipelineError

CLUSTER, UNITS = "philly-11cb48", 64
DAY_S = 86_400.0
_LOAD_RATIO = 1.3  # more work than the cluster can do in a day, so that there is a queue
_BACKLOG_RATIO = 0.35  # of the jobs wait when the day begins
_MOST_JOBS = 400
_PATIENCE_S = 20.0
_FIELDS = ("cluster", "user", "account", "queue", "job_name", "requested_gpus", "requested_cpus")
Job = Mapping[str, Any]  # Any: JSON values


@dataclass(slots=True)
class SimulatedDay:
    """The jobs of a day, and where in it we are.

    Attributes:
        service: keeps the queue.
        model: forecasts; another one, since the queue is told ends of jobs that run faster than they did.
        jobs: requests in the order of submission, each with its ``duration_s``.
        speed: seconds of the day in one of ours.
    """

    service: LoopbackService
    model: LoopbackService
    jobs: Sequence[Job]
    speed: float = 300.0
    began: float = field(default_factory=time.monotonic)
    round: int = 0
    next: int = 0
    lasts: dict[str, float] = field(default_factory=dict)

    @property
    def lasts_s(self) -> float:
        """How long the day lasts here."""
        return DAY_S / self.speed

    def begin(self) -> None:
        """Submit what waits in the morning."""
        self.began, self.next = time.monotonic(), 0
        self.round += 1
        self._submit(int(len(self.jobs) * _BACKLOG_RATIO))

    def step(self) -> None:
        """Submit what is due, and end the jobs that have run as long as they did; the day begins anew."""
        passed = (time.monotonic() - self.began) / self.lasts_s
        if passed >= 1.0:
            self.begin()
        else:
            due = _BACKLOG_RATIO + (1.0 - _BACKLOG_RATIO) * passed
            self._submit(int(len(self.jobs) * due))
        for job in self.service.call("/v1/jobs?limit=500")["items"]:
            job_id = str(job["job_id"])
            if job["elapsed_s"] >= self.lasts.get(job_id, 0.0):
                self.service.call(f"/v1/jobs/{job_id}/outcome", {"event": "finished", "state": "COMPLETED"})
                self.lasts.pop(job_id, None)

    def counts(self) -> tuple[int, int]:
        """Return how many jobs wait and how many run."""
        return (
            int(self.service.call("/v1/queue?limit=1")["total"]),
            int(self.service.call("/v1/jobs?limit=1")["total"]),
        )

    def check(self) -> None:
        """Look at the page, and play on until a job has ended.

        Raises:
            PipelineError: the page or the queue is not as it should be.
        """
        with urlopen(self.service.url + "/", timeout=10) as answer:  # noqa: S310  (our own service)
            page = answer.read().decode()
        waiting, running = self.counts()
        if "Job queue" not in page or not waiting or not running:
            raise PipelineError(f"{waiting} jobs wait and {running} run; see '{self.service.log}'")
        before, deadline = len(self.lasts), time.monotonic() + _PATIENCE_S
        while len(self.lasts) >= before:
            if time.monotonic() > deadline:
                raise PipelineError(f"no job ended within {_PATIENCE_S:.0f} s; see '{self.service.log}'")
            self.step()
            before = max(before, len(self.lasts))
            time.sleep(0.1)

    def _submit(self, until: int) -> None:
        jobs = self.jobs[self.next : until]
        if not jobs:
            return
        requests = [{name: job[name] for name in (*_FIELDS, "walltime_s") if name in job} for job in jobs]
        known = self.model.call("/v1/predictions", {"jobs": requests})["predictions"]
        submissions = []
        for place, (request, forecast, job) in enumerate(zip(requests, known, jobs, strict=True)):
            job_id = f"day{self.round}-{self.next + place + 1:03d}"
            self.lasts[job_id] = job["duration_s"] / self.speed
            quantiles_s = {
                name: max(value / self.speed, 0.1) for name, value in forecast["quantiles_s"].items()
            }
            submissions.append(
                {**request, "job_id": job_id, "walltime_s": request["walltime_s"] / self.speed,
                 "forecast": {"quantiles_s": quantiles_s}}
            )  # fmt: skip
        self.service.call("/v1/jobs", {"jobs": submissions})
        self.next = until


def busy_day(frame: pd.DataFrame, units: int) -> list[Job]:
    """Return the last GPU jobs of a log that together keep so many units more than busy for a day."""
    duration_s = seconds(frame["ended_at"]) - seconds(frame["started_at"])
    kept = frame.assign(duration_s=duration_s)
    fits = kept["requested_gpus"].between(1, units) & (kept["duration_s"] > 0) & (kept["walltime_s"] > 0)
    kept = kept[fits.fillna(False)].iloc[::-1].head(_MOST_JOBS)
    work = (kept["requested_gpus"] * kept["duration_s"]).cumsum()
    kept = kept[(work <= _LOAD_RATIO * units * DAY_S).to_numpy(bool)].iloc[::-1]
    columns = [name for name in (*_FIELDS, "walltime_s", "duration_s") if name in kept]
    rows: list[Job] = json.loads(kept[columns].to_json(orient="records"))
    return [{name: value for name, value in row.items() if value is not None} for row in rows]

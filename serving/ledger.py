"""This module records what happened to jobs: once, durably, and then into the model that answers."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
from structlog.typing import FilteringBoundLogger

from serving.accuracy import Accuracy
from serving.drift_watch import DriftWatch
from serving.model_slot import ModelSlot
from serving.outcome_checks import event_faults
from serving.outcome_log import DAY_S, LogAccount, OutcomeLog
from serving.outcome_rows import FINISHED, SUBMITTED, JobKey, OutcomeRow, row_of
from serving.ports import Clock
from serving.problems import Fault, Problem, invalid_request, problem
from serving.runs import Run, decode_run, encode_run
from serving.schemas import OutcomeEvent, Receipt
from serving.seen_events import SeenEvents
from serving.served_memory import ServedMemory
from serving.served_model import ServedModel
from serving.served_topology import ServedTopology
from serving.telemetry import Telemetry
from serving.turns import give_way

_RETRY = (("Retry-After", "5"),)
_EARLIER = "earlier"  # marks an event of an earlier run in the index
_TURN = 50  # events between two turns of others


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An event on its way to the disk: its row, or None where it repeats an earlier one."""

    event: OutcomeEvent
    row: OutcomeRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What one request adds: its rows, and what is known with them of their jobs."""

    rows: list[OutcomeRow] = field(default_factory=list)
    told: set[tuple[JobKey, str, str]] = field(default_factory=set)  # events by their digests
    runs: dict[JobKey, Run] = field(default_factory=dict)
    latest: dict[JobKey, OutcomeRow | None] = field(default_factory=dict)


class OpenJobs:
    """The jobs that have not finished, and digests of recent events; rebuilt from the log at the start.

    Args:
        seen: where the digests are kept.
    """

    def __init__(self, seen: SeenEvents | None = None) -> None:
        self._latest: dict[JobKey, OutcomeRow] = {}
        self._cluster: dict[str, str] = {}  # of open first attempts that name one
        self._seen = SeenEvents() if seen is None else seen
        self._first_day = 0  # what came before is forgotten
        self._beside: dict[bytes, str] = {}  # what the index had no room for

    def __len__(self) -> int:
        return len(self._latest)

    def rows(self) -> Iterable[OutcomeRow]:
        """Return the latest row of each open job."""
        return self._latest.values()

    def known(self, job: JobKey) -> OutcomeRow | None:
        """Return the latest row of an open job."""
        return self._latest.get(job)

    def run(self, job: JobKey) -> Run:
        """Return what is recorded of the latest run of a job."""
        text = self._text(_key(job))
        return Run() if text is None else decode_run(text)

    def was_earlier(self, job: JobKey, event: str, payload: str) -> bool:
        """Whether this very event is recorded of an earlier run of the same id."""
        return self._text(_key(job, event, payload)) is not None

    def payload(self, job: JobKey, event: str) -> str | None:
        """Return the digest of the event as it was recorded of the latest run, None = it was not."""
        return self.run(job).payloads.get(event)

    def cluster_of(self, job_id: str) -> str | None:
        """Return the cluster that the submission of an open job named."""
        return self._cluster.get(job_id)

    def is_over(self, job: JobKey) -> bool:
        """Whether the end of the latest run of the job is recorded."""
        return self.run(job).is_over

    def add(self, row: OutcomeRow) -> bool:
        """Take up a row; return whether its run was over already."""
        before = self.run(row.job)
        run = before.of(row.submitted_at)
        day = int(row.recorded_at.timestamp() // DAY_S)
        if run is not before:
            for event, payload in before.payloads.items():
                self._keep(_key(row.job, event, payload), _EARLIER, day)
        latest = run.latest(self._latest.get(row.job), row)
        if latest is None:
            self._latest.pop(row.job, None)
        else:
            self._latest[row.job] = latest
        if row.event == FINISHED:
            self._cluster.pop(row.job_id, None)
        elif latest is row and row.cluster is not None and row.attempt == 0:
            self._cluster[row.job_id] = row.cluster
        self._keep(_key(row.job), encode_run(run.after(row)), day)
        return run.is_over

    def _text(self, key: bytes) -> str | None:
        return self._beside.get(key) or self._seen.payload(key)

    def _keep(self, key: bytes, text: str, day: int) -> None:
        try:
            self._seen.add(key, text, day)
            self._beside.pop(key, None)
        except OSError:  # the row is on disk already, so it must be known all the same
            self._beside[key] = text

    def forget(self, before_s: float) -> None:
        """Let go of what came on the days before a moment, so that nothing grows for ever; call it often."""
        first = int(before_s // DAY_S)
        self._seen.forget(first)
        if first <= self._first_day:
            return
        self._first_day = first
        first_s = first * DAY_S
        gone = [job for job, row in self._latest.items() if row.recorded_at.timestamp() < first_s]
        for job in gone:
            del self._latest[job]
            self._cluster.pop(job[1], None)

    def close(self) -> None:
        """Let go of the digests."""
        self._seen.close()


class Ledger:
    """The one way for events to get in."""

    def __init__(
        self, *, log: OutcomeLog, jobs: OpenJobs, slot: ModelSlot[ServedModel], accuracy: Accuracy,
        writing: asyncio.Lock, clock: Clock, telemetry: Telemetry, logger: FilteringBoundLogger,
        drift: DriftWatch, followers: Sequence[ModelSlot[ServedMemory] | ModelSlot[ServedTopology]] = (),
    ) -> None:  # fmt: skip
        self._log = log
        self._jobs = jobs
        self._slot = slot
        self._accuracy = accuracy
        self._writing = writing
        self._clock = clock
        self._telemetry = telemetry
        self._logger = logger
        self._followers = tuple(followers)
        self._memory_s = math.inf
        self._drift = drift
        self.fault = ""  # why the last writing failed, empty = it did not

    def restore(self, memory_days: int) -> LogAccount:
        """Read the log of the last days: which jobs are open, which events were recorded."""
        account = LogAccount()
        self._memory_s = memory_days * DAY_S
        for row in self._log.read(since_s=self._clock() - memory_days * DAY_S, account=account):
            self._jobs.add(row)
            if row.event == SUBMITTED:
                self._drift.add(row.request())
        account.unreadable += self._log.torn
        self._telemetry.set_unreadable_lines(account.unreadable)
        if account.unreadable:
            self._logger.warning("the outcome log has unreadable lines", lines=account.unreadable)
        self._logger.info("outcome log read", rows=account.rows, open_jobs=len(self._jobs))
        return account

    def open_rows(self) -> Iterable[OutcomeRow]:
        """Return the latest row of each job that is not over."""
        return self._jobs.rows()

    def cluster_of(self, job_id: str) -> str | None:
        """Return the cluster that the submission of an open job named."""
        return self._jobs.cluster_of(job_id)

    def close(self) -> None:
        """Let go of what the log is looked up with."""
        self._jobs.close()

    def faults(self, event: OutcomeEvent) -> list[Fault]:
        """Return what is wrong with an event as a whole, given what is known of its job."""
        known = self._jobs.known((event.cluster, str(event.job_id), event.attempt))
        return event_faults(event, known, now_s=self._clock())

    async def record(
        self, events: Sequence[OutcomeEvent], *, told_at_s: float | None = None
    ) -> list[Receipt | Problem]:
        """Record events in order; each gets a receipt, once it is on disk, or a problem.

        Args:
            told_at_s: the present instant of who tells them, None = this ledger's own.
        """
        now_s = self._clock() if told_at_s is None else told_at_s
        async with self._writing:
            fresh = Fresh()
            checked: list[Accepted | Problem] = []
            try:
                if math.isfinite(self._memory_s):
                    self._jobs.forget(self._clock() - self._memory_s)
                for index, event in enumerate(events):
                    checked.append(self._check(event, fresh, now_s))
                    if index % _TURN == _TURN - 1:
                        await give_way()
                if fresh.rows:
                    await asyncio.to_thread(self._log.append, fresh.rows)
            except OSError as error:
                self.fault = f"{type(error).__name__}: {error}"
                self._logger.error("the outcome log cannot be written", exc_info=error)
                refused = problem("outcome-log-unavailable", f"nothing was recorded: {error}", headers=_RETRY)
                checked += [refused] * (len(events) - len(checked))
                return [item if isinstance(item, Problem) else refused for item in checked]
            self.fault = ""
            for index, row in enumerate(fresh.rows):
                self._apply(row)
                if index % _TURN == _TURN - 1:
                    await give_way()
        return [item if isinstance(item, Problem) else self._receipt(item) for item in checked]

    def _check(self, event: OutcomeEvent, fresh: Fresh, now_s: float) -> Accepted | Problem:
        job: JobKey = (event.cluster, str(event.job_id), event.attempt)
        payload = blake2b(msgspec.json.encode(event), digest_size=8).hexdigest()
        before = fresh.runs.get(job) or self._jobs.run(job)
        told = (job, event.event, payload)
        if before.payloads.get(event.event) == payload or told in fresh.told:
            return Accepted(event=event, row=None)
        if before.payloads and self._jobs.was_earlier(*told):
            return Accepted(event=event, row=None)
        run = before.of(event.submitted_at)
        if event.event in run.payloads:
            self._telemetry.count_outcome(event.event, "conflict")
            detail = (
                f"'{event.event}' of job '{event.job_id}', attempt {event.attempt}, was recorded otherwise"
            )
            return problem("outcome-conflict", detail)
        known = fresh.latest[job] if job in fresh.latest else self._jobs.known(job)
        faults = event_faults(event, known, now_s=now_s)
        if faults:
            self._telemetry.count_outcome(event.event, "invalid")
            return invalid_request(faults)
        row = row_of(event, known, now_s=self._clock(), payload=payload)
        fresh.rows.append(row)
        fresh.told.add(told)
        fresh.runs[job] = run.after(row)
        fresh.latest[job] = run.latest(known, row)
        return Accepted(event=event, row=row)

    def _apply(self, row: OutcomeRow) -> None:
        try:
            if self._jobs.add(row):
                return
            if row.event == FINISHED:
                self._accuracy.judge(row)
            forecast = self._slot.record(row)
            if forecast is not None:
                self._accuracy.remember(row.request(), forecast)
            for follower in self._followers:
                follower.record(row)
        except Exception as error:  # the row is on disk and stays; the caller must not send it again
            self._logger.error("the model could not take up an event", event_kind=row.event, exc_info=error)

    def _receipt(self, item: Accepted) -> Receipt:
        event = item.event
        receipt = Receipt(
            result="duplicate" if item.row is None else "recorded", event=event.event, cluster=event.cluster,
            job_id=str(event.job_id), attempt=event.attempt,
        )  # fmt: skip
        self._telemetry.count_outcome(event.event, receipt.result)
        return receipt


def _key(job: JobKey, *event: str) -> bytes:
    """Return where the index keeps the latest run of a job, or an event of an earlier one."""
    cluster, job_id, attempt = job
    return blake2b("\0".join((cluster or "", job_id, str(attempt), *event)).encode(), digest_size=12).digest()

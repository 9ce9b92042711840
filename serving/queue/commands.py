"""This module changes the queue: submissions, outcomes, edits, cancellations and nodes, each one step."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from predictor.contracts.decisions import Decision, Refused
from predictor.contracts.events import (
    Event,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobProgressed,
    JobStarted,
    JobSubmitted,
)
from predictor.scheduling import views
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.view_rows import Life
from serving.decoding import moment_faults
from serving.engine.changes import decision_view
from serving.engine.engine import Engine
from serving.engine.steps import Applied
from serving.names import Names
from serving.ports import Forecast
from serving.problems import Fault, Problem, ProblemError, invalid_request, problem, problem_of
from serving.queue.node_changes import node_events
from serving.queue.once import Once, audit_of
from serving.queue.operation import Call, Reply
from serving.queue.refusals import conflict, duplicate, refused
from serving.queue.reports import report_faults
from serving.queue.schemas import (
    ChangeReceipt,
    ClassChange,
    ForecastView,
    JobOutcome,
    JobReceipt,
    NodeChanges,
    Submission,
    SubmissionBatch,
    SubmissionItem,
    SubmissionReceipt,
    SubmissionReceipts,
)
from serving.queue.submissions import event_of, submission_faults
from serving.schemas import (
    FailedItem,
    ModelIdentity,
    OutcomeEvent,
    RequestFields,
    as_epoch_s,
    field_names,
)
from serving.store.event_log import AuditEntry


class Forecasts(Protocol):
    """Forecasts submissions on the way in."""

    async def forecast(
        self, submissions: Sequence[Submission], now_s: float
    ) -> Sequence[tuple[Forecast | None, ModelIdentity | None, float | None]]:
        """Return duration forecast, its model, and the bound of memory (MiB) of each; None = not known."""


class Outcomes(Protocol):
    """Tells models and retraining what happened."""

    async def tell(self, events: Sequence[OutcomeEvent]) -> None:
        """Record events of jobs of the queue for learning."""


class QueueCommands:
    """The operations that change the queue.

    Args:
        most_jobs: most jobs in one batch.
        most_waiting: more jobs than this are not taken in.
    """

    def __init__(
        self, *, engine: Engine, once: Once, forecasts: Forecasts, outcomes: Outcomes, most_jobs: int,
        most_waiting: int, names: Names,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._once = once
        self._forecasts = forecasts
        self._outcomes = outcomes
        self._names = names
        self._most_jobs = most_jobs
        self._most_waiting = most_waiting

    async def submit(self, call: Call) -> Reply:
        """Take up one job or a batch."""
        self._engine.require_lead()
        body = call.body
        if isinstance(body, SubmissionBatch):
            if len(body.jobs) > self._most_jobs:
                detail = f"the batch holds {len(body.jobs)} jobs; at most {self._most_jobs} are taken at once"
                raise ProblemError(problem("too-many-jobs", detail))
            for job in body.jobs:
                self._names.hide(job)
            return await self._once.run(call, lambda: self._submit_batch(call, body.jobs))
        assert isinstance(body, Submission)  # noqa: S101  (as the operation declares)
        self._names.hide(body)
        return await self._once.run(call, lambda: self._submit_one(call, body))

    async def _submit_one(self, call: Call, job: Submission) -> Reply:
        return Reply(body=_single(await self._take([job], call, one=True)))

    async def _submit_batch(self, call: Call, jobs: Sequence[Submission]) -> Reply:
        return Reply(body=await self._take(jobs, call, one=False))

    async def _take(self, jobs: Sequence[Submission], call: Call, *, one: bool) -> SubmissionReceipts:
        prefix = "" if one else "/jobs/{}"
        found: dict[int, Problem] = {}
        taken: dict[str, int] = {}
        for place, job in enumerate(jobs):
            refusal = self._refusal(job, prefix.format(place), taken)
            if refusal is not None:
                found[place] = refusal
            else:
                taken[str(job.job_id)] = place
        good = [place for place in range(len(jobs)) if place not in found]
        now_s = self._engine.now_s()
        known = await self._forecasts.forecast([jobs[place] for place in good], now_s)
        for place in good:  # while forecasts were made, others may have submitted the same
            if self._engine.coordinator.knows(str(jobs[place].job_id)):
                found[place] = duplicate(str(jobs[place].job_id))
        kept = [(place, answer) for place, answer in zip(good, known, strict=True) if place not in found]
        now_s = self._engine.now_s()
        events = [
            event_of(jobs[place], forecast, now_s=now_s, vram_mib=vram_mib)
            for place, (forecast, _, vram_mib) in kept
        ]
        views = {
            place: _forecast_view(jobs[place], event, model)
            for (place, (_, model, _)), event in zip(kept, events, strict=True)
        }

        def receipts(applied: Applied) -> SubmissionReceipts:
            return self._receipts(jobs, found, views, applied, prefix)

        if not events:
            return receipts(Applied(sequence=self._engine.sequence, now_s=now_s, decisions=()))
        record = self._once.beside(
            call, lambda applied: _single(receipts(applied)) if one else receipts(applied)
        )
        applied = await self._engine.apply(events, record)
        answer = receipts(applied)
        never = {one.job_id for one in applied.decisions if isinstance(one, Refused)}  # they would never end
        taken_up = [jobs[place] for place in views if str(jobs[place].job_id) not in never]
        await self._outcomes.tell([_announcement(job, now_s) for job in taken_up])
        return answer

    def _refusal(self, job: Submission, prefix: str, taken: dict[str, int]) -> Problem | None:
        faults = [fault.below(prefix) for fault in submission_faults(job)]
        if faults:
            return invalid_request(faults)
        if str(job.job_id) in taken or self._engine.coordinator.knows(str(job.job_id)):
            return duplicate(str(job.job_id))
        if self._engine.coordinator.waiting + len(taken) >= self._most_waiting:
            detail = f"{self._most_waiting} jobs wait already; submit again when there is room"
            return problem("queue-full", detail, headers=(("Retry-After", "60"),))
        return None

    def _receipts(
        self, jobs: Sequence[Submission], found: dict[int, Problem], views: dict[int, ForecastView | None],
        applied: Applied, prefix: str,
    ) -> SubmissionReceipts:  # fmt: skip
        of_job: dict[str, list[Decision]] = {}
        for decision in applied.decisions:
            of_job.setdefault(decision.job_id, []).append(decision)
        items: list[SubmissionItem] = []
        for place, job in enumerate(jobs):
            job_id = str(job.job_id)
            own = of_job.get(job_id, [])
            never = next((one for one in own if isinstance(one, Refused)), None)
            refusal = found.get(place)
            if refusal is None and never is not None:
                refusal = refused(never, self._engine.coordinator, prefix.format(place))
            if refusal is not None:
                items.append(FailedItem(status=refusal.status, job_id=job_id, problem=refusal.view()))
                continue
            items.append(SubmissionReceipt(
                job_id=job_id, sequence=applied.sequence,
                state=self._engine.coordinator.knows(job_id) or "waiting", forecast=views[place],
                decisions=[decision_view(one) for one in own],
            ))  # fmt: skip
        failed = sum(isinstance(item, FailedItem) for item in items)
        return SubmissionReceipts(jobs=items, failed=failed)

    async def cancel(self, call: Call) -> Reply:
        """Withdraw a job."""

        async def work() -> Reply:  # looked up inside: a repetition must find the answer, not that it is over
            job_id = self._known(call)
            life = views.life_of(self._engine.coordinator, job_id)
            asked = _asked_for(self._engine.coordinator, job_id)
            now_s = self._engine.now_s()
            reply = await self._one(call, job_id, JobCancelled(now_s=now_s, job_id=job_id))
            end = JobOutcome(event="finished", state="CANCELLED")
            await self._outcomes.tell([_outcome_event(job_id, end, now_s, life, asked)])
            return reply

        return await self._once.run(call, work)

    async def change(self, call: Call) -> Reply:
        """Edit a waiting job."""
        body = call.body
        assert isinstance(body, ClassChange)  # noqa: S101
        if body.workload_class is None and body.deadline_at is None:
            raise ProblemError(invalid_request([
                Fault(pointer="", code="missing", detail="give workload_class or deadline_at")
            ]))  # fmt: skip
        faults = [] if body.deadline_at is None else moment_faults("deadline_at", body.deadline_at)
        if faults:
            raise ProblemError(invalid_request(faults))
        deadline_s = None if body.deadline_at is None else as_epoch_s(body.deadline_at)

        async def work() -> Reply:
            job_id, now_s = self._known(call), self._engine.now_s()
            event = JobChanged(
                now_s=now_s, job_id=job_id, workload_class=body.workload_class, deadline_s=deadline_s
            )
            audits: tuple[AuditEntry, ...] = ()
            if self._engine.coordinator.accepts(event):  # what is refused is no entry of the audit trail
                said = {
                    name: value for name, value in msgspec.structs.asdict(body).items() if value is not None
                }
                audits = (audit_of(call, said, now_s=now_s, action="job.change", target=job_id),)
            return await self._one(call, job_id, event, audits)

        return await self._once.run(call, work)

    async def outcome(self, call: Call) -> Reply:
        """Take up what happened to a job."""
        body = call.body
        assert isinstance(body, JobOutcome)  # noqa: S101
        faults = report_faults(body, self._engine.now_s())
        if faults:
            raise ProblemError(invalid_request(faults))
        return await self._once.run(call, lambda: self._outcome(call, self._known(call), body))

    async def _outcome(self, call: Call, job_id: str, body: JobOutcome) -> Reply:
        life = views.life_of(self._engine.coordinator, job_id)
        asked = _asked_for(self._engine.coordinator, job_id)
        now_s = self._engine.now_s()
        event: Event
        if body.event == "started":
            event = JobStarted(now_s=now_s, job_id=job_id)
        elif body.event == "progress":
            event = JobProgressed(now_s=now_s, job_id=job_id, saved_s=body.saved_s)
        else:
            event = JobFinished(now_s=now_s, job_id=job_id, outcome=(body.state or "COMPLETED").lower())
        reply = await self._one(call, job_id, event)
        if body.event == "finished" or (body.event == "started" and life.is_first):
            at_s = now_s if body.at is None else as_epoch_s(body.at)
            known_s = life.submitted_s if math.isnan(life.started_s) else life.started_s
            at_s = now_s if at_s < known_s else min(at_s, now_s)  # whoever reports may have another clock
            await self._outcomes.tell([_outcome_event(job_id, body, at_s, life, asked)])
        return reply

    async def nodes(self, call: Call) -> Reply:
        """Change what nodes and pools offer."""
        body = call.body
        assert isinstance(body, NodeChanges)  # noqa: S101
        return await self._once.run(call, lambda: self._nodes(call, body))

    async def _nodes(self, call: Call, body: NodeChanges) -> Reply:
        now_s = self._engine.now_s()
        events = node_events(self._engine.coordinator, body.nodes, now_s)
        audit = audit_of(call, {"nodes": body.nodes}, now_s=now_s, action="nodes.change", target="nodes")

        def receipt(applied: Applied) -> ChangeReceipt:
            views = [decision_view(decision) for decision in applied.decisions]
            return ChangeReceipt(sequence=applied.sequence, decisions=views[:1000])

        applied = await self._engine.apply(events, self._once.beside(call, receipt, audits=(audit,)))
        return Reply(body=receipt(applied))

    async def _one(self, call: Call, job_id: str, event: Event, audits: tuple[AuditEntry, ...] = ()) -> Reply:
        def receipt(applied: Applied) -> JobReceipt:
            for decision in applied.decisions:
                if isinstance(decision, Refused) and decision.job_id == job_id:
                    raise ProblemError(conflict(decision, self._engine.coordinator))
            views = [decision_view(decision) for decision in applied.decisions]
            state = self._engine.coordinator.knows(job_id) or "ended"
            return JobReceipt(job_id=job_id, sequence=applied.sequence, state=state, decisions=views[:1000])

        applied = await self._engine.apply((event,), self._once.beside(call, receipt, audits=audits))
        return Reply(body=receipt(applied))

    def _known(self, call: Call) -> str:
        job_id = call.path["job_id"]
        self._engine.require_lead()
        if not self._engine.coordinator.knows(job_id):
            raise ProblemError(problem("not-found", f"no job '{job_id[:100]}' waits or runs"))
        return job_id


def _single(receipts: SubmissionReceipts) -> SubmissionReceipt:
    item = receipts.jobs[0]
    if isinstance(item, FailedItem):
        raise ProblemError(problem_of(item.problem))
    return item


def _forecast_view(job: Submission, event: JobSubmitted, model: ModelIdentity | None) -> ForecastView | None:
    if event.quantiles_s is None:
        return None
    own = job.forecast is not None and (job.forecast.quantiles_s or job.forecast.duration_s)
    names = ("q05", "q10", "q25", "q50", "q75", "q90", "q95")
    at = (2, 3, 6, 11, 16, 19, 20)  # their places among LEVELS
    return ForecastView(
        source="caller" if own else "model", model=None if own else model,
        quantiles_s={name: event.quantiles_s[place] for name, place in zip(names, at, strict=True)},
    )  # fmt: skip


def _announcement(job: Submission, now_s: float) -> OutcomeEvent:
    said = {name: getattr(job, name) for name in field_names(RequestFields)}
    return OutcomeEvent(**{**said, "event": "submitted", "submitted_at": now_s})


def _outcome_event(
    job_id: str, body: JobOutcome, at_s: float, life: Life, asked: dict[str, Any]
) -> OutcomeEvent:
    """Return what there is to learn; a resumed job has run for what it resumes, too."""
    began = None if math.isnan(life.started_s) else min(life.started_s, at_s)
    if body.event == "started":
        return OutcomeEvent(
            event="started", job_id=job_id, submitted_at=life.submitted_s, started_at=at_s, **asked
        )
    return OutcomeEvent(
        event="finished", job_id=job_id, submitted_at=life.submitted_s, started_at=began, ended_at=at_s,
        elapsed_s=life.resumed_s + at_s - began if began is not None and life.resumed_s > 0 else None,
        state=body.state or "COMPLETED", exit_code=body.exit_code, peak_vram_mib=body.peak_vram_mib,
        peak_host_memory_mib=body.peak_host_memory_mib, **asked,
    )  # fmt: skip


def _asked_for(coordinator: Coordinator, job_id: str) -> dict[str, Any]:  # Any: fields of an event
    """Return what the queue knows of a submission: another instance may have announced it in its own log."""
    spec = coordinator.state.specs[coordinator.state.store.slot_of[job_id]]
    if spec is None:
        return {}
    return {
        "user": spec.user or None,
        "account": spec.team or None,
        "gpu_type": spec.gpu_type or None,
        "walltime_s": spec.limit_s if math.isfinite(spec.limit_s) else None,
    }

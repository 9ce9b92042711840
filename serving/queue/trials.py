"""This module tries changes without making them: on the same Coordinator, rolled back at the end."""

from predictor.contracts.events import Event, JobChanged, PolicyChanged
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.views import queue_page
from serving.engine.changes import decision_view
from serving.engine.engine import Engine
from serving.names import Names
from serving.problems import Fault, ProblemError, invalid_request, problem
from serving.queue.commands import Forecasts
from serving.queue.node_changes import node_events
from serving.queue.operation import Call, Reply
from serving.queue.policies import changed_policy
from serving.queue.schemas import PolicyUpdate, WhatIf
from serving.queue.submissions import event_of, submission_faults
from serving.queue.view_schemas import Move, WhatIfView
from serving.queue.views import queue_items
from serving.schemas import as_epoch_s

_COMPARED = 500  # places from the head of the queue that are compared


class QueueTrials:
    """The operation ``what-if``."""

    def __init__(self, engine: Engine, forecasts: Forecasts, names: Names, most_jobs: int) -> None:
        self._engine = engine
        self._names = names
        self._forecasts = forecasts
        self._most_jobs = most_jobs

    async def what_if(self, call: Call) -> Reply:
        """Return what a change would do."""
        body = call.body
        assert isinstance(body, WhatIf)  # noqa: S101  (as the operation declares)
        if len(body.jobs) > self._most_jobs:
            detail = f"the question holds {len(body.jobs)} jobs; at most {self._most_jobs} are tried at once"
            raise ProblemError(problem("too-many-jobs", detail))
        faults = [
            fault.below(f"/jobs/{place}")
            for place, job in enumerate(body.jobs)
            for fault in submission_faults(job)
        ]
        if faults:
            raise ProblemError(invalid_request(faults))
        for job in body.jobs:
            self._names.hide(job)
        now_s = self._engine.now_s()
        known = await self._forecasts.forecast(body.jobs, now_s)
        now_s = self._engine.now_s()
        events: list[Event] = self._edits(body, now_s)
        events += [
            event_of(job, forecast, now_s=now_s, vram_mib=vram_mib)
            for job, (forecast, _, vram_mib) in zip(body.jobs, known, strict=True)
        ]
        if not events:
            detail = "give at least one of jobs, patch, nodes, or job_id with change"
            raise ProblemError(invalid_request([Fault(pointer="", code="missing", detail=detail)]))
        coordinator = self._engine.coordinator
        before = _places([row.job_id for row in queue_page(coordinator, 0, _COMPARED, now_s=now_s).rows])
        with coordinator.trial() as trial:
            decisions = trial.apply_all(events)
            page = queue_page(trial, 0, _COMPARED, now_s=now_s)
            after = _places([row.job_id for row in page.rows])
            items = queue_items(page.rows[: body.limit], 0, now_s, {})
        moved = [
            Move(job_id=job_id, before=before.get(job_id), after=after.get(job_id))
            for job_id in dict.fromkeys((*after, *before))
            if before.get(job_id) != after.get(job_id)
        ]
        view = WhatIfView(
            at_s=now_s, decisions=[decision_view(one) for one in decisions[:1000]], moved=moved, queue=items
        )
        return Reply(body=view)

    def _edits(self, body: WhatIf, now_s: float) -> list[Event]:
        events: list[Event] = []
        if body.patch is not None:
            changed = changed_policy(self._engine.coordinator.policy, PolicyUpdate(patch=body.patch))
            policy = self._names.hide_in_policy(changed)
            events.append(PolicyChanged(now_s=now_s, policy=policy_document(policy)))
        if body.job_id is not None:
            job_id = str(body.job_id)
            if not self._engine.coordinator.knows(job_id):
                raise ProblemError(problem("not-found", f"no job '{job_id[:100]}' waits or runs"))
            if body.change is None:
                detail = "job_id needs 'change'"
                raise ProblemError(invalid_request([Fault(pointer="/change", code="missing", detail=detail)]))
            deadline = body.change.deadline_at
            events.append(JobChanged(
                now_s=now_s, job_id=job_id, workload_class=body.change.workload_class,
                deadline_s=None if deadline is None else as_epoch_s(deadline),
            ))  # fmt: skip
        events += node_events(self._engine.coordinator, body.nodes, now_s)
        return events


def _places(job_ids: list[str]) -> dict[str, int]:
    return {job_id: place + 1 for place, job_id in enumerate(job_ids)}

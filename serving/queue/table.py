"""This module is the table of the queue's operations: paths, parameters, bodies, answers, problems."""

from serving.queue.commands import QueueCommands
from serving.queue.exchange import QueueExchange
from serving.queue.operation import Operation, Parameter
from serving.queue.policies import QueuePolicies
from serving.queue.schemas import (
    ChangeReceipt,
    ClassChange,
    JobOutcome,
    JobReceipt,
    NodeChanges,
    PolicyUpdate,
    SnapshotDocument,
    Submission,
    SubmissionBatch,
    SubmissionReceipt,
    SubmissionReceipts,
    WhatIf,
)
from serving.queue.trials import QueueTrials
from serving.queue.view_schemas import (
    AlertsView,
    AuditPage,
    CapacityView,
    ExplanationView,
    PolicyHistory,
    PolicyReceipt,
    PolicyView,
    QueuePage,
    Reservations,
    RunningPage,
    TeamsView,
    WhatIfView,
)
from serving.queue.views import QueueViews

_LIMIT = Parameter(name="limit", meaning="most items of the page", default=50, minimum=1, maximum=500)
_CURSOR = Parameter(name="cursor", meaning="next_cursor of the page before")
_WRITES = ("not-the-writer", "store-unavailable", "idempotency-conflict")
_BODY = ("malformed-json", "body-too-large", "unsupported-media-type", "invalid-request")


def queue_operations(
    *, commands: QueueCommands, views: QueueViews, policies: QueuePolicies, trials: QueueTrials,
    exchange: QueueExchange,
) -> tuple[Operation, ...]:  # fmt: skip
    """Return all operations of the queue."""
    return (
        Operation(
            method="POST", path="/v1/jobs", operation_id="submit_jobs", scope="submit", is_idempotent=True,
            summary="Submit one job or a batch; each is forecast on the way in",
            description="A faulty or impossible job of a batch gets a problem in its place; the others are "
            "taken up at one moment. What is acknowledged is on disk.",
            body=(Submission, SubmissionBatch), answer=(SubmissionReceipt, SubmissionReceipts),
            problems=(*_BODY, *_WRITES, "job-conflict", "job-refused", "queue-full", "too-many-jobs"),
            handler=commands.submit,
        ),
        Operation(
            method="GET", path="/v1/jobs", operation_id="list_running", has_etag=True,
            summary="Running jobs with what remains of them", answer=(RunningPage,), handler=views.jobs,
            parameters=(Parameter(name="state", meaning="which jobs", default="running", words=("running",)),
                        _LIMIT, _CURSOR),
            problems=("invalid-request",),
        ),
        Operation(
            method="GET", path="/v1/jobs/{job_id}/explanation", operation_id="explain_job", has_etag=True,
            summary="Why a job is where it is, when it may start, what would change that",
            answer=(ExplanationView,), handler=views.explanation, problems=("not-found", "invalid-request"),
        ),
        Operation(
            method="POST", path="/v1/jobs/{job_id}/outcome", operation_id="record_outcome", scope="outcome",
            summary="A job began, saved its state, or ended", body=(JobOutcome,), answer=(JobReceipt,),
            is_idempotent=True, problems=(*_BODY, *_WRITES, "not-found", "job-conflict"),
            handler=commands.outcome,
        ),
        Operation(
            method="PATCH", path="/v1/jobs/{job_id}", operation_id="change_job", scope="admin",
            summary="Change the class or the deadline of a waiting job", body=(ClassChange,),
            answer=(JobReceipt,), is_idempotent=True,
            problems=(*_BODY, *_WRITES, "not-found", "job-conflict"), handler=commands.change,
        ),
        Operation(
            method="DELETE", path="/v1/jobs/{job_id}", operation_id="cancel_job", scope="submit",
            summary="Withdraw a job", answer=(JobReceipt,), is_idempotent=True,
            problems=(*_WRITES, "not-found", "job-conflict", "invalid-request"), handler=commands.cancel,
        ),
        Operation(
            method="GET", path="/v1/queue", operation_id="list_queue", has_etag=True,
            summary="Waiting jobs in their order, with reasons", answer=(QueuePage,), handler=views.queue,
            parameters=(_LIMIT, _CURSOR, Parameter(name="pool", meaning="only jobs that may use it"),
                        Parameter(name="workload_class", meaning="only jobs of this class")),
            problems=("invalid-request",),
        ),
        Operation(
            method="GET", path="/v1/reservations", operation_id="list_reservations", has_etag=True,
            summary="Promised starts", answer=(Reservations,), handler=views.reservations,
            problems=("invalid-request",),
        ),
        Operation(
            method="GET", path="/v1/capacity", operation_id="read_capacity", has_etag=True,
            summary="What pools offer, now and later", answer=(CapacityView,), handler=views.capacity,
            problems=("invalid-request",),
        ),
        Operation(
            method="GET", path="/v1/fair-share", operation_id="read_fair_share", has_etag=True,
            summary="What each team has used of its share", answer=(TeamsView,), handler=views.teams,
            problems=("invalid-request",),
        ),
        Operation(
            method="POST", path="/v1/nodes", operation_id="change_nodes", scope="admin",
            summary="Nodes go, come back, or change", body=(NodeChanges,), answer=(ChangeReceipt,),
            is_idempotent=True, problems=(*_BODY, *_WRITES), handler=commands.nodes,
        ),
        Operation(
            method="GET", path="/v1/policy", operation_id="read_policy", has_etag=True,
            summary="The policy in force", answer=(PolicyView,), handler=policies.read,
            problems=("invalid-request",),
        ),
        Operation(
            method="GET", path="/v1/policy/history", operation_id="list_policy_versions",
            summary="Who changed the policy when, and what of it, the latest first",
            answer=(PolicyHistory,), handler=policies.history, parameters=(_LIMIT,),
            problems=("invalid-request", "store-unavailable"),
        ),
        Operation(
            method="PATCH", path="/v1/policy", operation_id="change_policy", scope="admin", has_etag=True,
            summary="Put a policy, or a patch of it, in force for waiting jobs", body=(PolicyUpdate,),
            answer=(PolicyReceipt,), is_idempotent=True, problems=(*_BODY, *_WRITES, "version-conflict"),
            handler=policies.change,
        ),
        Operation(
            method="POST", path="/v1/what-if", operation_id="try_change",
            summary="What a change would do, without making it", body=(WhatIf,), answer=(WhatIfView,),
            problems=(*_BODY, "not-found", "too-many-jobs"), handler=trials.what_if,
        ),
        Operation(
            method="GET", path="/v1/alerts", operation_id="list_alerts",
            summary="What a person should know of", answer=(AlertsView,), handler=exchange.alerts,
            problems=("invalid-request",),
        ),
        Operation(
            method="GET", path="/v1/audit", operation_id="list_audit", scope="admin",
            summary="Who changed what, the latest first", answer=(AuditPage,), handler=exchange.audit,
            parameters=(_LIMIT,), problems=("invalid-request", "store-unavailable"),
        ),
        Operation(
            method="GET", path="/v1/snapshot", operation_id="export_snapshot", scope="admin",
            summary="The whole state, for what-if elsewhere and for reports of errors",
            answer=(SnapshotDocument,), handler=exchange.export, problems=("invalid-request",),
        ),
        Operation(
            method="PUT", path="/v1/snapshot", operation_id="import_snapshot", scope="admin",
            summary="Take over the state of a snapshot, only into an empty queue", body=(SnapshotDocument,),
            answer=(ChangeReceipt,), is_idempotent=True, problems=(*_BODY, *_WRITES, "job-conflict"),
            handler=exchange.restore,
        ),
    )  # fmt: skip

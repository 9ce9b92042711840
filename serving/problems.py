"""This module turns errors into RFC 9457 problems; the domain's codes meet their HTTP status here."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from predictor.errors import (
    BundleError,
    InputError,
    LockHeldError,
    NotFittedError,
    PredictorError,
)
from serving.schemas import FaultView, ProblemView
from serving.store.errors import FencedError, StoreUnavailableError

PROBLEM_TYPE = "application/problem+json"
TYPE_PREFIX = "/problems/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemKind:
    """One entry of the catalogue of problems.

    Attributes:
        explanation: what it means and what to do, for people.
    """

    code: str
    status: int
    title: str
    explanation: str


def catalogue() -> dict[str, ProblemKind]:
    """Return every problem that this service answers with, by code."""
    return {kind.code: kind for kind in _KINDS}


_KINDS = (
    ProblemKind(
        code="malformed-json", status=400, title="The body is not JSON",
        explanation="Send one JSON document in UTF-8. NaN and Infinity are no JSON numbers: send null.",
    ),
    ProblemKind(
        code="unauthenticated", status=401, title="An API key is needed",
        explanation="Send 'Authorization: Bearer KEY'. An operator makes keys with 'predictor keys create'.",
    ),
    ProblemKind(
        code="forbidden", status=403, title="The API key does not allow this",
        explanation="Use a key with the scope that detail names; 'predictor keys create' makes one.",
    ),
    ProblemKind(
        code="not-found", status=404, title="There is nothing at this address",
        explanation="The paths of this service are listed in /openapi.json and on the page /docs.",
    ),
    ProblemKind(
        code="method-not-allowed", status=405, title="This address does not take this method",
        explanation="The header Allow lists the methods that it takes.",
    ),
    ProblemKind(
        code="outcome-conflict", status=409, title="This event was recorded before with other content",
        explanation="The first record stays. Events are told apart by cluster, job_id, attempt and event; "
        "count the attempts of a requeued job. An id that is used again is another job where its "
        "submitted_at lies after the recorded end of the one before.",
    ),
    ProblemKind(
        code="job-conflict", status=409, title="The job is not in a state that allows this",
        explanation="A job_id names one job while it waits or runs; an event must fit the state of its job. "
        "Repeat a request that may have got lost with its Idempotency-Key.",
    ),
    ProblemKind(
        code="idempotency-conflict", status=409, title="The Idempotency-Key was used for another request",
        explanation="A key stands for one request, its body included. Use a new key for a new request.",
    ),
    ProblemKind(
        code="version-conflict", status=412, title="It has changed meanwhile",
        explanation="If-Match names an older version. Read the present one, and decide anew.",
    ),
    ProblemKind(
        code="body-too-large", status=413, title="The body is too large",
        explanation="Send fewer jobs per request, or raise PREDICTOR_MAX_BODY_BYTES.",
    ),
    ProblemKind(
        code="unsupported-media-type", status=415, title="The body must be JSON",
        explanation="Send Content-Type: application/json, in UTF-8 and without Content-Encoding.",
    ),
    ProblemKind(
        code="invalid-request", status=422, title="The request has faults",
        explanation="Every fault is listed in errors with a JSON pointer into the body; correct all of them.",
    ),
    ProblemKind(
        code="too-many-jobs", status=422, title="The batch holds too many items",
        explanation="Split the batch, or raise PREDICTOR_MAX_JOBS.",
    ),
    ProblemKind(
        code="job-refused", status=422, title="The job can never run as it was asked for",
        explanation="The errors say what no pool of this cluster, or no rule of its policy, allows.",
    ),
    ProblemKind(
        code="queue-full", status=429, title="Too many jobs wait",
        explanation="Submit again when there is room; PREDICTOR_MAX_WAITING sets the bound.",
    ),
    ProblemKind(
        code="too-many-requests", status=429, title="This API key asks too often",
        explanation="Wait as long as the header Retry-After says, and send many jobs in one request. "
        "The limits are PREDICTOR_RATE_PER_S and PREDICTOR_RATE_BURST.",
    ),
    ProblemKind(
        code="internal-error", status=500, title="The service failed",
        explanation="A fault of ours. The log has the details under the request_id of the answer.",
    ),
    ProblemKind(
        code="no-queue", status=503, title="This service keeps no queue",
        explanation="Start it with a cluster (--cluster FILE or PREDICTOR_CLUSTER) to let it schedule.",
    ),
    ProblemKind(
        code="not-the-writer", status=503, title="Another instance writes, or this one is being restored",
        explanation="Send the request again in a moment, or to the instance that leads; /readyz says which "
        "role this one has. With an Idempotency-Key a repetition is safe.",
    ),
    ProblemKind(
        code="store-unavailable", status=503, title="The change could not be made durable",
        explanation="The event log cannot be written or read. Nothing is acknowledged that is not on disk; "
        "send it again with the same Idempotency-Key.",
    ),
    ProblemKind(
        code="no-model", status=503, title="No model is loaded",
        explanation="Neither a champion nor a fallback bundle can be used; /readyz says why. "
        "Publish one with 'predictor retrain', check them with 'predictor models verify'.",
    ),
    ProblemKind(
        code="outcome-log-unavailable", status=503, title="The outcome could not be made durable",
        explanation="The log of outcomes cannot be written, so nothing was recorded. Send the event again "
        "later; repeating it is safe.",
    ),
)  # fmt: skip
_BY_STATUS = {
    400: "malformed-json",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "body-too-large",
    415: "unsupported-media-type",
    422: "invalid-request",
}
_DOMAIN_STATUS: tuple[tuple[type[PredictorError], int], ...] = (
    (InputError, 422),
    (BundleError, 503),
    (NotFittedError, 503),
    (LockHeldError, 503),
    (StoreUnavailableError, 503),
    (FencedError, 503),
    (PredictorError, 500),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a request.

    Attributes:
        pointer: JSON pointer into the body, "" = the whole of it.
        code: stable slug, such as ``unknown-field``.
        detail: what was given, what is allowed.
    """

    pointer: str
    code: str
    detail: str

    def below(self, prefix: str) -> "Fault":
        """Return the same fault with its pointer put below a prefix."""
        return Fault(pointer=prefix + self.pointer, code=self.code, detail=self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error on its way to the caller."""

    code: str
    status: int
    title: str
    detail: str
    faults: Sequence[Fault] = ()
    headers: Sequence[tuple[str, str]] = field(default=())

    def view(self, *, instance: str = "", request_id: str = "") -> ProblemView:
        """Return the members of the JSON document."""
        return ProblemView(
            type=TYPE_PREFIX + self.code, title=self.title, status=self.status, detail=self.detail,
            code=self.code, instance=instance, request_id=request_id,
            errors=[FaultView(pointer=f.pointer, code=f.code, detail=f.detail) for f in self.faults],
        )  # fmt: skip

    def encode(self, *, instance: str = "", request_id: str = "") -> bytes:
        """Return the JSON document."""
        return msgspec.json.encode(self.view(instance=instance, request_id=request_id))


class ProblemError(Exception):
    """Ends a request with a problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem


def problem(
    code: str, detail: str = "", *, faults: Sequence[Fault] = (), headers: Sequence[tuple[str, str]] = ()
) -> Problem:
    """Return a problem of the catalogue."""
    kind = next(kind for kind in _KINDS if kind.code == code)
    return Problem(
        code=code, status=kind.status, title=kind.title, detail=detail or kind.explanation,
        faults=tuple(faults), headers=tuple(headers),
    )  # fmt: skip


def problem_of(view: ProblemView) -> Problem:
    """Return the problem of a document that was kept."""
    faults = [Fault(pointer=one.pointer, code=one.code, detail=one.detail) for one in view.errors]
    headers = (("Retry-After", "60"),) if view.code == "queue-full" else ()
    return problem(view.code, view.detail, faults=faults, headers=headers)


def invalid_request(faults: Sequence[Fault]) -> Problem:
    """Return the problem of a request with faults, all of them named."""
    detail = faults[0].detail if len(faults) == 1 else f"{len(faults)} faults, see errors"
    return problem("invalid-request", detail, faults=faults)


def domain_problem(error: PredictorError) -> Problem:
    """Return the problem of a domain error; its code stays, its class sets the status."""
    status = next(status for kind, status in _DOMAIN_STATUS if isinstance(error, kind))
    faults = [Fault(pointer="", code=error.code, detail=text) for text in error.faults]
    return Problem(
        code=error.code, status=status, title=HTTPStatus(status).phrase, detail=error.message, faults=faults
    )


def status_problem(status: int, detail: str, headers: Sequence[tuple[str, str]] = ()) -> Problem:
    """Return the problem of a bare HTTP status, such as the framework raises."""
    code = _BY_STATUS.get(status)
    if code is not None:
        return problem(code, detail, headers=headers)
    title = HTTPStatus(status).phrase
    return Problem(
        code=f"http-{status}", status=status, title=title, detail=detail or title, headers=tuple(headers)
    )

"""This module describes the API as OpenAPI 3.1: the framework's part, and the routes that bypass it.

The schemas of those routes come from the structs that decode and encode them, so they cannot disagree.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from serving import examples
from serving.problems import PROBLEM_TYPE, TYPE_PREFIX, ProblemKind, catalogue
from serving.queue.describe import operation_paths, operation_schemas
from serving.queue.operation import Operation
from serving.routes import outcomes, predictions
from serving.schemas import (
    FailedItem,
    Job,
    JobBatch,
    OutcomeBatch,
    OutcomeEvent,
    Prediction,
    PredictionBatch,
    ProblemView,
    Receipt,
    ReceiptBatch,
)
from serving.security.guard import is_open, security_of
from serving.security.keys import OUTCOME, PREDICT

JSON = dict[str, Any]  # Any: JSON values

_REF = "#/components/schemas/{name}"
_STRUCTS = (FailedItem, Job, JobBatch, OutcomeBatch, OutcomeEvent, Prediction, ProblemView, Receipt)
# answers whose items are of one of two shapes, which a struct can encode but not describe
_MIXED = ((PredictionBatch, "predictions", "Prediction"), (ReceiptBatch, "outcomes", "Receipt"))
_BODY_PROBLEMS = (
    "malformed-json", "body-too-large", "unsupported-media-type", "invalid-request", "too-many-jobs",
    "internal-error",
)  # fmt: skip
_ACCESS_PROBLEMS = ("unauthenticated", "forbidden", "too-many-requests")
_REQUEST_ID = {
    "name": "X-Request-Id", "in": "header", "required": False,
    "description": "echoed in the answer and named in the log; made where absent",
    "schema": {"type": "string", "maxLength": 128},
}  # fmt: skip
_DESCRIPTION = """Calibrated forecasts of how long a job will run, as whole distributions.

Names and units are those of the job table: seconds end with `_s`, MiB with `_mib`. Times are RFC 3339 or
epoch seconds. Errors are `application/problem+json` (RFC 9457) and name every fault at once."""


def describe(app: FastAPI, operations: Sequence[Operation] = ()) -> JSON:
    """Return the OpenAPI document of the app."""
    document: JSON = get_openapi(
        title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes,
        tags=[{"name": "predictions", "description": "Forecasts for schedulers"},
              {"name": "outcomes", "description": "What really happened"},
              {"name": "queue", "description": "Submit, watch and steer the queue"},
              {"name": "live", "description": "Changes as they happen"},
              {"name": "operations", "description": "Health, metrics, models"}],
    )  # fmt: skip
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=_REF)
    components = document.setdefault("components", {}).setdefault("schemas", {})
    components.update(schemas)
    components.update({struct.__name__: _mixed(struct, field, item) for struct, field, item in _MIXED})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    document["components"]["securitySchemes"] = {
        "apiKey": {
            "type": "http",
            "scheme": "bearer",
            "description": "A key of `predictor keys create` that has the scope named",
        }
    }
    paths = document["paths"]
    paths[predictions.PATH] = {"post": _predictions()}
    paths[outcomes.PATH] = {"post": _outcomes()}
    if operations:
        components.update(operation_schemas(operations))
        paths.update(operation_paths(operations, _problems))
    for place, path in paths.items():
        for operation in path.values():
            if not is_open({"type": "http", "path": place}):
                operation.setdefault("security", security_of(PREDICT))
                operation["responses"].update(_problems(_ACCESS_PROBLEMS))
            _complete(operation)
    return document


def _mixed(struct: type[msgspec.Struct], field: str, item: str) -> JSON:
    return {
        "title": struct.__name__,
        "description": struct.__doc__,
        "type": "object",
        "properties": {
            field: {"type": "array", "items": _one_of((item, "FailedItem"))},
            "failed": {"type": "integer", "minimum": 0},
        },
        "required": [field, "failed"],
    }


def _predictions() -> JSON:
    return {
        "tags": ["predictions"], "operationId": "create_predictions",
        "summary": "Forecast how long jobs will run",
        "description": "One job, or `{\"jobs\": [...]}`. A faulty job of a batch gets a problem in its "
        "place; the others get their answers. With `elapsed_s` the answer has `remaining`, with `ages_s` "
        "it has `survival`. With `memory_risk`, `command` or a workload column, such as `model_family`, it "
        "has `vram`; with `candidates` it has `placements`, the best first, and `topology`.",
        "requestBody": _body(("Job", "JobBatch"), examples.PREDICTION_REQUESTS),
        "responses": {
            "200": _answer("The forecasts", ("Prediction", "PredictionBatch"), examples.PREDICTION_ANSWERS),
            **_problems((*_BODY_PROBLEMS, "no-model")),
        },
    }  # fmt: skip


def _outcomes() -> JSON:
    return {
        "tags": ["outcomes"], "operationId": "record_outcomes", "security": security_of(OUTCOME),
        "summary": "Record what happened to jobs",
        "description": "One event, or `{\"outcomes\": [...]}`. An event is on disk before its receipt "
        "leaves, and the next forecast knows it. Events are told apart by cluster, job_id, attempt and "
        "event: sending one again is safe.",
        "requestBody": _body(("OutcomeEvent", "OutcomeBatch"), examples.OUTCOME_REQUESTS),
        "responses": {
            "200": _answer("The receipts", ("Receipt", "ReceiptBatch"), examples.OUTCOME_ANSWERS),
            **_problems((*_BODY_PROBLEMS, "outcome-conflict", "outcome-log-unavailable")),
        },
    }  # fmt: skip


def _body(names: Sequence[str], samples: JSON) -> JSON:
    return {
        "required": True,
        "content": {"application/json": {"schema": _one_of(names), "examples": samples}},
    }


def _answer(description: str, names: Sequence[str], samples: JSON) -> JSON:
    return {
        "description": description,
        "content": {"application/json": {"schema": _one_of(names), "examples": samples}},
    }


def _one_of(names: Sequence[str]) -> JSON:
    return {"oneOf": [{"$ref": _REF.format(name=name)} for name in names]}


def _problems(codes: Sequence[str]) -> JSON:
    kinds = catalogue()
    grouped: dict[int, list[ProblemKind]] = {}
    for code in codes:
        grouped.setdefault(kinds[code].status, []).append(kinds[code])
    return {str(status): _problem(grouped[status]) for status in sorted(grouped)}


def _problem(kinds: Sequence[ProblemKind]) -> JSON:
    return {
        "description": "; ".join(kind.title for kind in kinds),
        "content": {
            PROBLEM_TYPE: {
                "schema": {"$ref": _REF.format(name="ProblemView")},
                "examples": {kind.code: {"value": _sample(kind)} for kind in kinds},
            }
        },
    }


def _sample(kind: ProblemKind) -> JSON:
    sample: JSON = {
        "type": TYPE_PREFIX + kind.code, "title": kind.title, "status": kind.status, "code": kind.code,
        "detail": kind.explanation, "instance": predictions.PATH, "request_id": "4f1c" * 8,
    }  # fmt: skip
    if kind.code == "invalid-request":
        sample |= {"detail": f"{len(examples.FAULTS)} faults, see errors", "errors": examples.FAULTS}
    return sample


def _complete(operation: JSON) -> None:
    """Name the request id everywhere, and our problems in place of the framework's errors."""
    operation.setdefault("parameters", []).append(_REQUEST_ID)
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422", "")):
        responses.pop("422")
    if "404" in responses:
        responses.update(_problems(("not-found",)))
    responses.setdefault("500", _problems(("internal-error",))["500"])

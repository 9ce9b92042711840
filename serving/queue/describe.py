"""This module describes the queue's operations for OpenAPI, from the table that serves them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from serving.queue.operation import Operation, Parameter
from serving.queue.schemas import SubmissionReceipt, SubmissionReceipts
from serving.schemas import NO_NUL, FailedItem
from serving.security.guard import security_of

JSON = dict[str, Any]  # Any: JSON values

_REF = "#/components/schemas/{name}"
_KEY = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "description": "the same key and request get the same answer, and have one effect",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}  # fmt: skip


def operation_schemas(operations: Sequence[Operation]) -> JSON:
    """Return the schemas of all bodies and answers."""
    structs = {struct for operation in operations for struct in (*operation.body, *operation.answer)}
    structs = (structs - {SubmissionReceipts}) | {SubmissionReceipt, FailedItem}
    _, schemas = msgspec.json.schema_components(
        sorted(structs, key=lambda struct: struct.__name__), ref_template=_REF, schema_hook=_any_value
    )
    # its items are of one of two shapes, which a struct can encode but not describe
    receipts = {
        "title": SubmissionReceipts.__name__, "description": SubmissionReceipts.__doc__, "type": "object",
        "properties": {
            "jobs": {"type": "array", "items": _one_of((SubmissionReceipt, FailedItem))},
            "failed": {"type": "integer", "minimum": 0},
        },
        "required": ["jobs", "failed"],
    }  # fmt: skip
    return {**schemas, SubmissionReceipts.__name__: receipts}


def _any_value(kind: type) -> JSON:
    """Return the schema of ``object``, which is any JSON value."""
    if kind is object:
        return {"description": "any JSON value"}
    raise TypeError(f"{kind} has no schema; describe it, or use a struct")


def operation_paths(
    operations: Sequence[Operation], problems: Callable[[Sequence[str]], JSON]
) -> dict[str, dict[str, JSON]]:
    """Return the path items; ``problems`` gives the responses of problem codes."""
    paths: dict[str, dict[str, JSON]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, problems)
    return paths


def _operation(operation: Operation, problems: Callable[[Sequence[str]], JSON]) -> JSON:
    parameters: list[JSON] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [_parameter(parameter) for parameter in operation.parameters]
    if operation.is_idempotent:
        parameters.append(dict(_KEY))
    if "version-conflict" in operation.problems:
        parameters.append({
            "name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"},
            "description": "entity tag of the version that the change is meant for",
        })  # fmt: skip
    if operation.has_etag and operation.method == "GET":
        parameters.append({
            "name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"},
            "description": "entity tag of the answer that the caller has",
        })  # fmt: skip
    described: JSON = {
        "tags": ["queue"], "operationId": operation.operation_id, "summary": operation.summary,
        "parameters": parameters, "security": security_of(operation.scope),
        "responses": {
            "200": {
                "description": "Done",
                "content": {"application/json": {"schema": _one_of(operation.answer)}},
            },
            **problems((*operation.problems, "internal-error")),
        },
    }  # fmt: skip
    if operation.description:
        described["description"] = operation.description
    if operation.has_etag and operation.method == "GET":
        described["responses"]["304"] = {"description": "As the caller has it"}
    if operation.body:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _one_of(operation.body)}},
        }
    return described


def _parameter(parameter: Parameter) -> JSON:
    schema: JSON = {"type": "string", "maxLength": 512, "pattern": NO_NUL}
    if isinstance(parameter.default, int):
        schema = {"type": "integer", "minimum": parameter.minimum, "maximum": parameter.maximum}
    elif parameter.words:
        schema = {"type": "string", "enum": list(parameter.words)}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name, "in": "query", "required": False, "description": parameter.meaning,
        "schema": schema,
    }  # fmt: skip


def _one_of(structs: Sequence[type[msgspec.Struct]]) -> JSON:
    refs = [{"$ref": _REF.format(name=struct.__name__)} for struct in structs]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}

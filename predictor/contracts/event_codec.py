"""This module writes events and decisions as JSON and reads events back, without loss.

Numbers that JSON cannot hold (infinity) are texts; what equals its default is left out, so a log stays
small and readable. An event names its kind by its class.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from predictor.contracts.decisions import Decision
from predictor.contracts.events import Event
from predictor.contracts.reasons import Reason
from predictor.errors import FormatError

_EVENTS: dict[str, type] = {kind.__name__: kind for kind in get_args(Event)}
_HINTS: dict[str, dict[str, Any]] = {name: get_type_hints(kind) for name, kind in _EVENTS.items()}
_INFINITE = {"inf": float("inf"), "-inf": -float("inf"), "nan": float("nan")}


def event_document(event: Event) -> dict[str, Any]:
    """Return an event as a JSON-able mapping with its kind under ``event``."""
    return {"event": type(event).__name__, **_fields(event)}


def event_from_document(document: Mapping[str, Any]) -> Event:
    """Return the event of a mapping.

    Raises:
        FormatError: with every unknown kind, unknown name and missing field.
    """
    name = document.get("event")
    if not isinstance(name, str) or name not in _EVENTS:
        raise FormatError(f"event={name!r} is not known; known are {', '.join(_EVENTS)}")
    kind = _EVENTS[name]
    known = {each.name: each for each in fields(kind)}
    faults = [f"{key} is not a field of {name}" for key in document if key not in known and key != "event"]
    faults += [
        f"{key} is missing"
        for key, each in known.items()
        if key not in document and each.default is MISSING and each.default_factory is MISSING
    ]
    if faults:
        raise FormatError(f"the document of {name} cannot be read", faults=faults)
    hints = _HINTS[name]
    event: Event = kind(
        **{key: _read(hints[key], value) for key, value in document.items() if key != "event"}
    )
    return event


def encode_events(events: Sequence[Event]) -> str:
    """Return events as one line of JSON."""
    return json.dumps([event_document(event) for event in events], allow_nan=False, separators=(",", ":"))


def decode_events(text: str) -> tuple[Event, ...]:
    """Return the events that ``encode_events`` wrote.

    Raises:
        FormatError: the text is no JSON list of events.
    """
    try:
        documents = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"events are not JSON: {error}") from error
    if not isinstance(documents, list):
        raise FormatError("events must be a JSON list")
    return tuple(event_from_document(document) for document in documents)


def decision_document(decision: Decision) -> dict[str, Any]:
    """Return a decision as a JSON-able mapping with its kind under ``decision``; reasons bring sentences."""
    return {"decision": type(decision).__name__, **_fields(decision)}


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    document = {}
    for each in fields(value):
        given = getattr(value, each.name)
        if each.default is not MISSING and given == each.default:
            continue
        if each.default_factory is not MISSING and given == each.default_factory():
            continue
        document[each.name] = _plain(given)
    return document


def _plain(value: Any) -> Any:
    if isinstance(value, Reason):
        return value.document()
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _read(kind: Any, value: Any) -> Any:
    """Return a JSON value as a field of that type."""
    allowed = get_args(kind)
    if value is None:
        return None
    if get_origin(kind) is tuple or any(get_origin(each) is tuple for each in allowed):
        return tuple(_INFINITE.get(each, each) if isinstance(each, str) else each for each in value)
    if isinstance(value, Mapping):
        keys_are_numbers = bool(allowed) and allowed[0] is int
        return {int(key) if keys_are_numbers else key: each for key, each in value.items()}
    if isinstance(value, str) and (kind is float or float in allowed):
        return _INFINITE.get(value, value)
    return value

"""This module reads and writes policies as plain documents (JSON, TOML), naming all faults at once."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from predictor.errors import ArgumentError
from predictor.scheduling.policy import Policy


def policy_document(policy: Policy) -> dict[str, Any]:
    """Return a policy as nested mappings and lists of plain values; infinity is the text "inf"."""
    document: dict[str, Any] = _plain(policy)
    return document


def policy_from_document(document: Mapping[str, object]) -> Policy:
    """Return the policy that a document describes; what it does not name keeps its default.

    Raises:
        ArgumentError: with every unknown name, wrong type and value out of range.
    """
    faults: list[str] = []
    policy = _value(Policy, document, "policy", faults)
    if faults:
        raise ArgumentError("the policy document cannot be used", faults=faults)
    assert isinstance(policy, Policy)  # noqa: S101 - no faults
    return policy


def _plain(value: Any) -> Any:
    """Return a value object as plain values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return "inf" if value > 0 else "-inf"
    return value


def _value(kind: Any, given: Any, where: str, faults: list[str]) -> Any:
    """Return what is given as a value of a type; None after a fault."""
    if is_dataclass(kind):
        return _object(kind, given, where, faults)
    if get_origin(kind) is tuple:
        if not isinstance(given, list | tuple):
            faults.append(f"{where} must be a list; it is {given!r}")
            return None
        read = [_value(get_args(kind)[0], each, f"{where}[{k}]", faults) for k, each in enumerate(given)]
        return tuple(each for each in read if each is not None)
    allowed = get_args(kind) or (kind,)
    if bool in allowed or isinstance(given, bool):
        fits = isinstance(given, bool) and bool in allowed
    elif float in allowed and given in ("inf", "-inf"):
        return float(given)
    else:
        fits = isinstance(given, allowed) or (float in allowed and isinstance(given, int))
    if not fits:
        names = " or ".join(each.__name__ for each in allowed)
        faults.append(f"{where}={given!r} must be of type {names}")
        return None
    if isinstance(given, int) and abs(given) > 2**53:
        faults.append(f"{where} is beyond any number that can be meant")
        return None
    return float(given) if float in allowed and isinstance(given, int) else given


def _object(kind: Any, given: Any, where: str, faults: list[str]) -> Any:
    """Return a value object from a mapping; None after a fault."""
    if not isinstance(given, Mapping):
        faults.append(f"{where} must be a table; it is {given!r}")
        return None
    hints = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}
    faults += [
        f"{where}.{name} is not known; known are {', '.join(known)}" for name in given if name not in known
    ]
    read = {
        name: _value(hints[name], value, f"{where}.{name}", faults)
        for name, value in given.items()
        if name in known
    }
    values = {name: value for name, value in read.items() if value is not None}
    needed = [
        name for name, each in known.items() if each.default is MISSING and each.default_factory is MISSING
    ]
    faults += [f"{where}.{name} is missing" for name in needed if name not in read]
    if any(name not in values for name in needed):
        return None
    try:  # with what can be used, so that faults of values are told beside those of names and types
        return kind(**values)
    except ArgumentError as error:
        faults += [*error.faults]
        return None

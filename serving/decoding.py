"""This module decodes JSON into structs, and where that fails names every fault at once.

The fast path is msgspec's own. It stops at the first fault, so a body that fails is looked at again,
field by field, against the same types.
"""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct

from serving.problems import Fault, ProblemError, problem
from serving.schemas import NO_NUL, as_epoch_s, field_names

S = TypeVar("S", bound=Struct)

EARLIEST_S = datetime(1980, 1, 1, tzinfo=UTC).timestamp()  # the bounds of the job table
LATEST_S = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_NO_NUL_TOLD = f"matching regex {NO_NUL!r}"
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
MOST_UNKNOWN = 20  # unknown names of one object that are listed each
_LONGEST_NAME = 256  # characters of an unknown name in a pointer
_LONGEST_QUOTE = 60  # characters of a faulty value to repeat
_LARGEST_EXPLAINED = 2_000_000  # bytes of malformed JSON that are searched for NaN


def escape(name: str) -> str:
    """Return a name as one step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def malformed(body: bytes, error: Exception) -> ProblemError:
    """Return the problem of a body that is no JSON; NaN and Infinity are pointed at."""
    faults = [
        Fault(pointer=pointer, code="not-a-number", detail=f"{text} is no JSON number; send null")
        for pointer, text in _non_numbers(body)
    ]
    return ProblemError(problem("malformed-json", str(error) or "the body is empty", faults=faults))


def find_faults(value: object, struct: type[Struct]) -> list[Fault]:
    """Return all faults of a decoded JSON value against a struct's fields; none = it would decode."""
    if not isinstance(value, dict):
        return [Fault(pointer="", code="wrong-type", detail=f"expected an object, got {_quote(value)}")]
    allowed = field_names(struct)
    known = set(allowed)
    unknown = [name for name in value if name not in known]
    faults = [
        Fault(
            pointer=f"/{escape(name[:_LONGEST_NAME])}",
            code="unknown-field",
            detail=_unknown(name[:_LONGEST_QUOTE], allowed),
        )
        for name in unknown[:MOST_UNKNOWN]
    ]
    if len(unknown) > MOST_UNKNOWN:
        detail = f"{len(unknown) - MOST_UNKNOWN} further names are no fields either"
        faults.append(Fault(pointer="", code="unknown-field", detail=detail))
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        if name not in value:
            if field.required:
                faults.append(Fault(pointer=f"/{name}", code="missing", detail=f"'{name}' is required"))
            continue
        try:
            converted = msgspec.convert(value[name], type=field.type, str_keys=True)
        except msgspec.ValidationError as error:
            faults += (
                _item_faults(field.type, name, value[name])
                or _word_faults(field.type, name, value[name])
                or [_fault_of(error, name, value[name])]
            )
            continue
        if name.endswith("_at") and converted is not None:
            faults += moment_faults(name, converted)
    return faults


def _item_faults(kind: object, name: str, value: object) -> list[Fault]:
    """Return the faults of all structs of a list; none where it is no such list, or its length is wrong."""
    found = msgspec.inspect.type_info(kind)
    options = found.types if isinstance(found, msgspec.inspect.UnionType) else (found,)
    lists = [one for one in options if isinstance(one, msgspec.inspect.ListType)]
    if not lists or not isinstance(value, list):
        return []
    item, longest = lists[0].item_type, lists[0].max_length
    if not isinstance(item, msgspec.inspect.StructType) or (longest is not None and len(value) > longest):
        return []
    return [
        fault.below(f"/{name}/{place}")
        for place, one in enumerate(value)
        for fault in find_faults(one, item.cls)
    ]


def _word_faults(kind: object, name: str, value: object) -> list[Fault]:
    """Return the fault of a text that is none of the words of a field; none where it is no such field."""
    found = msgspec.inspect.type_info(kind)
    options = found.types if isinstance(found, msgspec.inspect.UnionType) else (found,)
    words = [word for one in options if isinstance(one, msgspec.inspect.LiteralType) for word in one.values]
    if not words or not isinstance(value, str):
        return []
    detail = f"{_quote(value)} is not allowed; allowed are {', '.join(map(str, words))}"
    return [Fault(pointer=f"/{name}", code="invalid", detail=detail)]


def moment_faults(name: str, moment: datetime | float) -> list[Fault]:
    """Return the fault of a time that lies outside of the years 1980 to 2099; none = it is fine."""
    if EARLIEST_S <= as_epoch_s(moment) < LATEST_S:
        return []
    detail = f"'{name}' is outside of the years 1980 to 2099; send RFC 3339 or epoch seconds (not ms)"
    return [Fault(pointer=f"/{name}", code="out-of-range", detail=detail)]


def salvage(raw: bytes | msgspec.Raw, struct: type[S], faults: Sequence[Fault]) -> S | None:
    """Return the struct without its faulty fields, None where that is not enough to make one.

    What remains can be checked further, so that a caller learns of all faults in one go.
    """
    faulty = {fault.pointer.split("/")[1] for fault in faults if fault.pointer}
    try:
        value = msgspec.json.decode(raw)
        kept = {name: inner for name, inner in value.items() if escape(name) not in faulty}
        return msgspec.convert(kept, type=struct, str_keys=True)
    except (msgspec.MsgspecError, RecursionError, AttributeError):
        return None


def decode_struct(
    raw: bytes | msgspec.Raw, decoder: "msgspec.json.Decoder[S]", struct: type[S]
) -> S | list[Fault]:
    """Return the struct that the JSON holds, or all of its faults."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        try:
            return find_faults(msgspec.json.decode(raw), struct) or [_fault_of(error, "", UNSET)]
        except (msgspec.DecodeError, RecursionError):
            return [_fault_of(error, "", UNSET)]
    except (msgspec.DecodeError, RecursionError) as error:
        return [Fault(pointer="", code="malformed-json", detail=str(error))]


@lru_cache(maxsize=1024)  # a caller that misspells a name does so in every job
def _unknown(name: str, allowed: tuple[str, ...]) -> str:
    parts = [one for one in allowed if name.lower() in one.split("_")]  # such as 'gpus' of 'requested_gpus'
    close = parts or difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    if close:
        return f"'{name}' is no field; did you mean '{close[0]}'?"
    return f"'{name}' is no field; allowed are {', '.join(sorted(allowed))}"


def _fault_of(error: msgspec.ValidationError, name: str, value: object) -> Fault:
    text = str(error).replace(_NO_NUL_TOLD, "without the character U+0000")
    match = _PATH.search(text)
    pointer = f"/{name}" if name else ""
    if match is not None:
        text = text[: match.start()]
        for step in _STEP.finditer(match["path"]):
            part = step["index"] if step["index"] is not None else step["name"]
            pointer += f"/{part}"
            value = _inside(value, part)
    code = (
        "wrong-type" if ", got `" in text else "out-of-range" if "=" in text or "range" in text else "invalid"
    )
    given = "" if value is UNSET or ", got `" in text else f", got {_quote(value)}"
    return Fault(pointer=pointer, code=code, detail=text[:1].lower() + text[1:].replace("`", "") + given)


def _inside(value: object, step: str | None) -> object:
    if isinstance(value, list) and step is not None and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    if isinstance(value, dict) and step in value:
        return value[step]
    return UNSET


def _quote(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value[: _LONGEST_QUOTE + 1] if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


class _NonNumber(str):
    __slots__ = ()


def _non_numbers(body: bytes) -> list[tuple[str, str]]:
    if len(body) > _LARGEST_EXPLAINED:
        return []
    try:
        return list(_walk(json.loads(body, parse_constant=_NonNumber), ""))
    except (ValueError, RecursionError):
        return []


def _walk(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, _NonNumber):
        yield pointer, str(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk(inner, f"{pointer}/{escape(name)}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{pointer}/{index}")

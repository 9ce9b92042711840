"""This module defines one operation of the queue's API: what serves it is also what describes it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from serving.problems import Fault, ProblemError, invalid_request


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter: a whole number between two bounds, one of some words, or any text."""

    name: str
    meaning: str
    default: int | str | None = None
    minimum: int = 0
    maximum: int = 2**53
    words: tuple[str, ...] = ()

    def read(self, text: str | None) -> int | str | Fault | None:
        """Return the value of the parameter, or what is wrong with it."""
        if text is None:
            return self.default
        if not isinstance(self.default, int):
            if self.words and text not in self.words:
                return self._fault(text, f"one of {', '.join(self.words)}")
            fine = len(text) <= 512 and "\0" not in text
            return text if fine else self._fault(text, "at most 512 characters, none of them U+0000")
        if text.isascii() and text.isdigit() and len(text) < 17 and self.minimum <= int(text) <= self.maximum:
            return int(text)
        return self._fault(text, f"a whole number from {self.minimum} to {self.maximum}")

    def _fault(self, text: str, allowed: str) -> Fault:
        detail = f"{self.name}='{text[:40]}' cannot be used; give {allowed}"
        return Fault(pointer=f"/query/{self.name}", code="out-of-range", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, decoded.

    Attributes:
        path: parameters of the path.
        query: parameters of the query, with their defaults.
        body: the decoded body, None where the operation takes none.
        raw: the body as it came.
        actor: who asks, "" = nobody is known by name.
        request_id: of the middleware.
        if_match: entity tag that the caller expects, None = any.
    """

    path: Mapping[str, str]
    query: Mapping[str, int | str | None]
    body: object = None
    raw: bytes = b""
    actor: str = ""
    request_id: str = ""
    if_match: str | None = None
    idempotency_key: str | None = None
    fingerprint: str = ""

    def number(self, name: str) -> int:
        """Return a parameter that is a whole number."""
        value = self.query[name]
        assert isinstance(value, int)  # noqa: S101  (its default is one; for the type checker)
        return value

    def text(self, name: str) -> str:
        """Return a parameter that is a text, "" where it was not given."""
        return str(self.query[name] or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered: a struct, or a document that was encoded before."""

    body: Struct | bytes
    status: int = 200
    etag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    Attributes:
        scope: what an API key must allow: ``submit``, ``outcome``, ``predict`` or ``admin``.
        body: struct of the body, None = the operation takes none.
        answer: structs of a success, one of them.
        problems: codes of the problems that it may answer, beside those that any may.
        pointer_of: names the field of a body that a batch of undecoded items lies in.
    """

    method: str
    path: str
    operation_id: str
    summary: str
    handler: Callable[[Call], Awaitable[Reply]]
    answer: tuple[type[Struct], ...]
    scope: str = "predict"
    body: tuple[type[Struct], ...] = ()
    parameters: Sequence[Parameter] = ()
    problems: tuple[str, ...] = ()
    description: str = ""
    has_etag: bool = False
    is_idempotent: bool = False
    examples: Mapping[str, object] = field(default_factory=dict)

    def read_query(self, given: Mapping[str, str], *, path: Mapping[str, str]) -> dict[str, int | str | None]:
        """Return the parameters of a query; those of the path are texts, and only checked.

        Raises:
            ProblemError: names every fault, unknown parameters too.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        faults = [
            Fault(pointer=f"/path/{name}", code="invalid",
                  detail=f"'{text[:40]}' holds the character U+0000, which no {name} has")
            for name, text in path.items()
            if "\0" in text
        ]  # fmt: skip
        faults += [
            Fault(pointer=f"/query/{name[:60]}", code="unknown-field",
                  detail=f"'{name[:60]}' is no parameter; known are {', '.join(known) or 'none'}")
            for name in given
            if name not in known
        ]  # fmt: skip
        values: dict[str, int | str | None] = {}
        for name, parameter in known.items():
            value = parameter.read(given.get(name))
            if isinstance(value, Fault):
                faults.append(value)
            else:
                values[name] = value
        if faults:
            raise ProblemError(invalid_request(faults))
        return values

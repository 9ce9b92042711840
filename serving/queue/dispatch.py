"""This module serves an operation: reads and decodes the request, calls the handler, writes the answer."""

import asyncio
from hashlib import blake2b

import msgspec
from starlette.datastructures import Headers, QueryParams
from starlette.types import Receive, Scope, Send

from serving.decoding import decode_struct, malformed
from serving.endpoint import Endpoint
from serving.middleware import request_id_of
from serving.problems import Fault, ProblemError, invalid_request, problem
from serving.queue.operation import Call, Operation, Reply
from serving.security.guard import require_scope

_LONGEST_KEY = 200  # characters of an Idempotency-Key


class OperationEndpoint(Endpoint):
    """Serves one operation."""

    def __init__(self, operation: Operation, max_body_bytes: int) -> None:
        super().__init__(operation.path, max_body_bytes)
        self._operation = operation
        self._encoder = msgspec.json.Encoder()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        require_scope(scope, self._operation.scope)
        reply = await self._operation.handler(await self._call(scope, receive))
        await self._send(scope, send, reply)

    async def _call(self, scope: Scope, receive: Receive) -> Call:
        operation = self._operation
        headers = Headers(scope=scope)
        path = scope.get("path_params", {})
        query = operation.read_query(dict(QueryParams(scope["query_string"])), path=path)
        raw, body = b"", None
        if operation.body:
            raw = await self._read(scope, receive)
            body = self._decode(raw)
        key = headers.get("idempotency-key") if operation.is_idempotent else None
        if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
            detail = f"Idempotency-Key must be 1 to {_LONGEST_KEY} printable ASCII characters"
            fault = Fault(pointer="/headers/idempotency-key", code="invalid", detail=detail)
            raise ProblemError(invalid_request([fault]))
        return Call(
            path=path, query=query, body=body, raw=raw,
            actor=str(scope.get("actor", "")), request_id=request_id_of(scope),
            if_match=headers.get("if-match"), idempotency_key=key,
            fingerprint=_fingerprint(scope, raw) if key is not None else "",
        )  # fmt: skip

    def _decode(self, raw: bytes) -> object:
        struct = self._operation.body[0]
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise malformed(raw, error) from None
        if len(self._operation.body) > 1 and isinstance(value, dict) and "jobs" in value:
            struct = self._operation.body[1]
        found = decode_struct(raw, msgspec.json.Decoder(struct), struct)
        if isinstance(found, list):
            raise ProblemError(invalid_request(found))
        return found

    async def _send(self, scope: Scope, send: Send, reply: Reply) -> None:
        headers = [(b"content-type", b"application/json")]
        if reply.etag is not None:
            tag = f'"{reply.etag}"'
            headers += [(b"etag", tag.encode()), (b"cache-control", b"no-cache")]
            wanted = Headers(scope=scope).get("if-none-match", "")
            if tag in [part.strip().removeprefix("W/") for part in wanted.split(",")]:
                await send({"type": "http.response.start", "status": 304, "headers": headers[1:]})
                await send({"type": "http.response.body", "body": b""})
                return
        content = reply.body if isinstance(reply.body, bytes) else self._encoder.encode(reply.body)
        headers.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class InFlight:
    """Requests with an Idempotency-Key that are under way, so that a quick repetition waits for the first."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    def lock(self, actor: str, key: str) -> asyncio.Lock:
        """Return the lock of a key; it goes when nobody holds it."""
        lock = self._locks.setdefault((actor, key), asyncio.Lock())
        if len(self._locks) > 1000:
            self._locks = {name: held for name, held in self._locks.items() if held.locked() or held is lock}
        return lock


def check_if_match(call: Call, etag: str) -> None:
    """Check that the caller knows the present state.

    Raises:
        ProblemError: it has changed meanwhile.
    """
    if call.if_match is not None and call.if_match.strip() not in ("*", f'"{etag}"', etag):
        detail = f'If-Match is {call.if_match[:60]}, the present version is "{etag}"; read it again first'
        raise ProblemError(problem("version-conflict", detail))


def _fingerprint(scope: Scope, raw: bytes) -> str:
    place = f"{scope['method']} {scope['path']}?".encode() + scope["query_string"]
    return blake2b(place + b"\0" + raw, digest_size=16).hexdigest()

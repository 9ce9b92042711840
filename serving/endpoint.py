"""This module is the base of the routes that bypass the framework's request and response objects."""

from abc import ABC, abstractmethod

from starlette.types import Receive, Scope, Send

from predictor.errors import PredictorError
from serving.middleware import send_problem
from serving.problems import ProblemError, domain_problem, problem

_CLOSE = (("Connection", "close"),)


class ClientGoneError(Exception):
    """The caller hung up before its body had arrived."""


class Endpoint(ABC):
    """An ASGI app whose errors are answered as problems, and which reads JSON bodies within limits.

    Args:
        path_format: template of the route, for the metrics.
        max_body_bytes: larger bodies are refused.

    Attributes:
        scope: what an API key must allow.
    """

    scope = "predict"

    def __init__(self, path_format: str, max_body_bytes: int) -> None:
        self.path_format = path_format
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        scope["endpoint"] = self  # for the metrics
        try:
            await self._serve(scope, receive, send)
        except ProblemError as error:
            await send_problem(scope, send, error.problem)
        except PredictorError as error:
            await send_problem(scope, send, domain_problem(error))
        except ClientGoneError:
            return

    @abstractmethod
    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; what is raised is raised before the answer begins."""

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        self._check_headers(scope)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            self._check_size(len(body))
            return body
        chunks = [body]
        size = len(body)
        while message.get("more_body", False):
            self._check_size(size)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
        self._check_size(size)
        return b"".join(chunks)

    def _check_headers(self, scope: Scope) -> None:
        kind = b""
        for name, value in scope["headers"]:
            if name == b"content-type":
                kind = value
            elif name == b"content-length" and value.isdigit():
                self._check_size(int(value))
            elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                detail = f"Content-Encoding '{value.decode('latin-1')}' is not understood; send plain JSON"
                raise ProblemError(problem("unsupported-media-type", detail))
        if kind != b"application/json" and not _is_json(kind):
            given = f"'{kind.decode('latin-1')}'" if kind else "missing"
            detail = f"Content-Type is {given}; send application/json in UTF-8"
            raise ProblemError(problem("unsupported-media-type", detail))

    def _check_size(self, size: int) -> None:
        if size > self._max_body_bytes:
            detail = f"the body has {size} bytes or more; at most {self._max_body_bytes} are taken"
            raise ProblemError(problem("body-too-large", detail, headers=_CLOSE))


class JsonEndpoint(Endpoint):
    """Reads a JSON body and answers JSON."""

    @abstractmethod
    async def answer(self, body: bytes) -> bytes:
        """Return the JSON document that answers a body.

        Raises:
            ProblemError: the body cannot be answered.
        """

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await self.answer(await self._read(scope, receive))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _is_json(content_type: bytes) -> bool:
    kind, *parameters = [part.strip().lower() for part in content_type.split(b";")]
    charsets = [part.split(b"=", 1)[1].strip(b'"') for part in parameters if part.startswith(b"charset=")]
    is_json = kind == b"application/json" or (kind.startswith(b"application/") and kind.endswith(b"+json"))
    return is_json and all(charset in (b"utf-8", b"utf8") for charset in charsets)

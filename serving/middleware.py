"""This module is the middleware: request ids, latency metrics, log lines, the last resort, and a shortcut.

It is plain ASGI, because a wrapped request and response object would cost more than a forecast.
"""

import os
import re
import time
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from serving.problems import PROBLEM_TYPE, Problem, problem
from serving.telemetry import Telemetry

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~+/=:-]{1,128}")
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_SLOW_S = 1.0  # slower answers get a line in the log even where they succeed


def request_id_of(scope: Scope) -> str:
    """Return the id that the middleware gave to the request."""
    value = scope.get("request_id", "")
    return value if isinstance(value, str) else ""


async def send_problem(scope: Scope, send: Send, answer: Problem) -> None:
    """Answer with a problem."""
    body = answer.encode(instance=scope.get("path", ""), request_id=request_id_of(scope))
    headers = [
        (b"content-type", PROBLEM_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def route_template(scope: Scope) -> str:
    """Return the template of the route that matched, so that labels stay few."""
    route = scope.get("route") or scope.get("endpoint")
    template = getattr(route, "path_format", None)
    return template if isinstance(template, str) else "unmatched"


def _request_id(scope: Scope) -> bytes:
    trace = b""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return bytes(value)
        if name == b"traceparent" and not trace:
            match = _TRACEPARENT.fullmatch(value)
            trace = match["trace"] if match else b""
    return trace or os.urandom(16).hex().encode()


class TelemetryMiddleware:
    """Gives each request an id, measures it, and turns an unforeseen error into a problem."""

    def __init__(
        self, app: ASGIApp, *, telemetry: Telemetry, logger: FilteringBoundLogger, log_all: bool = False
    ) -> None:
        self._app = app
        self._telemetry = telemetry
        self._logger = logger
        self._log_all = log_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = _request_id(scope)
        scope["request_id"] = request_id.decode("ascii")
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
            await send(message)

        try:
            await self._app(scope, receive, send_marked)
        except Exception as error:
            self._logger.error(
                "request failed", request_id=scope["request_id"], path=scope["path"], exc_info=error
            )
            if status:  # the answer is under way: only breaking the connection tells the caller
                raise
            await send_problem(scope, send_marked, problem("internal-error"))
        seconds = time.perf_counter() - began
        self._telemetry.observe_request(route_template(scope), scope["method"], status, seconds)
        if self._log_all or status >= 400 or seconds > _SLOW_S:
            self._logger.info(
                "request", request_id=scope["request_id"], method=scope["method"], path=scope["path"],
                status=status, duration_s=round(seconds, 6),
            )  # fmt: skip


class ShortcutMiddleware:
    """Takes requests for hot endpoints past the framework, whose layers cost as much as the decoding.

    The framework's router knows the same endpoints; it answers whatever does not match here to the letter.
    """

    def __init__(self, app: ASGIApp, *, endpoints: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await self._app(scope, receive, send)

"""This module lets pages of named origins use the API from a browser (Fetch Standard, CORS protocol).

No origin is named by default, and then no header is ever sent. Credentials of the browser are never asked
for: who calls sends an API key, which a page of another site does not have.
"""

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from predictor.errors import ArgumentError

_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_HEADERS = (
    b"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-Request-Id"
)
_EXPOSED = b"ETag, Retry-After, X-Request-Id"
_KEPT_S = b"600"  # how long a browser may remember the answer


def read_origins(text: str) -> frozenset[str]:
    """Return the origins of a list with commas, such as ``https://portal.example:8443``.

    Raises:
        ArgumentError: one is no origin; all of these are named.
    """
    origins = [part.strip() for part in text.split(",") if part.strip()]
    faults = [
        f"'{origin}' is no origin; give scheme and host, such as https://portal.example, without a path"
        for origin in origins
        if not _is_origin(origin)
    ]
    if faults:
        raise ArgumentError("the origins cannot be used", faults=faults)
    return frozenset(origins)


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return (
        parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" == text and "*" not in text
    )


class CorsMiddleware:
    """Answers preflight requests of the origins, and marks the answers that their pages may read."""

    def __init__(self, app: ASGIApp, *, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        origin, asked = b"", False
        for name, value in scope.get("headers", ()):
            if name == b"origin":
                origin = value
            elif name == b"access-control-request-method":
                asked = True
        if scope["type"] != "http" or origin.decode("latin-1") not in self._origins:
            await self._app(scope, receive, send)
            return
        marks = [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
        if asked and scope["method"] == "OPTIONS":
            marks += [
                (b"access-control-allow-methods", _METHODS), (b"access-control-allow-headers", _HEADERS),
                (b"access-control-max-age", _KEPT_S),
            ]  # fmt: skip
            await send({"type": "http.response.start", "status": 204, "headers": marks})
            await send({"type": "http.response.body", "body": b""})
            return
        marks.append((b"access-control-expose-headers", _EXPOSED))

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *marks]
            await send(message)

        await self._app(scope, receive, send_marked)

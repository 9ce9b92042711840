"""This module stands before the routes: it finds out who asks, how often, and from which page."""

import math
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.middleware import send_problem
from serving.problems import ProblemError, problem
from serving.security.keys import EVERYTHING, Grant, KeyRing
from serving.security.limits import RateLimiter
from serving.security.tickets import Tickets

OPEN_PATHS = frozenset({"/", "/livez", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"})
OPEN_PREFIXES = ("/problems/", "/dashboard")  # pages and explanations; none of them holds data
TICKET_PATHS = frozenset({"/v1/live", "/v1/events"})
_CHALLENGE = (("WWW-Authenticate", 'Bearer realm="predictor"'),)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Security:
    """Decides on the headers of a request.

    Args:
        ring: the keys; None = development on loopback, where everything is allowed.
        origins: of other sites whose pages may use the API.
    """

    def __init__(
        self, *, ring: KeyRing | None, limiter: RateLimiter, tickets: Tickets,
        origins: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.origins = origins
        self.ring = ring
        self.tickets = tickets
        self._limiter = limiter

    def grant(self, scope: Scope) -> Grant:
        """Return what the request may do.

        Raises:
            ProblemError: 401, 403 or 429.
        """
        token = origin = host = ""
        for name, value in scope["headers"]:
            if name == b"authorization":
                token = value.decode("latin-1")
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"host":
                host = value.decode("latin-1")
        if self.ring is None:
            _check_page("" if origin in self.origins else origin, host)
            return EVERYTHING
        found = self._by_ticket(scope) if not token and scope["path"] in TICKET_PATHS else None
        if found is None:
            found = self._by_key(token, self.ring)
        wait_s = self._limiter.wait_s(found.actor)
        if wait_s > 0.0:
            headers = (("Retry-After", str(math.ceil(wait_s))),)
            raise ProblemError(problem("too-many-requests", headers=headers))
        return found

    def _by_key(self, header: str, ring: KeyRing) -> Grant:
        kind, _, token = header.partition(" ")
        if not token or kind.lower() != "bearer":
            raise ProblemError(problem("unauthenticated", headers=_CHALLENGE))
        found = ring.find(token.strip())
        if found is None:
            detail = "the API key is unknown, revoked or expired"
            raise ProblemError(problem("unauthenticated", detail, headers=_CHALLENGE))
        return found

    def _by_ticket(self, scope: Scope) -> Grant | None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket")
        return self.tickets.redeem(given[0]) if given else None


class GuardMiddleware:
    """Lets a request pass with its grant in the scope, or answers it with a problem.

    Args:
        needs: scope that all requests need; "" = routes look for themselves, see :func:`require_scope`.
    """

    def __init__(self, app: ASGIApp, *, security: Security, needs: str = "") -> None:
        self._app = app
        self._security = security
        self._needs = needs
        self.path_format = getattr(app, "path_format", "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan" or is_open(scope):
            await self._app(scope, receive, send)
            return
        try:
            grant = self._security.grant(scope)
            scope["grant"], scope["actor"] = grant, grant.actor
            if self._needs:
                require_scope(scope, self._needs)
        except ProblemError as error:
            if self.path_format:
                scope["endpoint"] = self  # for the metrics
            if scope["type"] == "websocket":  # closing before accepting is answered with 403 by the server
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": error.problem.code})
                return
            await send_problem(scope, send, error.problem)
            return
        await self._app(scope, receive, send)


def is_open(scope: Scope) -> bool:
    """Whether a request needs no key: health, metrics without names, and pages without data."""
    path = scope["path"]
    return scope["type"] == "http" and (path in OPEN_PATHS or path.startswith(OPEN_PREFIXES))


def require_scope(scope: Scope, needed: str) -> None:
    """Check that the request was granted a scope.

    Raises:
        ProblemError: it was not, or nobody asked who sent it.
    """
    grant = scope.get("grant")
    if not isinstance(grant, Grant):
        raise ProblemError(problem("unauthenticated", headers=_CHALLENGE))
    if not grant.allows(needed):
        held = ", ".join(sorted(grant.scopes))
        raise ProblemError(problem("forbidden", f"this needs the scope '{needed}'; the API key has {held}"))


def needing(needed: str) -> dict[str, Any]:  # Any: arguments of the framework's routes
    """Return what makes a route of the framework need a scope, and say so in the description of the API."""

    async def check(connection: HTTPConnection) -> None:
        require_scope(connection.scope, needed)

    return {"dependencies": [Depends(check)], "openapi_extra": {"security": security_of(needed)}}


def security_of(scope: str) -> list[dict[str, list[str]]]:
    """Return how the description of the API says which scope a key needs."""
    return [{"apiKey": [scope]}]


def _check_page(origin: str, host: str) -> None:
    """Refuse what a page of another site makes a browser on this machine send to us.

    Where no key is asked for, a foreign page may neither post here nor open the feed, nor reach us under a
    name that it made point to this machine.
    """
    name = urlsplit(f"//{host}").hostname or ""
    if name and name not in _LOOPBACK and "." in name:
        raise ProblemError(problem("forbidden", f"in development mode the host '{name[:100]}' is not served"))
    if origin and urlsplit(origin).netloc != host:
        raise ProblemError(problem("forbidden", f"pages of '{origin[:100]}' may not use this service"))

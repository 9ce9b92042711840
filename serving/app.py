"""This module makes the ASGI app of a service; importing it makes nothing."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from predictor import __version__
from predictor.errors import PredictorError
from serving.decoding import escape
from serving.live.feed import feed_router
from serving.middleware import ShortcutMiddleware, TelemetryMiddleware, request_id_of
from serving.openapi import JSON, describe
from serving.problems import (
    PROBLEM_TYPE,
    Fault,
    Problem,
    ProblemError,
    domain_problem,
    invalid_request,
    status_problem,
)
from serving.queue.dispatch import OperationEndpoint
from serving.queue.operation import Operation
from serving.routes.dashboard import dashboard_router
from serving.routes.operations import operations_router
from serving.routes.outcomes import OutcomesEndpoint
from serving.routes.predictions import PredictionsEndpoint
from serving.routes.tickets import tickets_router
from serving.security.cors import CorsMiddleware
from serving.security.guard import GuardMiddleware
from serving.services import Services


class ServiceApp(FastAPI):
    """The framework's app, which hot requests never enter.

    Attributes:
        edge: answers all requests, most of them by way of the framework.
    """

    edge: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self.edge(scope, receive, send)


def create_app(services: Services) -> FastAPI:
    """Return the app of these services; its lifespan starts and stops them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with services.running():
            yield

    app = ServiceApp(
        title="Job runtime predictor", version=__version__, lifespan=lifespan, openapi_url=None,
        docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    hot = _hot_endpoints(services)
    for endpoint in hot:
        guarded = GuardMiddleware(endpoint, security=services.security, needs=endpoint.scope)
        app.router.routes.append(Route(endpoint.path_format, guarded, methods=["POST"]))
    app.include_router(operations_router(services))
    if services.queue is not None:
        app.include_router(feed_router(services.queue.hub))
        app.include_router(dashboard_router())
        for operation in services.queue.operations:
            handler = OperationEndpoint(operation, services.settings.max_body_bytes)
            # an id may hold slashes; of each method, one path at most begins with it
            path = operation.path.replace("{job_id}", "{job_id:path}")
            app.router.routes.append(Route(path, handler, methods=[operation.method]))
    app.include_router(tickets_router(services.security))
    _add_openapi(app, () if services.queue is None else services.queue.operations)
    _add_problem_handlers(app)
    measured = partial(
        TelemetryMiddleware, telemetry=services.telemetry, logger=services.logger,
        log_all=services.settings.log_requests == "all",
    )  # fmt: skip
    app.add_middleware(partial(GuardMiddleware, security=services.security))
    app.add_middleware(measured)
    app.edge = ShortcutMiddleware(
        partial(FastAPI.__call__, app),
        endpoints={
            endpoint.path_format: measured(
                GuardMiddleware(endpoint, security=services.security, needs=endpoint.scope)
            )
            for endpoint in hot
        },
    )
    if services.security.origins:
        app.edge = CorsMiddleware(app.edge, origins=services.security.origins)
    return app


def _hot_endpoints(services: Services) -> tuple[PredictionsEndpoint, OutcomesEndpoint]:
    return (
        PredictionsEndpoint(
            slot=services.slot, accuracy=services.accuracy, settings=services.settings, clock=services.clock,
            telemetry=services.telemetry, logger=services.logger, resources=services.resources,
            names=services.names,
        ),
        OutcomesEndpoint(ledger=services.ledger, settings=services.settings, names=services.names),
    )  # fmt: skip


def _add_openapi(app: FastAPI, operations: Sequence[Operation]) -> None:
    def document() -> JSON:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app, operations)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # the framework's documented way

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> JSONResponse:
        return JSONResponse(document())


def _add_problem_handlers(app: FastAPI) -> None:
    @app.exception_handler(ProblemError)
    async def on_problem(request: Request, error: ProblemError) -> Response:
        return _respond(request, error.problem)

    @app.exception_handler(PredictorError)
    async def on_domain_error(request: Request, error: PredictorError) -> Response:
        return _respond(request, domain_problem(error))

    @app.exception_handler(HTTPException)
    async def on_status(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the framework names the methods of the first route that matches only
            headers["Allow"] = _allowed(app, request)
        answer = status_problem(error.status_code, _detail(request, error, headers), tuple(headers.items()))
        return _respond(request, answer)

    @app.exception_handler(RequestValidationError)
    async def on_validation(request: Request, error: RequestValidationError) -> Response:
        return _respond(
            request, invalid_request([_fault(fault["loc"], fault["msg"]) for fault in error.errors()])
        )


def _allowed(app: FastAPI, request: Request) -> str:
    """Return the methods that some route takes at the path of a request."""
    found: set[str] = set()
    for route in app.router.routes:
        methods = getattr(route, "methods", None)
        if methods and route.matches(request.scope)[0] is not Match.NONE:
            found |= methods
    return ", ".join(sorted(found))


def _detail(request: Request, error: HTTPException, headers: Mapping[str, str]) -> str:
    if error.status_code == 404:
        return f"there is nothing at '{request.url.path[:200]}'; the paths are listed in /openapi.json"
    if error.status_code == 405:
        allowed = headers["Allow"]
        return f"'{request.url.path[:200]}' takes {allowed}, not {request.method}"
    return str(error.detail)


def _fault(location: tuple[str | int, ...], message: str) -> Fault:
    pointer = "".join(f"/{escape(str(part))}" for part in location)
    return Fault(pointer=pointer, code="invalid", detail=message)


def _respond(request: Request, answer: Problem) -> Response:
    body = answer.encode(instance=request.url.path, request_id=request_id_of(request.scope))
    return Response(body, answer.status, headers=dict(answer.headers), media_type=PROBLEM_TYPE)

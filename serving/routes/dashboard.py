"""This module serves the dashboard: one page and its modules, all of them from the package."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response

from serving.problems import ProblemError, problem

_FOLDER = Path(__file__).parents[1] / "dashboard"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def dashboard_router() -> APIRouter:
    """Return the routes of the dashboard."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    @router.get("/dashboard")
    async def page() -> Response:
        return _file("index.html")

    @router.get("/dashboard/{name}")
    async def part(name: str) -> Response:
        if name not in {path.name for path in _FOLDER.iterdir()}:
            raise ProblemError(problem("not-found", f"the dashboard has no file '{name[:60]}'"))
        return _file(name)

    return router


def _file(name: str) -> Response:
    path = _FOLDER / name
    return FileResponse(path, media_type=_TYPES.get(path.suffix, "text/plain"), headers=_HEADERS)

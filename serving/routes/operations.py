"""This module answers operators: health, readiness, metrics, the models, and the pages of the service."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from predictor.errors import PredictorError
from serving.engine.steps import Role
from serving.model_slot import Origin
from serving.problems import ProblemError, catalogue, problem
from serving.security.guard import needing
from serving.security.keys import PREDICT
from serving.services import Services

_DOCS_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Check(BaseModel):
    """One named check of readiness."""

    name: str
    ok: bool
    detail: str = ""


class Readiness(BaseModel):
    """Whether the service can answer, and how well."""

    status: Literal["ready", "degraded", "unavailable"]
    model_origin: Origin
    reason: str = Field(description="why not the champion answers; empty where it does")
    checks: list[Check]


class ServedView(BaseModel):
    """The model that answers."""

    name: str
    version: str
    digest: str
    feature_spec: str
    created_at: str
    trained_until_s: float
    origin: Origin
    reason: str
    replayed_events: int = Field(description="outcome events newer than its training data")


class AliasView(BaseModel):
    """What an alias of the store names."""

    alias: str
    version: str | None = None
    digest: str | None = None
    problem: str = ""


class TargetView(BaseModel):
    """What answers for one kind of forecast; without a bundle, memory and placements follow rules."""

    target: str
    origin: Origin
    version: str | None
    reason: str


class QualityView(BaseModel):
    """How the latest forecasts did; null before there are outcomes, or where nothing is known."""

    outcomes: int
    mean_abs_log_ratio: float | None = Field(description="mean |ln(actual / median)| of these outcomes")
    judged_abs_log_ratio: float | None = Field(description="the same when the model was judged")
    gpu_jobs: int = Field(description="the latest jobs with GPUs that ended by themselves")
    out_of_memory_ratio: float | None = Field(description="share of these that ran out of memory")


class ModelsView(BaseModel):
    """The model that answers and the aliases of the store."""

    served: ServedView | None
    targets: list[TargetView]
    aliases: list[AliasView]
    quality: QualityView
    coverage: dict[str, float] = Field(description="rolling coverage of outcomes by quantile")


class ProblemKindView(BaseModel):
    """What a problem means and what to do."""

    code: str
    status: int
    title: str
    explanation: str


def operations_router(services: Services) -> APIRouter:
    """Return the routes for operators."""
    router = APIRouter(tags=["operations"])

    @router.get("/livez", operation_id="livez", summary="The process answers")
    async def livez() -> Health:
        return Health()

    @router.get("/healthz", operation_id="healthz", summary="The same as /livez")
    async def healthz() -> Health:
        return Health()

    @router.get("/readyz", operation_id="readyz", summary="Named checks of readiness", responses=_UNREADY)
    async def readyz() -> Response:
        found = readiness(services)
        status = 503 if found.status == "unavailable" else 200
        return JSONResponse(found.model_dump(mode="json"), status_code=status)

    @router.get("/metrics", operation_id="metrics", response_class=Response, summary="Prometheus metrics",
                responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})  # fmt: skip
    async def metrics() -> Response:
        return Response(services.telemetry.exposition(), media_type=services.telemetry.content_type)

    @router.get(
        "/v1/models",
        operation_id="list_models",
        summary="What is served, and the aliases",
        **needing(PREDICT),
    )
    async def models() -> ModelsView:
        return models_view(services)

    @router.get("/problems/{code}", operation_id="explain_problem", summary="What a problem means",
                responses=_UNKNOWN_PROBLEM)  # fmt: skip
    async def explain_problem(
        code: Annotated[str, PathParameter(examples=["invalid-request"])],
    ) -> ProblemKindView:
        kind = catalogue().get(code)
        if kind is None:
            detail = f"no problem has the code '{code[:60]}'; known are {', '.join(sorted(catalogue()))}"
            raise ProblemError(problem("not-found", detail))
        return ProblemKindView(
            code=kind.code, status=kind.status, title=kind.title, explanation=kind.explanation
        )

    @router.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = Path(__file__).parents[1].joinpath("docs.html").read_text(encoding="utf-8")
        return HTMLResponse(page, headers={"Content-Security-Policy": _DOCS_POLICY})

    return router


_NO_CHAMPION = "no version is champion in 'models/store/duration'"
_READY_EXAMPLE: dict[str, Any] = {  # Any: JSON
    "status": "degraded", "model_origin": "fallback", "reason": f"champion: [bundle-missing] {_NO_CHAMPION}",
    "checks": [{"name": "model", "ok": True, "detail": "fallback 0.1.0"},
               {"name": "champion", "ok": False, "detail": _NO_CHAMPION},
               {"name": "outcome_log", "ok": True, "detail": "0 unreadable lines"}],
}  # fmt: skip
_UNREADY: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Readiness, "description": "Ready; `degraded` where not the champion answers",
        "content": {"application/json": {"example": _READY_EXAMPLE}},
    },
    503: {
        "model": Readiness, "description": "No model can be used, or outcomes cannot be written",
        "content": {"application/json": {"example": {**_READY_EXAMPLE, "status": "unavailable",
                                                     "model_origin": "none"}}},
    },
}  # fmt: skip
_UNKNOWN_PROBLEM: dict[int | str, dict[str, Any]] = {
    404: {"description": "No problem has this code", "content": {"application/problem+json": {}}},
}


def readiness(services: Services) -> Readiness:
    """Return the named checks; a model and a log that can be written are needed, a champion is wished for."""
    state = services.slot.state
    found = state.model is not None
    detail = "none" if state.model is None else f"{state.origin.value} {state.model.info.version}"
    champion = state.origin is Origin.CHAMPION
    fault = services.ledger.fault or services.log.writable_fault()
    unreadable = services.log_account.unreadable
    checks = [
        Check(name="model", ok=found, detail=detail if found else state.reason),
        Check(name="champion", ok=champion, detail=state.reason),
        Check(name="outcome_log", ok=not fault, detail=fault or f"{unreadable} unreadable lines"),
    ]
    broken = False
    if services.queue is not None:
        engine = services.queue.engine
        # a standby answers reads and waits for the lease: it is ready to take over
        broken = engine.role in (Role.STARTING, Role.RECOVERING)
        detail = f"{engine.role.value} at {engine.sequence}" + (f": {engine.fault}" if engine.fault else "")
        checks.append(Check(name="queue", ok=not broken, detail=detail))
    status: Literal["ready", "degraded", "unavailable"] = "ready" if champion else "degraded"
    if not found or fault or broken:
        status = "unavailable"
    return Readiness(status=status, model_origin=state.origin, reason=state.reason, checks=checks)


def models_view(services: Services) -> ModelsView:
    """Return the model that answers and what the aliases name."""
    state = services.slot.state
    served = None
    if state.model is not None:
        info = state.model.info
        served = ServedView(
            name=info.name, version=info.version, digest=info.digest, feature_spec=info.feature_spec,
            created_at=info.created_at, trained_until_s=info.trained_until_s, origin=state.origin,
            reason=state.reason, replayed_events=state.replayed,
        )  # fmt: skip
    aliases = []
    for alias in dict.fromkeys((services.settings.alias, services.settings.previous_alias, "challenger")):
        try:
            ref = services.store.resolve(alias)
            aliases.append(AliasView(alias=alias, version=ref.version, digest=ref.digest))
        except (PredictorError, OSError, msgspec.MsgspecError) as error:
            aliases.append(AliasView(alias=alias, problem=str(error)))
    targets = [
        TargetView(
            target=slot.target, origin=slot.state.origin, reason=slot.state.reason,
            version=None if slot.state.model is None else slot.state.model.info.version,
        )
        for slot in (services.slot, services.vram, services.topology)
    ]  # fmt: skip
    return ModelsView(
        served=served, targets=targets, aliases=aliases, coverage=services.accuracy.coverage(),
        quality=_quality(services),
    )  # fmt: skip


def _quality(services: Services) -> QualityView:
    accuracy, model = services.accuracy, services.slot.state.model
    count, rows = accuracy.out_of_memory()
    return QualityView(
        outcomes=accuracy.outcomes, mean_abs_log_ratio=accuracy.mean_abs_log_ratio(),
        judged_abs_log_ratio=None if model is None else model.evidence.mean_abs_log_ratio,
        gpu_jobs=rows, out_of_memory_ratio=count / rows if rows else None,
    )  # fmt: skip

"""This module hands out tickets for the live feed, since browsers cannot send a key with a WebSocket."""

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from serving.security.guard import Security, needing
from serving.security.keys import EVERYTHING, PREDICT
from serving.security.tickets import TICKET_S


class TicketView(BaseModel):
    """A ticket for one connection to /v1/live or /v1/events, as ``?ticket=``."""

    ticket: str
    lives_s: float = Field(description="seconds in which it must be used; it works once")


def tickets_router(security: Security) -> APIRouter:
    """Return the route of tickets."""
    router = APIRouter(tags=["live"])

    @router.post(
        "/v1/tickets", operation_id="issue_ticket", summary="A ticket for the live feed", **needing(PREDICT)
    )
    async def issue(request: Request) -> TicketView:
        grant = request.scope.get("grant", EVERYTHING)
        return TicketView(ticket=security.tickets.issue(grant), lives_s=TICKET_S)

    return router

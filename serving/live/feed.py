"""This module is the live feed: WebSocket ``/v1/live`` and server-sent events ``/v1/events``.

Both carry the same frames. A client names its topics, and after a break the last sequence that it saw; it
gets what it missed, or the advice to fetch the state anew where that is too long ago.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import msgspec
from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.responses import StreamingResponse
from starlette.websockets import WebSocketDisconnect

from serving.live.hub import ALL_TOPICS, Frame, Hub, Topic, Watch
from serving.problems import Fault, ProblemError, invalid_request
from serving.security.guard import needing, require_scope
from serving.security.keys import PREDICT

HEARTBEAT_S = 15.0
_CLOSE_POLICY = 1008  # RFC 6455: the message violates the policy of the server
_CLOSE_AWAY = 1001


def feed_router(hub: Hub, *, heartbeat_s: float = HEARTBEAT_S) -> APIRouter:
    """Return the routes of the feed; they end when the hub closes."""
    router = APIRouter(tags=["live"])

    @router.websocket("/v1/live")
    async def live(socket: WebSocket) -> None:
        try:
            require_scope(socket.scope, PREDICT)
        except ProblemError as error:
            await socket.close(_CLOSE_POLICY, error.problem.code)
            return
        await socket.accept()
        faults, topics, after = _options(
            socket.query_params.getlist("topics"), socket.query_params.get("after")
        )
        if faults:
            await socket.close(_CLOSE_POLICY, "; ".join(fault.detail for fault in faults)[:120])
            return
        with hub.watch(topics, after) as watch:
            hello = {"type": "hello", "sequence": watch.after, "heartbeat_s": heartbeat_s,
                     "topics": sorted(topics)}  # fmt: skip
            sending = asyncio.create_task(_send_frames(socket, watch, hello, heartbeat_s))
            reading = asyncio.create_task(_read_subscriptions(socket, watch))
            tasks = {sending, reading}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(_CLOSE_AWAY)

    @router.get(
        "/v1/events", operation_id="stream_events", response_class=Response,
        summary="The live feed as server-sent events; Last-Event-ID resumes",
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
        **needing(PREDICT),
    )  # fmt: skip
    async def events(request: Request) -> StreamingResponse:
        last = request.headers.get("last-event-id", request.query_params.get("after"))
        faults, topics, after = _options(request.query_params.getlist("topics"), last)
        if faults:
            raise ProblemError(invalid_request(faults))
        stream = _event_stream(hub, topics, after, heartbeat_s)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    return router


def _options(names: Iterable[str], after: str | None) -> tuple[list[Fault], frozenset[Topic], int | None]:
    wanted = [name for part in names for name in part.split(",") if name]
    known = {topic.value for topic in Topic}
    faults = [
        Fault(pointer="/topics", code="unknown-topic",
              detail=f"'{name[:40]}' is no topic; known are {', '.join(sorted(known))}")
        for name in wanted
        if name not in known
    ]  # fmt: skip
    sequence = None
    if after is not None:
        if after.isascii() and after.isdigit() and len(after) <= 18:
            sequence = int(after)
        else:
            detail = f"'{after[:40]}' is no sequence; give the last one that you saw, a whole number"
            faults.append(Fault(pointer="/after", code="invalid", detail=detail))
    topics = frozenset(Topic(name) for name in wanted if name in known)
    return faults, topics or ALL_TOPICS, sequence


async def _send_frames(socket: WebSocket, watch: Watch, hello: object, heartbeat_s: float) -> None:
    await socket.send_text(msgspec.json.encode(hello).decode())
    while (frame := await watch.next(heartbeat_s)) is not None:
        await socket.send_text(_message(frame).decode())


async def _read_subscriptions(socket: WebSocket, watch: Watch) -> None:
    """Take up new topics; anything else that a client says ends the connection."""
    while True:
        text = await socket.receive_text()
        value = msgspec.json.decode(text.encode())
        names = value.get("topics") if isinstance(value, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return
        faults, topics, _ = _options(names, None)
        if faults:
            return
        watch.topics = topics


async def _event_stream(
    hub: Hub, topics: frozenset[Topic], after: int | None, heartbeat_s: float
) -> AsyncIterator[bytes]:
    with hub.watch(topics, after) as watch:
        yield b"retry: 1000\nid: %d\nevent: hello\ndata: {}\n\n" % watch.after
        while (frame := await watch.next(heartbeat_s)) is not None:
            if frame.resync:
                yield b"id: %d\nevent: resync\ndata: {}\n\n" % frame.sequence
            elif frame.text:
                yield b"id: %d\nevent: changes\ndata: %s\n\n" % (frame.sequence, frame.text)
            else:
                yield b": heartbeat\n\n"


def _message(frame: Frame) -> bytes:
    if frame.resync:
        return b'{"type":"resync","sequence":%d}' % frame.sequence
    if frame.text:
        return b'{"type":"changes","sequence":%d,"changes":%s}' % (frame.sequence, frame.text)
    return b'{"type":"heartbeat","sequence":%d}' % frame.sequence

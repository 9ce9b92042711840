"""This module answers what the queue looks like: pages, running jobs, promises, capacity, teams."""

import base64
import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from predictor.scheduling import views
from predictor.scheduling.eta import Eta
from predictor.scheduling.view_rows import CapacityRow, QueueRow, RunningRow
from serving.engine.changes import reason_view
from serving.engine.engine import Engine
from serving.problems import Fault, ProblemError, invalid_request, problem
from serving.queue.operation import Call, Reply
from serving.queue.view_schemas import (
    CapacityView,
    EtaView,
    ExplanationView,
    NodeView,
    PoolView,
    ProfileStep,
    PromiseView,
    QueueItem,
    QueuePage,
    ReservationItem,
    Reservations,
    RunningItem,
    RunningPage,
    TeamItem,
    TeamsView,
)

_FRESH_S = 10.0  # what only time changes (waits, ages) is as of this long ago at most
_MOST_ETAS = 200


class QueueViews:
    """The operations that read; none of them changes anything."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _etag(self, *parts: object) -> str:
        turn = int(self._engine.now_s() / _FRESH_S)
        # what callers send must not get into a header as it is
        asked = blake2b(repr(parts).encode(), digest_size=6).hexdigest()
        return f"{self._engine.sequence}-{turn}-{asked}"

    async def queue(self, call: Call) -> Reply:
        """Return a page of waiting jobs in their order."""
        offset = _read_cursor(call.text("cursor"))
        limit = call.number("limit")
        now_s = self._engine.now_s()
        coordinator = self._engine.coordinator
        page = views.queue_page(
            coordinator,
            offset,
            limit,
            pool=call.text("pool"),
            workload_class=call.text("workload_class"),
            now_s=now_s,
        )
        etas = views.etas(coordinator, min(offset + limit, _MOST_ETAS), now_s) if offset < _MOST_ETAS else {}
        items = queue_items(page.rows, offset, now_s, etas)
        after = offset + len(items)
        body = QueuePage(
            sequence=self._engine.sequence, at_s=now_s, total=page.total, items=items,
            next_cursor=_cursor(after) if after < page.total else None,
        )  # fmt: skip
        return Reply(
            body=body, etag=self._etag(offset, limit, call.text("pool"), call.text("workload_class"))
        )

    async def jobs(self, call: Call) -> Reply:
        """Return a page of running jobs, the longest running first."""
        offset = _read_cursor(call.text("cursor"))
        now_s = self._engine.now_s()
        page = views.running_page(self._engine.coordinator, offset, call.number("limit"), now_s=now_s)
        after = offset + len(page.rows)
        body = RunningPage(
            sequence=self._engine.sequence, at_s=now_s, total=page.total,
            items=[_running_item(row, now_s) for row in page.rows],
            next_cursor=_cursor(after) if after < page.total else None,
        )  # fmt: skip
        return Reply(body=body, etag=self._etag(offset, call.number("limit")))

    async def reservations(self, call: Call) -> Reply:
        """Return the promised starts."""
        del call
        items = [
            ReservationItem(
                job_id=row.job_id, pool=row.pool, width=row.width, start_s=row.start_s, latest_s=row.latest_s
            )
            for row in views.promises(self._engine.coordinator)
        ]
        body = Reservations(sequence=self._engine.sequence, at_s=self._engine.now_s(), items=items)
        return Reply(body=body, etag=self._etag())

    async def capacity(self, call: Call) -> Reply:
        """Return what pools offer, now and later."""
        del call
        now_s = self._engine.now_s()
        coordinator = self._engine.coordinator
        held = coordinator.state.capacity
        # what is used may be more than what is offered: jobs on drained nodes run to their end
        used = (held.node_units - held.node_free).tolist()
        pools = []
        for at, row in enumerate(views.capacity(coordinator, now_s)):
            first, last = int(held.first[at]), int(held.first[at + 1])
            pool_used = int(held.total[at]) - int(held.free[at])
            pools.append(_pool_view(row, held.pools[at].node_islands, used[first:last], pool_used))
        body = CapacityView(sequence=self._engine.sequence, at_s=now_s, pools=pools)
        return Reply(body=body, etag=self._etag())

    async def teams(self, call: Call) -> Reply:
        """Return what each team has used of its share."""
        del call
        items = [
            TeamItem(
                team=row.team,
                usage_ratio=row.usage_ratio,
                running=row.used,
                waiting=row.waiting,
                quota=row.quota,
            )
            for row in views.teams(self._engine.coordinator)
        ]
        body = TeamsView(sequence=self._engine.sequence, at_s=self._engine.now_s(), teams=items)
        return Reply(body=body, etag=self._etag())

    async def explanation(self, call: Call) -> Reply:
        """Return why a job is where it is, when it may start, and what would change that."""
        job_id = call.path["job_id"]
        coordinator = self._engine.coordinator
        if not coordinator.knows(job_id):
            raise ProblemError(problem("not-found", f"no job '{job_id[:100]}' waits or runs"))
        now_s = self._engine.now_s()
        found = views.explain(coordinator, job_id, now_s)
        body = ExplanationView(
            job_id=job_id, at_s=now_s, state=found.state, position=found.position,
            workload_class=found.workload_class, factors=_finite(found.factors),
            reason=None if found.reason is None else reason_view(found.reason),
            promise=_promise(found.promise),
            eta=_finite(found.eta), forecast=_finite(found.forecast), would_change=list(found.would_change),
            siblings=found.siblings,
        )  # fmt: skip
        return Reply(body=body, etag=self._etag(job_id))


def queue_items(
    rows: Sequence[QueueRow], offset: int, now_s: float, etas: Mapping[str, Eta]
) -> list[QueueItem]:
    """Return waiting jobs as they are answered; ``offset`` jobs come before them."""
    return [
        _queue_item(row, offset + place + 1, now_s, etas.get(row.job_id)) for place, row in enumerate(rows)
    ]


def _queue_item(row: QueueRow, position: int, now_s: float, eta: Eta | None) -> QueueItem:
    return QueueItem(
        position=position, job_id=row.job_id, user=row.user, team=row.team,
        workload_class=row.workload_class, pool=row.pool, gpu_type=row.gpu_type, width=row.width,
        submitted_s=row.submitted_s, waited_s=max(now_s - row.submitted_s, 0.0),
        limit_s=row.limit_s if math.isfinite(row.limit_s) else None, score=_number(row.score),
        factors=_finite(row.factors), forecast=_finite(row.forecast), reason=reason_view(row.reason),
        promise=_promise(row.promise),
        eta=None if eta is None else EtaView(q50_s=_number(eta.q50_s), q90_s=_number(eta.q90_s)),
    )  # fmt: skip


def _running_item(row: RunningRow, now_s: float) -> RunningItem:
    return RunningItem(
        job_id=row.job_id, user=row.user, team=row.team, workload_class=row.workload_class, pool=row.pool,
        width=row.width, nodes=[list(place) for place in row.nodes], started_s=row.started_s,
        elapsed_s=max(now_s - row.started_s, 0.0), remaining=_finite(row.remaining),
        preemptible=row.preemptible,
    )  # fmt: skip


def _pool_view(row: CapacityRow, islands: Sequence[int], used: Sequence[int], pool_used: int) -> PoolView:
    return PoolView(
        pool=row.pool, gpu_type=row.gpu_type, total=row.total, free=row.free, used=pool_used,
        down=row.down,
        nodes=[
            NodeView(
                index=node.index, island=islands[node.index], full=node.full, total=node.total,
                free=node.free, used=used[node.index],
            )
            for node in row.nodes
        ],
        profile=[
            ProfileStep(at_s=at_s, free_q50=middle, free_q10=sure) for at_s, middle, sure in row.profile
        ],
    )  # fmt: skip


def _promise(given: tuple[float, float] | None) -> PromiseView | None:
    return None if given is None else PromiseView(start_s=given[0], latest_s=given[1])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _number(value) for name, value in values.items()}


def _cursor(offset: int) -> str:
    return base64.urlsafe_b64encode(f"o{offset}".encode()).decode().rstrip("=")


def _read_cursor(text: str) -> int:
    if not text:
        return 0
    try:
        plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        if plain[:1] == "o" and plain[1:].isdigit() and len(plain) < 12 and _cursor(int(plain[1:])) == text:
            return int(plain[1:])
    except ValueError:
        pass
    detail = "the cursor is not one that this service has given; begin without"
    raise ProblemError(invalid_request([Fault(pointer="/query/cursor", code="invalid", detail=detail)]))

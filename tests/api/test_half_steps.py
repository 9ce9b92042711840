"""This module checks that a step which fails half-way has no effect: the state is that of the log again."""

from collections.abc import Callable
from typing import Any

import pytest

from serving.engine import engine
from serving.engine.steps import Role
from serving.queue.once import Once
from tests.api.harness import Harness, check_problem
from tests.api.queueing import fill, job, order_of, queueing, role_of, state_of, submit

pytestmark = pytest.mark.anyio


def stumble(*_: object, **__: object) -> Any:  # Any: it never returns
    raise ZeroDivisionError("a fault of ours")


def break_telling(patch: pytest.MonkeyPatch) -> None:
    """After the Coordinator has taken the step, before it is encoded for the log."""
    patch.setattr(engine, "changes_of", stumble)


def break_answer(patch: pytest.MonkeyPatch) -> None:
    """While the answer is made that is recorded with the step."""
    good = Once.beside

    def beside(self: Once, call: Any, reply: Any, **more: Any) -> Any:  # Any: as the original
        return good(self, call, stumble, **more)

    patch.setattr(Once, "beside", beside)


@pytest.mark.parametrize("break_it", [break_telling, break_answer])
async def test_a_step_that_fails_half_way_has_no_effect(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, break_it: Callable[[pytest.MonkeyPatch], None]
) -> None:
    async with queueing(harness) as (client, services):
        await fill(client)
        await submit(client, job("a"))
        before = await state_of(client)
        with monkeypatch.context() as patch:
            break_it(patch)
            lost = await client.post("/v1/jobs", json=job("lost"), headers={"idempotency-key": "k"})
        check_problem(lost, 500, "internal-error")
        await role_of(services, Role.LEADING)
        assert await state_of(client) == before
        again = await client.post("/v1/jobs", json=job("lost"), headers={"idempotency-key": "k"})
        assert again.status_code == 200
        live = await state_of(client)
        assert await order_of(client) == ["a", "lost"]
    async with queueing(harness) as (client, _):
        assert await state_of(client) == live

"""The compiled pass decides exactly as the plain one."""

from dataclasses import replace

import numpy as np
import pytest

from predictor.contracts.decisions import Promised, Started
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.order import Order
from predictor.scheduling.policy import Policy
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.reservation import Plan, Reserve
from tests.unit.predictor.scheduling.builders import NOW, a_job
from tests.unit.predictor.scheduling.reference_pass import Running, Waiting, reference_pass

TOTAL = 16
_ORDERS = {
    "first come": Order(by="submit", ageing="none", guard_s=float("inf")),
    "linear": Order(source="estimate", ageing="linear", ageing_rate=0.3, guard_s=float("inf")),
    "ratio": Order(source="estimate", ageing="ratio"),
    "guarded": Order(
        source="estimate",
        ageing="ratio",
        guard_s=2000.0,
        guard_width_exponent=0.4,
        guard_backlogs=float("inf"),
    ),
}
_RESERVES = {
    "one head": Reserve(heads=1, eldest=0, guarded=0),
    "shortest first": Reserve(heads=1, eldest=0, guarded=0, backfill_order="shortest"),
    "many": Reserve(heads=3, eldest=2, guarded=2),
    "all": Reserve(heads=10**9, eldest=0, guarded=0),
    "no backfill": Reserve(heads=0, eldest=0, guarded=0, backfill=False),
}


@pytest.mark.parametrize("reserve", _RESERVES.values(), ids=_RESERVES)
@pytest.mark.parametrize("order", _ORDERS.values(), ids=_ORDERS)
def test_the_compiled_pass_starts_and_promises_what_the_plain_one_does(
    order: Order, reserve: Reserve
) -> None:
    plan = Plan(source="estimate", correction="limit")
    policy = Policy(order=order, plan=plan, reserve=reserve, preemption=Preemption(mode="none"))
    generator = np.random.default_rng(7)
    compared = 0
    for _ in range(40):
        coordinator = Coordinator(replace(policy, name="random"), [Pool(name="cpu", total=TOTAL)])
        state = coordinator.state
        ends: dict[str, Running] = {}
        waiting: list[Waiting] = []
        for k in range(30):
            at_s = float(k * generator.integers(1, 300))
            takes_s = float(generator.integers(1, 40) * 100)
            width = int(generator.integers(1, TOTAL + 1) // generator.integers(1, 5) or 1)
            now_s = max(state.now_s, NOW + at_s)
            event = a_job(str(k), width, now_s - NOW, takes_s)
            expected_queue = [
                *waiting,
                Waiting(name=str(k), width=width, submit_s=now_s, size_s=takes_s, plan_s=takes_s),
            ]
            running = [
                each if each.end_s > now_s else replace(each, end_s=now_s + 1) for each in ends.values()
            ]
            want = reference_pass(now_s, TOTAL, expected_queue, running, order, reserve)
            free = int(state.capacity.free[0])
            decisions = coordinator.apply(event)
            begun = [each.job_id for each in decisions if isinstance(each, Started)]
            if free > 0:
                assert sorted(begun) == sorted(want.started)
                for name, start_s in want.promises:
                    slot = state.store.slot_of[name]
                    stored = float(state.store.floats[7, slot])
                    assert abs(stored - start_s) <= reserve.tolerance_s
                    compared += 1
            for each in expected_queue:
                if each.name in begun:
                    ends[each.name] = Running(width=each.width, end_s=now_s + each.plan_s)
            waiting = [each for each in expected_queue if each.name not in begun]
            assert not [each for each in decisions if isinstance(each, Promised) and each.job_id in begun]
    if reserve.heads:
        assert compared > 100

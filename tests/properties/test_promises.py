"""Promises hold where forecasts do, and waiting is bounded by ageing, whatever arrives."""

import heapq

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from predictor.contracts.decisions import Promised, PromiseMoved, Started
from predictor.contracts.events import Event, JobFinished, JobSubmitted
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.order import Order
from predictor.scheduling.policy import Policy
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.presets import preset
from predictor.scheduling.reservation import Plan, Reserve

NOW = 1_800_000_000.0
COUNTED = Pool(name="cpu", total=16)
NODES = Pool(name="gpu", node_units=(4, 4, 4, 4))
SEEDS = st.integers(0, 10**6)
FEW = settings(max_examples=12, deadline=None, derandomize=True)
RATE = 0.5


def replayed(policy: Policy, pool: Pool, seed: int) -> tuple[dict[str, JobSubmitted], list[object]]:
    """Replay random jobs that run exactly as long as estimated; return them and all decisions."""
    random = np.random.default_rng(seed)
    submits = NOW + np.cumsum(random.exponential(300.0, 80))
    jobs = {
        str(k): JobSubmitted(
            now_s=float(at_s),
            job_id=str(k),
            width=int(random.choice([1, 2, 3, 4, 8, 16])),
            estimate_s=(takes_s := float(random.choice([60.0, 600.0, 3000.0]))),
            limit_s=takes_s,
        )
        for k, at_s in enumerate(submits)
    }
    coordinator = Coordinator(policy, [pool])
    coming, ends, told = list(jobs.values()), list[tuple[float, str]](), list[object]()
    while coming or ends:
        at_s = min(coming[0].now_s if coming else np.inf, ends[0][0] if ends else np.inf)
        events: list[Event] = []
        while ends and ends[0][0] <= at_s:
            events.append(JobFinished(now_s=at_s, job_id=heapq.heappop(ends)[1]))
        while coming and coming[0].now_s <= at_s:
            events.append(coming.pop(0))
        for each in coordinator.apply_all(events):
            told.append(each)
            if isinstance(each, Started):
                heapq.heappush(ends, (at_s + (jobs[each.job_id].estimate_s or 0.0), each.job_id))
    assert (coordinator.waiting, coordinator.running) == (0, 0)
    return jobs, told


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("easy", COUNTED),
        ("easy", NODES),
        ("easy-pp", COUNTED),
        ("easy-pp", NODES),
        ("conservative", COUNTED),
        ("conservative", NODES),
    ],
)
@FEW
@given(seed=SEEDS)
@example(seed=245)  # with best fit, packing moves a promise in this story
def test_no_backfilled_job_delays_a_promise_when_jobs_run_as_forecast(
    name: str, pool: Pool, seed: int
) -> None:
    """In order of submission nobody overtakes: a promised start is kept or comes earlier."""
    _, told = replayed(preset(name), pool, seed)
    promised: dict[str, float] = {}
    for each in told:
        if isinstance(each, PromiseMoved):
            assert each.start_s <= each.old_start_s
        if isinstance(each, Promised | PromiseMoved):
            promised[each.job_id] = each.start_s
        if isinstance(each, Started) and each.job_id in promised:
            assert each.now_s <= promised[each.job_id] + 60.0  # moves within the tolerance are not told
    assert promised


@FEW
@given(seed=SEEDS)
def test_with_linear_ageing_only_jobs_submitted_soon_after_can_overtake(seed: int) -> None:
    """Without backfilling, whoever starts before an older job was submitted within size / rate of it."""
    policy = Policy(
        order=Order(source="estimate", ageing="linear", ageing_rate=RATE, guard_s=float("inf")),
        plan=Plan(source="estimate", correction="limit"),
        reserve=Reserve(heads=0, eldest=0, guarded=0, backfill=False),
        preemption=Preemption(mode="none"),
    )
    jobs, told = replayed(policy, COUNTED, seed)
    starts = {each.job_id: each.now_s for each in told if isinstance(each, Started)}
    assert len(starts) == len(jobs)
    for old in jobs.values():
        for new in jobs.values():
            if new.now_s > old.now_s and starts[new.job_id] < starts[old.job_id]:
                assert new.now_s - old.now_s <= (old.estimate_s or 0.0) / RATE

"""Whatever happens, in whatever order: capacity, quotas, gangs, promises and replay hold."""

import json
import os
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from predictor.contracts.decisions import Decision, Preempted, Started
from predictor.contracts.event_codec import decode_events, encode_events
from predictor.contracts.events import (
    Event,
    ForecastUpdated,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobProgressed,
    JobRequeued,
    JobSubmitted,
    NodesChanged,
    PolicyChanged,
    Tick,
)
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.passes import nodes_of
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.presets import PRESETS
from predictor.scheduling.quota import Quota
from predictor.scheduling.siblings import Siblings, sibling_key
from predictor.scheduling.snapshot import restore, snapshot

NOW = 1_800_000_000.0
EVENTS = int(os.environ.get("PREDICTOR__TEST_EVENTS", "20000"))  # continuous integration: 1000000
_LIVES = 4
_MOST_WAITING = 200
POOLS = (
    Pool(name="counted", total=24),
    Pool(name="nodes", node_units=(4, 4, 8, 8), islands=(0, 0, 1, 2), scarcity=1.0),
)
QUOTAS = (Quota(team="a", units=10, borrow=6), Quota(team="a/x", units=6), Quota(team="b", units=20))
POLICIES = {
    **PRESETS,
    "quotas": Policy(name="quotas", quotas=QUOTAS),
    "evicting": Policy(
        name="evicting", quotas=QUOTAS, preemption=Preemption(mode="order", least_runtime_s=60.0)
    ),
}


class RandomLife:
    """Makes random events that fit what a coordinator has decided so far."""

    def __init__(self, seed: int, *, changes: bool = True) -> None:
        self.changes = changes  # of forecasts and classes: they may turn around who comes before whom
        self.random = np.random.default_rng(seed)
        self.now_s = NOW
        self.count = 0
        self.running: list[str] = []
        self.waiting: list[str] = []

    def event(self) -> Event:
        pick = self.random
        self.now_s += float(pick.choice([0.0, 1.0, 30.0, 400.0, 3000.0]))
        kind = int(pick.integers(0, 20))
        now_s = self.now_s
        if kind < 10 and len(self.waiting) < _MOST_WAITING:
            return self._submission()
        if kind < 15 and self.running:
            return JobFinished(now_s=now_s, job_id=str(pick.choice(self.running)))
        if kind == 15 and self.running:
            job_id = str(pick.choice(self.running))
            return (
                JobProgressed(now_s=now_s, job_id=job_id)
                if pick.random() < 0.5
                else JobRequeued(now_s=now_s, job_id=job_id)
            )
        known = self.waiting + self.running
        if kind == 16 and known:
            return JobCancelled(now_s=now_s, job_id=str(pick.choice(known)))
        if kind == 17 and known and self.changes:
            return ForecastUpdated(now_s=now_s, job_id=str(pick.choice(known)), estimate_s=500.0)
        if kind == 18 and self.waiting and self.changes:
            job_id = str(pick.choice(self.waiting))
            return JobChanged(now_s=now_s, job_id=job_id, workload_class=str(pick.choice(_CLASSES)))
        return Tick(now_s=now_s)

    def _submission(self) -> JobSubmitted:
        pick = self.random
        self.count += 1
        takes_s = float(pick.choice([20.0, 300.0, 5000.0, 40_000.0]))
        more: dict[str, Any] = {"quantiles_s": tuple(np.linspace(0.2, 2.0, 23) * takes_s)}
        return JobSubmitted(
            now_s=self.now_s,
            job_id=str(self.count),
            width=int(pick.choice([1, 1, 2, 3, 4, 8, 12, 24])),
            limit_s=takes_s * 3,
            estimate_s=takes_s,
            team=str(pick.choice(["", "a", "a/x", "a/y", "b"])),
            workload_class=str(pick.choice(_CLASSES)),
            nodes=int(pick.choice([0, 0, 0, 2])),
            island=bool(pick.random() < 0.1),
            checkpoint=str(pick.choice(["none", "application", "system"])),
            checkpoint_interval_s=100.0,
            restart_cost_s=10.0,
            **more,
        )

    def learn(self, coordinator: Coordinator) -> None:
        store = coordinator.state.store
        self.waiting = store.job_ids(store.waiting_slots)
        self.running = store.job_ids(store.running_slots)


_CLASSES = ["", "emergency", "production", "background"]


def check(coordinator: Coordinator, decisions: tuple[Decision, ...]) -> None:
    """Assert what must hold after each event."""
    state = coordinator.state
    store, capacity, teams = state.store, state.capacity, state.teams
    held = np.zeros(len(POOLS), dtype=np.int64)
    on_node = np.zeros(len(capacity.node_units), dtype=np.int64)
    for slot in store.running_slots:
        pool, width = int(store.ints[c.POOL, slot]), int(store.ints[c.WIDTH, slot])
        held[pool] += width
        nodes = nodes_of(state, int(slot))
        if capacity.has_nodes(pool):
            assert sum(units for _, units in nodes) == width  # all or nothing
            assert len({node for node, _ in nodes}) == len(nodes)
            for node, units in nodes:
                on_node[capacity.first[pool] + node] += units
    assert np.array_equal(capacity.free, capacity.total - held)
    assert (capacity.free >= 0).all()
    assert np.array_equal(capacity.node_free, capacity.node_units - on_node)
    assert (capacity.node_free >= 0).all()
    assert (teams.used <= teams.most).all()
    assert np.array_equal(teams.used[0], held)
    evictions = store.ints[c.EVICTIONS, np.concatenate([store.waiting_slots, store.running_slots])]
    assert (evictions <= coordinator.policy.preemption.most_evictions).all()
    begun = [each.job_id for each in decisions if isinstance(each, Started)]
    assert len(set(begun)) == len(begun)
    sequence = store.ints[c.SEQUENCE, store.waiting_slots]
    assert (np.diff(sequence) > 0).all()
    _check_siblings(coordinator)


def _check_siblings(coordinator: Coordinator) -> None:
    """Assert that each live job stands in the row of its siblings, in order of submission."""
    state = coordinator.state
    store = state.store
    found = []
    for key, slot in store.last_sibling.items():
        assert store.ints[c.YOUNGER, slot] == -1
        row = [slot]
        while (elder := int(store.ints[c.ELDER, row[-1]])) >= 0:
            assert store.ints[c.YOUNGER, elder] == row[-1]
            assert store.ints[c.BIRTH, elder] < store.ints[c.BIRTH, row[-1]]
            row.append(elder)
        jobs = [state.specs[each] for each in row]
        assert {sibling_key(job) for job in jobs if job is not None} == {key}
        found += row
    assert sorted(found) == sorted(store.slot_of.values())


def live(policy: str, seed: int, steps: int) -> tuple[Coordinator, list[Event], list[tuple[Decision, ...]]]:
    coordinator = Coordinator(POLICIES[policy], POOLS)
    life = RandomLife(seed)
    events, decided = [], []
    for _ in range(steps):
        event = life.event()
        decisions = coordinator.apply(event)
        events.append(event)
        decided.append(decisions)
        check(coordinator, decisions)
        life.learn(coordinator)
    return coordinator, events, decided


FEW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@pytest.mark.parametrize("policy", POLICIES)
@FEW
@given(seed=st.integers(0, 10**6))
def test_capacity_gangs_and_quotas_hold_after_every_event(policy: str, seed: int) -> None:
    """No pool or node is ever overbooked, gangs are whole, no team exceeds what it may hold."""
    live(policy, seed, 120)


@FEW
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(sorted(POLICIES)))
def test_a_replay_of_the_log_decides_as_the_live_coordinator(seed: int, policy: str) -> None:
    coordinator, events, decided = live(policy, seed, 120)
    again = Coordinator(POLICIES[policy], POOLS)
    assert [again.apply(event) for event in decode_events(encode_events(events))] == decided
    assert _document(again) == _document(coordinator)


@FEW
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(sorted(POLICIES)))
def test_a_restored_snapshot_goes_on_as_if_it_had_never_stopped(seed: int, policy: str) -> None:
    coordinator, events, decided = live(policy, seed, 120)
    stopped = Coordinator(POLICIES[policy], POOLS)
    for event in events[:60]:
        stopped.apply(event)
    restored = restore(json.loads(json.dumps(snapshot(stopped), allow_nan=False)))
    assert [restored.apply(event) for event in events[60:]] == decided[60:]
    assert restored.waiting == coordinator.waiting


@FEW
@given(seed=st.integers(0, 10**6), policy=st.sampled_from(sorted(POLICIES)))
def test_what_is_tried_leaves_no_trace(seed: int, policy: str) -> None:
    coordinator, events, _ = live(policy, seed, 80)
    before = _document(coordinator)
    last_s = events[-1].now_s
    document = policy_document(POLICIES["fifo"])
    coordinator.what_if(
        [
            JobSubmitted(now_s=last_s, job_id="new", width=2, workload_class="emergency"),
            NodesChanged(now_s=last_s, pool="counted", total=12),
            PolicyChanged(now_s=last_s, policy=document),
        ]
    )
    with coordinator.trial() as trial:
        trial.apply(Tick(now_s=last_s + 1e6))
    assert _document(coordinator) == before


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("correlation", "seed"), [*((0.0, seed) for seed in range(_LIVES)), (0.65, 0)])
def test_no_job_is_evicted_in_circles(correlation: float, seed: int) -> None:
    """Over many random events each job stays below its bound; while no forecast changes, no two jobs evict
    each other.
    """
    rules = Preemption(mode="order", least_runtime_s=0.0, backoff_s=0.0, per_hour=10**6, most_evictions=5)
    siblings = Siblings(correlation=correlation)
    coordinator = Coordinator(Policy(quotas=QUOTAS, preemption=rules, siblings=siblings), POOLS)
    life = RandomLife(seed, changes=False)
    evicted_by: dict[str, set[str]] = {}
    count: dict[str, int] = {}
    for _ in range(EVENTS // _LIVES):
        for each in coordinator.apply(life.event()):
            if isinstance(each, Preempted):
                evicted_by.setdefault(each.job_id, set()).add(each.for_job)
                count[each.job_id] = count.get(each.job_id, 0) + 1
        life.learn(coordinator)
    assert count
    assert max(count.values()) <= 5
    in_turn = [
        job for job, others in evicted_by.items() for other in others if job in evicted_by.get(other, ())
    ]
    assert correlation > 0 or not in_turn


def _document(coordinator: Coordinator) -> str:
    return json.dumps(snapshot(coordinator), allow_nan=False)

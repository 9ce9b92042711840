"""This module plays on from a snapshot of a live queue: who would start when, under this or another policy.

Nobody knows how long the jobs of a live queue will run. They are played with the median of their forecasts,
running ones with the median of what is left given the time they have run.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from predictor.contracts.events import PolicyChanged
from predictor.errors import EmptyInputError
from predictor.scheduling import columns as c
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.expected import whole_duration_s, work_done_s
from predictor.scheduling.parameters import FROM_FORECAST
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document
from predictor.scheduling.remaining import remaining_s
from predictor.scheduling.snapshot import restore
from predictor.simulation.arrivals import Arrivals
from predictor.simulation.engine import Player, Progress
from predictor.simulation.result import SimulationResult
from predictor.simulation.trace import Trace

_MEDIAN = 0.5


def play_on(
    document: Mapping[str, Any], policy: Policy | None, *, progress: Progress | None = None
) -> SimulationResult:
    """Play the jobs of a snapshot to their ends, with no new ones coming.

    Args:
        document: as ``scheduling.snapshot`` makes it.
        policy: holds from the moment of the snapshot on; None = the snapshot's own.

    Raises:
        FormatError: the document is no snapshot.
        EmptyInputError: there are no jobs in it.
    """
    coordinator = restore(document)
    state, store = coordinator.state, coordinator.state.store
    now_s = state.now_s
    slots = [*store.running_slots.tolist(), *store.waiting_slots.tolist()]
    if not slots:
        raise EmptyInputError("the snapshot holds no jobs: nothing waits and nothing runs")
    trace = _trace(coordinator, slots)
    player = Player(coordinator, trace, Arrivals(trace, first=len(trace)), ())
    for job, slot in enumerate(slots[: store.n_running]):
        player.evictions[job] = int(store.ints[c.EVICTIONS, slot])
        if store.ints[c.STATE, slot] == c.RUNNING:
            left_s = trace.work_s[job] - work_done_s(store.floats, store.ints, slot, now_s)
            start_s, pool = float(store.floats[c.START, slot]), int(store.ints[c.POOL, slot])
            player.has_been_running(job, start_s, now_s + float(left_s), pool)
    for job, slot in enumerate(slots[store.n_running :], start=store.n_running):
        player.evictions[job] = int(store.ints[c.EVICTIONS, slot])
    began_s = time.process_time()
    if policy is not None:
        change = PolicyChanged(now_s=now_s, policy=policy_document(policy))
        player.obey_all(coordinator.apply(change), now_s)
    player.play(progress)
    name = coordinator.policy.name if policy is None else policy.name
    return player.result(name, time.process_time() - began_s)


def _trace(coordinator: Coordinator, slots: list[int]) -> Trace:
    """Return the jobs of a Coordinator, with medians in place of what nobody knows."""
    state, store = coordinator.state, coordinator.state.store
    floats, ints, logs = store.floats, store.ints, store.log_quantiles
    work_s = []
    for slot in slots:
        if ints[c.STATE, slot] == c.WAITING:
            done_s = float(floats[c.SAVED, slot])
            left_s = whole_duration_s(floats, logs, slot, FROM_FORECAST, _MEDIAN, done_s)
        else:
            done_s = work_done_s(floats, ints, slot, state.now_s)
            left_s = remaining_s(logs[slot], float(floats[c.LIMIT, slot]), done_s, _MEDIAN)
        work_s.append(done_s + left_s)
    jobs = [job for slot in slots if (job := state.specs[slot]) is not None]
    deadlines = [np.nan if job.deadline_s is None else job.deadline_s for job in jobs]
    return Trace(
        job_ids=tuple(job.job_id for job in jobs),
        rows=np.arange(len(jobs)),
        submitted_s=floats[c.SUBMIT, slots].copy(),
        work_s=np.array(work_s),
        limit_s=floats[c.LIMIT, slots].copy(),
        width=ints[c.WIDTH, slots].copy(),
        timed_out=np.zeros(len(jobs), dtype=bool),
        user=tuple(job.user for job in jobs),
        workload_class=tuple(job.workload_class for job in jobs),
        gpu_type=tuple(job.gpu_type for job in jobs),
        region=tuple(job.region for job in jobs),
        checkpoint=tuple(job.checkpoint for job in jobs),
        deadline_s=np.array(deadlines, dtype=np.float64),
        preemptible=np.array([-1 if job.preemptible is None else int(job.preemptible) for job in jobs]),
        checkpoint_interval_s=np.array([job.checkpoint_interval_s for job in jobs]),
        restart_cost_s=np.array([job.restart_cost_s for job in jobs]),
        left_out={},
    )

"""This module measures the scheduler: re-scoring a million jobs, jobs per second, many random events.

``python benchmarks/scheduling.py [--json OUT] [--jobs N] [--events N]`` prints CPU times.
"""

import argparse
import heapq
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from predictor.contracts.decisions import Preempted, Started
from predictor.contracts.events import Event, JobFinished, JobSubmitted, Tick
from predictor.contracts.forecast import LEVELS
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.parameter_vector import parameter_vector
from predictor.scheduling.policy import Policy
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.presets import preset
from predictor.scheduling.priority import first_in_order, rank_and_key

WAITING = 1_000_000
CHOSEN = 256
NOW = 1_800_000_000.0
REPEATS = 9


def rescore() -> dict[str, float]:
    """Return CPU milliseconds to re-score a million waiting jobs and choose the next 256."""
    generator = np.random.default_rng(0)
    floats = np.full((c.FLOATS, WAITING), np.nan)
    ints = np.zeros((c.INTS, WAITING), dtype=np.int64)
    floats[c.SUBMIT] = np.sort(NOW - generator.uniform(0, 86_400, WAITING))
    floats[c.SIZE] = generator.lognormal(7, 2, WAITING)
    floats[c.PLAN] = floats[c.SIZE]
    ints[c.WIDTH] = generator.integers(1, 9, WAITING)
    ints[c.TEAM] = generator.integers(0, 100, WAITING)
    queue = np.arange(WAITING)
    share = generator.uniform(0.5, 2.0, 100)
    numbers = parameter_vector(preset("ours"))
    ranks, keys = np.empty(WAITING, dtype=np.int64), np.empty(WAITING)

    def compiled() -> None:
        differ = rank_and_key(floats, ints, queue, WAITING, NOW, numbers, share, 1e9, ranks, keys)
        first_in_order(keys, ranks, WAITING, CHOSEN, differ, False)

    def plain() -> None:
        order = preset("ours").order
        wait_s = NOW - floats[c.SUBMIT]
        aged = (1 + wait_s / order.ageing_tau_s) ** order.ageing_power
        np.argpartition(floats[c.SIZE] * share[ints[c.TEAM]] / aged, CHOSEN)

    return {"compiled_ms": median_ms(compiled), "numpy_partition_ms": median_ms(plain)}


def median_ms(measured: Callable[[], None]) -> float:
    """Return the median CPU time of a call in milliseconds, after one to warm up."""
    measured()
    spent = []
    for _ in range(REPEATS):
        begin = time.process_time()
        measured()
        spent.append((time.process_time() - begin) * 1e3)
    return float(np.median(spent))


def jobs_per_second(policy: Policy, pool: Pool, jobs: int, load: float) -> dict[str, float]:
    """Return CPU jobs per second of a whole simulated life: submissions, ends, wake-ups, passes."""
    generator = np.random.default_rng(1)
    widths = np.minimum(2 ** generator.integers(0, 7, jobs), pool.total)
    runs_s = np.minimum(generator.lognormal(7, 1.8, jobs), 86_400.0) + 1
    gap_s = float((widths * runs_s).sum()) / jobs / (load * pool.total)
    submits_s = NOW + np.cumsum(generator.exponential(gap_s, jobs))
    spread = np.exp(np.linspace(-1.5, 1.5, len(LEVELS)))
    coordinator = Coordinator(policy, [pool])
    ends: list[tuple[float, int]] = []
    submitted, done = 0, 0
    begin = time.process_time()
    while done < jobs:
        next_s = float(submits_s[submitted]) if submitted < jobs else np.inf
        at_s = min(ends[0][0] if ends else np.inf, next_s, coordinator.next_wakeup_s())
        events: list[Event] = []
        while ends and ends[0][0] <= at_s:
            events.append(JobFinished(now_s=at_s, job_id=str(heapq.heappop(ends)[1])))
            done += 1
        while submitted < jobs and submits_s[submitted] <= at_s:
            events.append(
                JobSubmitted(
                    now_s=at_s,
                    job_id=str(submitted),
                    width=int(widths[submitted]),
                    limit_s=float(runs_s[submitted] * 5),
                    quantiles_s=tuple((runs_s[submitted] * spread).tolist()),
                )
            )
            submitted += 1
        for each in coordinator.apply_all(events or [Tick(now_s=at_s)]):
            if isinstance(each, Started):
                job = int(each.job_id)
                heapq.heappush(ends, (at_s + float(runs_s[job]), job))
    spent_s = time.process_time() - begin
    return {"jobs": jobs, "cpu_s": spent_s, "jobs_per_s": jobs / spent_s}


def eviction_cycles(events: int) -> dict[str, float]:
    """Return evictions, most of one job, and pairs that evicted each other, over so many random events."""
    rules = Preemption(mode="order", least_runtime_s=0.0, backoff_s=0.0, per_hour=10**6, most_evictions=5)
    coordinator = Coordinator(Policy(preemption=rules), [Pool(name="gpu", total=64)])
    generator = np.random.default_rng(2)
    classes = ["", "", "emergency", "production", "background"]
    evicted_by: dict[str, set[str]] = {}
    times: dict[str, int] = {}
    now_s = NOW
    for k in range(events):
        now_s += float(generator.exponential(60.0))
        store = coordinator.state.store
        event: Event
        if store.n_running and (generator.random() < 0.5 or store.n_queue > 200):
            slot = int(store.running_slots[generator.integers(store.n_running)])
            event = JobFinished(now_s=now_s, job_id=store.ids[slot])
        else:
            takes_s = float(generator.lognormal(7, 2)) + 1
            event = JobSubmitted(
                now_s=now_s,
                job_id=str(k),
                width=int(2 ** generator.integers(0, 6)),
                limit_s=takes_s * 4,
                estimate_s=takes_s,
                workload_class=str(generator.choice(classes)),
            )
        for each in coordinator.apply(event):
            if isinstance(each, Preempted):
                evicted_by.setdefault(each.job_id, set()).add(each.for_job)
                times[each.job_id] = times.get(each.job_id, 0) + 1
    pairs = sum(job in evicted_by.get(other, ()) for job, others in evicted_by.items() for other in others)
    most = max(times.values(), default=0)
    return {"events": events, "evictions": sum(times.values()), "most_of_one_job": most, "cycles": pairs}


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    counted = Pool(name="cpu", total=1024)
    nodes = Pool(name="gpu", node_units=(8,) * 128)
    for name in ("easy", "ours"):  # compile before measuring
        for pool in (counted, nodes):
            jobs_per_second(preset(name), pool, 200, 0.9)
    results = {
        "rescore_1m_choose_256": rescore(),
        "easy_1024_counted": jobs_per_second(preset("easy"), counted, options.jobs, 0.85),
        "ours_1024_counted": jobs_per_second(preset("ours"), counted, options.jobs, 0.85),
        "easy_128_nodes_of_8": jobs_per_second(preset("easy"), nodes, options.jobs, 0.85),
        "ours_128_nodes_of_8": jobs_per_second(preset("ours"), nodes, options.jobs, 0.85),
        "random_events": eviction_cycles(options.events),
    }
    for name, figures in results.items():
        print(f"{name:28}" + "  ".join(f"{key} {value:,.1f}" for key, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

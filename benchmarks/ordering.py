"""This module measures how long it takes to re-score a million waiting jobs and to choose the next 256.

::

    python benchmarks/ordering.py [--waiting 1000000] [--choose 256] [--seed 0] [--json OUT]

Beside the compiled pass: numpy with a partition, and a plain Python loop with a heap, on the same jobs. CPU
times, medians of several calls; the aim is 30 ms.
"""

import argparse
import heapq
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from predictor.scheduling import columns as c
from predictor.scheduling.parameter_vector import parameter_vector
from predictor.scheduling.policy import Policy
from predictor.scheduling.priority import first_in_order, rank_and_key

NOW_S = 1_800_000_000.0
REPEATS = 9
TEAMS = 100
UNITS = 4096
AIM_MS = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--choose", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    spent_ms = measure(options.waiting, options.choose, options.seed)
    ours_ms = spent_ms["compiled pass"]
    table = Table("way", "CPU ms", "over the compiled pass")
    for name, took_ms in spent_ms.items():
        table.add_row(name, f"{took_ms:,.1f}", f"{took_ms / ours_ms:,.1f}")
    Console().print(
        f"{options.waiting:,} waiting jobs re-scored, {options.choose} chosen; aim {AIM_MS:.0f} ms; "
        f"seed {options.seed}, {os.cpu_count()} cores",
        table,
    )
    if options.json is not None:
        options.json.write_text(json.dumps(spent_ms, indent=2) + "\n", encoding="utf-8")


def measure(waiting: int, choose: int, seed: int) -> dict[str, float]:
    """Return CPU milliseconds of each way."""
    generator = np.random.default_rng(seed)
    floats = np.full((c.FLOATS, waiting), np.nan)
    ints = np.zeros((c.INTS, waiting), dtype=np.int64)
    floats[c.SUBMIT] = np.sort(NOW_S - generator.uniform(0, 2 * 86_400, waiting))
    floats[c.SIZE] = generator.lognormal(7, 2, waiting)
    floats[c.PLAN] = floats[c.SIZE]
    floats[c.BACKLOG] = generator.uniform(0, 86_400, waiting)
    ints[c.WIDTH] = generator.integers(1, 9, waiting)
    ints[c.TEAM] = generator.integers(0, TEAMS, waiting)
    queue = np.arange(waiting)
    share = generator.uniform(0.5, 2.0, TEAMS)
    order = Policy().order
    numbers = parameter_vector(Policy())
    ranks, keys = np.empty(waiting, dtype=np.int64), np.empty(waiting)
    submits_s, sizes, teams = floats[c.SUBMIT].tolist(), floats[c.SIZE].tolist(), ints[c.TEAM].tolist()
    shares = share.tolist()

    def compiled() -> None:
        differ = rank_and_key(floats, ints, queue, waiting, NOW_S, numbers, share, UNITS, ranks, keys)
        first_in_order(keys, ranks, waiting, choose, differ, False)

    def partition() -> None:
        aged = (1 + (NOW_S - floats[c.SUBMIT]) / order.ageing_tau_s) ** order.ageing_power
        np.argpartition(floats[c.SIZE] * share[ints[c.TEAM]] / aged, choose)

    def loop() -> None:
        tau_s = order.ageing_tau_s
        heapq.nsmallest(
            choose,
            (
                (size * shares[team] / (1 + (NOW_S - submit_s) / tau_s), k)
                for k, (size, team, submit_s) in enumerate(zip(sizes, teams, submits_s, strict=True))
            ),
        )

    return {
        "compiled pass": median_ms(compiled),
        "numpy with a partition": median_ms(partition),
        "Python loop with a heap": median_ms(loop, 3),
    }


def median_ms(measured: Callable[[], None], repeats: int = REPEATS) -> float:
    """Return the median CPU time of a call in milliseconds, after one to warm up."""
    measured()
    spent = []
    for _ in range(repeats):
        begin = time.process_time()
        measured()
        spent.append((time.process_time() - begin) * 1e3)
    return float(np.median(spent))


if __name__ == "__main__":
    main()

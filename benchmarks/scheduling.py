"""This module measures scheduling policies on public logs: the tables of docs/results/scheduling.md.

::

    python benchmarks/scheduling.py STUDY --table LOG.parquet [--forecasts LOG.npz] [--json OUT]

STUDY is ``kth``, ``philly`` (virtual cluster 11cb48, October and November 2017, 8 nodes of 8 GPUs),
``log`` (any log, on as many units as make a load of 0.9; see ``--part``, ``--queue``, ``--stretch``),
``load`` (KTH-SP2 at loads of 0.6 to 1.1), ``noise`` (KTH-SP2, ours with estimates from the true run time to
the user's limit), ``preemption`` (the Philly jobs at a load of 0.7) or ``preemption-kth`` (KTH-SP2), both
with 5 % emergencies where a third of the jobs cannot be resumed, a third checkpoints every 10 to 60 minutes
and a third is saved by the system.
Without --forecasts they are made and kept in runs/forecasts.
"""

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd

from pipelines.simulation_forecasts import forecasts_of, read_forecasts
from pipelines.simulation_mix import mixed
from predictor.contracts.events import CHECKPOINT_KINDS
from predictor.data.clusters.example_files import load_cluster
from predictor.data.table import read_table
from predictor.scheduling.capacity import Pool
from predictor.scheduling.cluster_pools import cluster_pools
from predictor.simulation.engine import simulate
from predictor.simulation.forecasts import expected_s
from predictor.simulation.policies import NAMES, Contender, arrivals_for, contenders
from predictor.simulation.report import score
from predictor.simulation.trace import FloatArray, Trace, build_trace

STUDIES = ("kth", "philly", "log", "load", "noise", "preemption", "preemption-kth")
LOADS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
BLENDS = (0.0, 0.25, 0.5, 0.75, 1.0)
KEPT_S, EMERGENCIES = 600.0, 0.05
Case = tuple[str, Trace, tuple[Pool, ...], Contender]
PLAIN = "easy,easy-pp,sjf-oracle,ours"
IN_ORDER = "ours:preemption.mode=order:order.by=gittins"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--forecasts", type=Path)
    parser.add_argument("--units", choices=("cpus", "gpus"), default="cpus", help="of the study 'log'")
    parser.add_argument("--queue", default="", help="only jobs of this queue or virtual cluster")
    parser.add_argument(
        "--stretch",
        action="store_true",
        help="submissions closer together or further apart, to a load of 0.9",
    )
    parser.add_argument(
        "--part", type=float, nargs=2, default=(0.0, 1.0), help="part of the log, such as 0.5 0.6"
    )
    parser.add_argument("--policy", default="", help="policies other than those of the study")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    frame = read_table(options.table)
    if options.forecasts is None:
        quantiles_s = forecasts_of(
            frame,
            Path("runs/forecasts"),
            seed=options.seed,
            progress=lambda step, _part: print(step, flush=True),
        )
    else:
        quantiles_s = read_forecasts(options.forecasts, frame)
    rows = []
    print(
        "| case | wait s | p95 | p99 | max | slowdown | util | evicted | lost h | made | kept | error s |",
        flush=True,
    )
    for case, trace, pools, contender in cases(options, frame):
        row = {"case": case, **measure(trace, pools, contender, quantiles_s)}
        rows.append(row)
        print("| " + " | ".join(f"{each:,.4g}" if isinstance(each, float) and abs(each) < 100 else
              f"{each:,.0f}" if isinstance(each, float | int) else each for each in row.values()) + " |",
              flush=True)  # fmt: skip
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def measure(
    trace: Trace, pools: tuple[Pool, ...], contender: Contender, quantiles_s: FloatArray
) -> dict[str, float | int]:
    mine = quantiles_s[trace.rows]
    result = simulate(trace, pools, contender.policy, arrivals_for(contender, trace, mine, expected_s(mine)))
    if len(trace) != int((result.outcome > 0).sum()):
        raise SystemExit("jobs were lost")
    scores = score(result)
    urgent = np.array(trace.workload_class) == "emergency"
    row: dict[str, float | int] = {
        "wait": scores.mean_wait_s, "p95": scores.p95_wait_s, "p99": scores.p99_wait_s,
        "max": scores.max_wait_s,
        "slowdown": scores.mean_bounded_slowdown, "utilisation": scores.utilisation,
        "evicted": scores.preemptions, "lost_h": scores.lost_gpu_h, "made": scores.promises.made,
        "kept": scores.promises.coverage_q90, "error_s": scores.promises.median_abs_error_s,
    }  # fmt: skip
    if urgent.any():
        row["urgent_p95"] = float(np.quantile(result.wait_s[urgent & result.completed], 0.95))
    return row


def cases(options: argparse.Namespace, frame: pd.DataFrame) -> Iterator[Case]:
    study, names = options.study, options.policy
    if study in ("philly", "preemption"):
        yield from _philly(study, names, frame, options.seed)
        return
    trace = build_trace(frame, units=options.units, queue=options.queue)
    first, last = (int(part * len(trace)) for part in options.part)
    trace = trace.take(slice(first, last))
    if study == "preemption-kth":
        yield from _preemption(trace, cluster_pools(load_cluster("kth-sp2")), names, options.seed)
        return
    if study == "log":
        pools: tuple[Pool, ...] = (Pool(name=options.units, total=trace.units_for(0.9)),)
        if options.stretch:
            trace = trace.at_load(0.9, pools[0].total)
        for each in contenders(names or PLAIN):
            yield each.name, trace, pools, each
        return
    pools = cluster_pools(load_cluster("kth-sp2"))
    if study == "kth":
        for each in contenders(names or ",".join(NAMES)):
            yield each.name, trace, pools, each
    elif study == "load":
        for load in LOADS:
            for each in contenders(names or PLAIN):
                yield f"{load} {each.name}", trace.at_load(load, pools[0].total), pools, each
    else:
        (ours,) = contenders(names or "ours")
        for blend in BLENDS:
            yield f"blend {blend}", trace, pools, replace(ours, knows="blend", blend=blend)
        yield "forecast", trace, pools, ours


def _philly(study: str, names: str, frame: pd.DataFrame, seed: int) -> Iterator[Case]:
    span = [pd.Timestamp(day, tz="UTC").timestamp() for day in ("2017-10-01", "2017-12-01")]
    trace = build_trace(frame, units="gpus", queue="11cb48", from_s=span[0], to_s=span[1])
    pools = cluster_pools(load_cluster("philly-11cb48"))
    kept = mixed(trace, pools, checkpoint_s=KEPT_S, restart_cost_s=60.0, emergencies=0.0, seed=seed)
    if study == "philly":
        for each in contenders(names or "fifo,easy,easy-pp,sjf-oracle,qssf,ours"):
            yield each.name, trace, pools, each
        for each in contenders(names or f"{IN_ORDER},las,srtf-oracle"):
            yield f"{each.name}, checkpoints", kept, pools, each
        return
    yield from _preemption(trace.at_load(0.7, pools[0].total), pools, names, seed)


def _preemption(trace: Trace, pools: tuple[Pool, ...], names: str, seed: int) -> Iterator[Case]:
    mix = mixed(trace, pools, checkpoint_s=None, restart_cost_s=60.0, emergencies=EMERGENCIES, seed=seed)
    random = np.random.default_rng(seed)
    mix = replace(
        mix,
        checkpoint=tuple(random.choice(CHECKPOINT_KINDS, len(mix)).tolist()),
        checkpoint_interval_s=random.uniform(600.0, 3600.0, len(mix)),
    )
    for each in contenders(names or "easy,ours:preemption.mode=none,ours,ours:preemption.victim=youngest"):
        yield each.name, mix, pools, each


if __name__ == "__main__":
    main()

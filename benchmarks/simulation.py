"""This module measures how many jobs per second the simulator plays, by CPU time.

::

    python benchmarks/simulation.py [--table kth.parquet] [--jobs 1000000] [--seed 0] [--json OUT]

With ``--table`` (the canonical KTH-SP2 log) EASY and ours are timed on its 28,481 jobs and 100
processors; the aims are 15,000 and 2,500 jobs per second. Always, a generated log of ``--jobs`` jobs is
played with EASY on 256 nodes of 8 GPUs with places on nodes, and the growth of peak memory per job is
told.
"""

import argparse
import json
import os
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from rich.console import Console
from rich.table import Table

from pipelines.simulation_forecasts import forecasts_of, read_forecasts
from predictor.data.clusters.example_files import load_cluster
from predictor.data.table import read_table
from predictor.scheduling.capacity import Pool
from predictor.scheduling.cluster_pools import cluster_pools
from predictor.simulation.arrivals import Arrivals
from predictor.simulation.engine import simulate
from predictor.simulation.policies import arrivals_for, contenders
from predictor.simulation.trace import Trace, build_trace

AIMS = {"easy": 15_000.0, "ours": 2_500.0}
NODES, GPUS = 256, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One simulation: CPU seconds, wall seconds, and bytes of peak memory that it added per job."""

    name: str
    jobs: int
    cpu_s: float
    wall_s: float
    bytes_per_job: float
    aim: float | None = None

    @property
    def per_second(self) -> float:
        """Jobs per CPU second."""
        return self.jobs / self.cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, help="canonical table of KTH-SP2")
    parser.add_argument("--forecasts", type=Path, help="its forecasts; made where absent")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    speeds = []
    if options.table is not None:
        speeds += kth(options.table, options.forecasts, options.seed)
    trace = generated(options.jobs, options.seed)
    pools = (Pool(name="gpu", node_units=(GPUS,) * NODES, gpu_type="a100"),)
    (easy,) = contenders("easy")
    few = trace.take(slice(0, 200))
    simulate(few, pools, easy.policy, Arrivals(few))
    speeds.append(timed("easy, on nodes", trace, pools, "easy"))
    table = Table("simulation", "jobs", "CPU s", "wall s", "jobs/CPU s", "aim", "bytes/job")
    for speed in speeds:
        aim = "" if speed.aim is None else f"{speed.aim:,.0f}"
        table.add_row(
            speed.name, f"{speed.jobs:,}", f"{speed.cpu_s:.1f}", f"{speed.wall_s:.1f}",
            f"{speed.per_second:,.0f}", aim, f"{speed.bytes_per_job:,.0f}",
        )  # fmt: skip
    Console().print(f"seed {options.seed}, {os.cpu_count()} cores", table)
    if options.json is not None:
        rows = [asdict(speed) | {"per_second": speed.per_second} for speed in speeds]
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def kth(path: Path, forecasts: Path | None, seed: int) -> list[Speed]:
    frame = read_table(path)
    if forecasts is None:
        quantiles_s = forecasts_of(
            frame, Path("runs/forecasts"), seed=seed, progress=lambda _step, _part: None
        )
    else:
        quantiles_s = read_forecasts(forecasts, frame)
    trace = build_trace(frame, units="cpus")
    pools = cluster_pools(load_cluster("kth-sp2"))
    few = trace.take(slice(0, 200))
    for name in AIMS:
        (contender,) = contenders(name)
        simulate(few, pools, contender.policy, Arrivals(few))  # loads compiled code
    return [timed(name, trace, pools, name, quantiles_s[trace.rows]) for name in AIMS]


def timed(
    label: str, trace: Trace, pools: tuple[Pool, ...], name: str, quantiles_s: np.ndarray | None = None
) -> Speed:
    (contender,) = contenders(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    result = simulate(trace, pools, contender.policy, arrivals_for(contender, trace, quantiles_s))
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if int(result.completed.sum()) != len(trace):
        raise SystemExit(f"{label}: {int(result.completed.sum())} of {len(trace)} jobs came out")
    return Speed(
        name=label, jobs=len(trace), cpu_s=cpu_s, wall_s=wall_s,
        bytes_per_job=grown * 1024 / len(trace), aim=AIMS.get(label),
    )  # fmt: skip


def generated(n: int, seed: int) -> Trace:
    """Return n GPU jobs whose offered load is 0.8 on the nodes of this benchmark."""
    draw = np.random.default_rng(seed)
    work_s = np.ceil(draw.lognormal(6.5, 1.8, n))
    width = draw.choice((1, 2, 4, 8, 16, 32), n, p=(0.62, 0.12, 0.1, 0.12, 0.03, 0.01))
    trace = Trace(
        job_ids=tuple(map(str, range(n))),
        rows=np.arange(n),
        submitted_s=np.cumsum(draw.exponential(1.0, n)),
        work_s=work_s,
        limit_s=np.ceil(work_s * draw.uniform(1.0, 8.0, n)),
        width=width,
        timed_out=np.zeros(n, dtype=bool),
        user=tuple(f"u{each}" for each in draw.integers(0, 200, n).tolist()),
        workload_class=("",) * n,
        gpu_type=("",) * n,
        region=("",) * n,
        checkpoint=("none",) * n,
        deadline_s=np.full(n, np.nan),
        preemptible=np.full(n, -1),
        checkpoint_interval_s=np.zeros(n),
        restart_cost_s=np.zeros(n),
        left_out={},
    )
    return trace.at_load(0.8, NODES * GPUS)


if __name__ == "__main__":
    main()

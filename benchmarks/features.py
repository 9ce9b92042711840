"""This module measures the as-of history features of a whole log, by wall clock and by CPU time.

::

    python benchmarks/features.py [--rows 1000000] [--seed 0] [--json OUT]

One generated log is played with all ten kinds of keys, and once more without account, queue and CPU count,
which leaves six kinds, as in most public logs, and the places in sweeps; beside pandas ``groupby().shift()``
over the keys of the request in the same run. That yardstick computes one reading instead of all of them, and
a wrong one: the last *submitted* job may still be running. It is here as the least that a table library asks
for touching these keys, so that a slow machine shows as a slow yardstick.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from predictor.data.synthetic import WorkloadSpec, generate
from predictor.features.history import HistoryStore
from predictor.features.history_kernel import READINGS
from predictor.features.keys import KEY_KINDS, REQUEST_KINDS, KeyKind, KeyNumbers
from predictor.features.request import TEXTS, RequestColumns, request_columns

SIX_KINDS = ("user", "template", "shape", "limit", "name", "site")
TARGET_SIX_S = 20.0
ROWS_PER_DAY = 2740  # a million jobs in a year


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Cost of one piece of work on the whole log; ``ratio`` is its CPU time over that of its yardstick."""

    name: str
    kinds: int
    readings: int
    wall_s: float
    cpu_s: float
    ratio: float | None = None


def timed(name: str, kinds: int, readings: int, work: Callable[[], object]) -> Timing:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Timing(
        name=name, kinds=kinds, readings=readings,
        wall_s=time.perf_counter() - wall_s, cpu_s=time.process_time() - cpu_s,
    )  # fmt: skip


def with_six_kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the log without what three kinds of keys need; a job that lacks it has no such key."""
    return frame.assign(
        account=frame["account"].mask(frame["account"].notna()),
        queue=frame["queue"].mask(frame["queue"].notna()),
        requested_cpus=np.nan,
    )


def number_keys(requests: RequestColumns) -> None:
    """Number all keys without playing anything: the part of the cost that is tables, not events."""
    KeyNumbers().number(requests)


def shift_all(frame: pd.DataFrame, requests: RequestColumns, kinds: tuple[KeyKind, ...]) -> None:
    """Give every job the duration of the job before it with the same key, by pandas, kind by kind."""
    columns = sorted({column for kind in kinds for column in kind.columns})
    table = pd.DataFrame(
        {column: requests.text(column) if column in TEXTS else requests.number(column) for column in columns}
    )
    table["elapsed_s"] = frame["elapsed_s"].to_numpy(dtype=np.float64)
    for kind in kinds:
        table.groupby(list(kind.columns), dropna=False, sort=False)["elapsed_s"].shift()


def measure(rows: int, seed: int) -> list[Timing]:
    spec = WorkloadSpec(
        jobs=rows, days=max(rows / ROWS_PER_DAY, 7.0), users=300, requeue=False, random_state=seed
    )
    frame = generate(spec).frame
    six = tuple(kind for kind in KEY_KINDS if kind.name in SIX_KINDS)
    HistoryStore().sweep_log(frame.head(100))  # compiles
    fewer = with_six_kinds(frame)
    requests = request_columns(frame)
    number_keys(requests)  # the first pass over a million texts pays for their cache misses
    shift_nine = timed(
        "pandas groupby.shift", len(REQUEST_KINDS), 1, lambda: shift_all(frame, requests, REQUEST_KINDS)
    )
    shift_six = timed("pandas groupby.shift", len(six), 1, lambda: shift_all(frame, requests, six))
    lift = timed("lift columns out of the table", 0, 0, lambda: request_columns(frame))
    number = timed("number the keys", len(REQUEST_KINDS), 0, lambda: number_keys(requests))
    nine = timed("as-of history", len(KEY_KINDS), len(READINGS), lambda: HistoryStore().sweep_log(frame))
    of_six = timed("as-of history", len(six), len(READINGS), lambda: HistoryStore().sweep_log(fewer))

    def against(timing: Timing, yardstick: Timing) -> Timing:
        return Timing(**{**asdict(timing), "ratio": timing.cpu_s / yardstick.cpu_s})

    return [shift_six, shift_nine, against(of_six, shift_six), against(nine, shift_nine), lift, number]


def show(timings: list[Timing], rows: int, seed: int) -> None:
    table = Table(title=f"{rows:,} rows, seed {seed}, {os.cpu_count()} cores", title_justify="left")
    for head in ("work", "key kinds", "readings per kind", "wall s", "CPU s", "CPU / shift"):
        table.add_column(head, justify="left" if head == "work" else "right")
    for item in timings:
        ratio = "" if item.ratio is None else f"{item.ratio:.1f}"
        table.add_row(
            item.name,
            str(item.kinds or ""),
            str(item.readings or ""),
            f"{item.wall_s:.1f}",
            f"{item.cpu_s:.1f}",
            ratio,
        )
    Console(width=110).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the as-of history features of a generated log.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="jobs of the generated log")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated log")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results there as JSON, too")
    options = parser.parse_args()
    if options.rows < 1000:
        parser.error(f"--rows {options.rows}: give at least 1000, less measures nothing")
    timings = measure(options.rows, options.seed)
    show(timings, options.rows, options.seed)
    six = next(item for item in timings if item.kinds == len(SIX_KINDS) and item.readings > 1)
    met = "met" if six.wall_s < TARGET_SIX_S else "missed"
    print(f"six kinds, a million rows: {TARGET_SIX_S:.0f} s wall at most; here {six.wall_s:.1f} s: {met}")
    if options.json is not None:
        found = {
            "rows": options.rows, "seed": options.seed, "cores": os.cpu_count(),
            "timings": [asdict(item) for item in timings],
        }  # fmt: skip
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

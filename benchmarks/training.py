"""This module measures the training of the duration model on a long log, beside plain LightGBM.

::

    python benchmarks/training.py [--rows 1000000] [--seed 0] [--max-rows 100000] [--budget-s 300] \\
        [--json OUT]

Training is timed with its default settings, where at most 40,000 rows are fitted after bursts are thinned,
and once more with ``--max-rows``. Plain LightGBM (the learned baseline of every backtest) is fitted on all
finished jobs of the same log, and on as many as ours was. The second training is left out when the first
says that it would not end within ``--budget-s``.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from predictor.data.synthetic import WorkloadSpec, generate
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.baselines import plain_lightgbm
from predictor.forecasting.duration import DurationSettings
from predictor.forecasting.sampling import thin_bursts
from predictor.forecasting.training import TrainingLog, prepare_log, train_duration, train_on_log

ROWS_PER_DAY = 2740  # a million jobs in a year
STEPS = ("fit for calibration", "calibrate", "fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Cost of one piece of work on so many jobs; ``ratio`` is its wall time over that of its yardstick."""

    name: str
    rows: int
    wall_s: float
    cpu_s: float
    ratio: float | None = None


def timed(name: str, rows: int, work: Callable[[], object]) -> Timing:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Timing(
        name=name, rows=rows, wall_s=time.perf_counter() - wall_s, cpu_s=time.process_time() - cpu_s
    )


class Stopwatch:
    """Turns the progress that training tells into the seconds of its steps."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float, float]] = []

    def __call__(self, step: str, _share: float) -> None:
        self.marks.append((step, time.perf_counter(), time.process_time()))

    def timings(self, label: str, rows: int) -> list[Timing]:
        return [
            Timing(name=f"{label}: {step}", rows=rows, wall_s=later[1] - wall_s, cpu_s=later[2] - cpu_s)
            for (step, wall_s, cpu_s), later in zip(self.marks, self.marks[1:], strict=False)
            if step in STEPS
        ]


def fitted_rows(log: TrainingLog, cut_s: float, settings: DurationSettings) -> int:
    """Return how many rows are left to fit after bursts are thinned."""
    with np.errstate(invalid="ignore"):
        ran = np.flatnonzero((log.outcomes.start_s < cut_s) & (log.outcomes.elapsed_s > 0))
    sample = thin_bursts(
        log.bursts[ran], log.outcomes.submitted_s[ran], keep=settings.keep_per_burst,
        burst_power=settings.burst_power, max_rows=settings.max_rows,
        rng=np.random.default_rng(settings.random_state),
    )  # fmt: skip
    return len(sample.rows)


def plain(log: TrainingLog, cut_s: float, rows: int) -> Timing:
    """Time the learned baseline on the latest finished jobs."""
    with np.errstate(invalid="ignore"):
        ended = np.flatnonzero((log.outcomes.end_s < cut_s) & (log.outcomes.elapsed_s > 0))[-rows:]
    features = log.features.take(ended)
    log_s = np.log(np.maximum(log.outcomes.elapsed_s[ended], 1.0))
    few = features.take(np.arange(1))
    return timed("plain LightGBM", len(ended), lambda: plain_lightgbm(features, log_s, few))


def whole_training(frame: pd.DataFrame, cut_s: float, settings: DurationSettings) -> Timing:
    return timed(
        "train_duration, in all", len(frame), lambda: train_duration(frame, cut_s=cut_s, settings=settings)
    )


def measure(
    rows: int, seed: int, max_rows: int, budget_s: float, tell: Callable[[str], None]
) -> list[Timing]:
    spec = WorkloadSpec(
        jobs=rows, days=max(rows / ROWS_PER_DAY, 45.0), users=300, requeue=False, random_state=seed
    )
    tell("generating the log")
    frame, cut_s = generate(spec).frame, spec.end_ts
    settings = DurationSettings(random_state=seed)
    small = frame.head(2000)
    train_duration(small, cut_s=float(request_columns(small).submitted_s.max()))  # compiles
    tell("training with the default settings")
    default = whole_training(frame, cut_s, settings)
    tell("timing its parts")
    vocabulary = Vocabulary.learn(request_columns(frame))
    prepared: list[TrainingLog] = []
    features = timed("features", rows, lambda: prepared.append(prepare_log(frame, vocabulary)))
    log = prepared[0]
    watch = Stopwatch()
    train_on_log(log, vocabulary, cut_s=cut_s, settings=settings, progress=watch)
    used = fitted_rows(log, cut_s, settings)
    tell("plain LightGBM")
    yardstick, on_all = plain(log, cut_s, used), plain(log, cut_s, rows)
    parts = watch.timings("default", used)
    fit = replace(parts[-1], ratio=parts[-1].wall_s / yardstick.wall_s)
    found = [
        replace(default, ratio=default.wall_s / on_all.wall_s),
        features,
        *parts[:-1],
        fit,
        yardstick,
        on_all,
    ]
    more = replace(settings, max_rows=max_rows)
    used_more = fitted_rows(log, cut_s, more)
    expected_s = sum(item.wall_s for item in parts) * used_more / max(used, 1)
    if used_more <= used:
        tell(f"bursts leave {used_more:,} rows; --max-rows {max_rows} changes nothing")
    elif expected_s > budget_s:
        tell(f"left out: {used_more:,} rows need some {expected_s:.0f} s, over --budget-s {budget_s:.0f}")
    else:
        tell(f"training on {used_more:,} rows")
        watch = Stopwatch()
        train_on_log(log, vocabulary, cut_s=cut_s, settings=more, progress=watch)
        yardstick = plain(log, cut_s, used_more)
        parts = watch.timings(f"max_rows={max_rows}", used_more)
        found += [*parts[:-1], replace(parts[-1], ratio=parts[-1].wall_s / yardstick.wall_s), yardstick]
    return found


def show(timings: list[Timing], rows: int, seed: int) -> None:
    table = Table(title=f"{rows:,} rows, seed {seed}, {os.cpu_count()} cores", title_justify="left")
    for head in ("work", "rows", "wall s", "CPU s", "wall / plain LightGBM"):
        table.add_column(head, justify="left" if head == "work" else "right")
    for item in timings:
        ratio = "" if item.ratio is None else f"{item.ratio:.1f}"
        table.add_row(item.name, f"{item.rows:,}", f"{item.wall_s:.1f}", f"{item.cpu_s:.1f}", ratio)
    Console(width=110).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Measure the training of the duration model on a generated log."
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="jobs of the generated log")
    parser.add_argument("--seed", type=int, default=0, help="seed of the log and of training")
    parser.add_argument("--max-rows", type=int, default=100_000, help="rows fitted at most in the second run")
    parser.add_argument("--budget-s", type=float, default=300.0, help="seconds the second run may take")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results there as JSON, too")
    options = parser.parse_args()
    if options.rows < 5000:
        parser.error(f"--rows {options.rows}: give at least 5000, less measures nothing")
    began = time.perf_counter()
    timings = measure(
        options.rows, options.seed, options.max_rows, options.budget_s,
        lambda step: print(f"[{time.perf_counter() - began:5.0f} s] {step}", flush=True),
    )  # fmt: skip
    show(timings, options.rows, options.seed)
    if options.json is not None:
        found = {
            "rows": options.rows, "seed": options.seed, "cores": os.cpu_count(),
            "timings": [asdict(item) for item in timings],
        }  # fmt: skip
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

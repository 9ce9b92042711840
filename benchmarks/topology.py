"""This module backtests topology fit on each set of measurements and renders the table of results.

``python benchmarks/topology.py --data DIR --results OUT`` writes one JSON file per set and seed, unless it is
there; ``--markdown FILE`` renders all JSON files of OUT as the tables of docs/results/topology.md.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.topology_backtest import backtest_topology_file

FILES = {
    "placements": "topology/placements.csv.gz",
    "gpu_types": "topology/gpu_type_throughputs.csv.gz",
    "mlperf": "jobs/mlperf_runs.csv.gz",
}
SEEDS = (0, 10)
_CHOICE = ("regret", "regret_p95", "rel_mape", "kendall_tau")
_TIME = ("median_abs_log_ratio", "mean_abs_log_ratio", "mape", "within_2x")


def run(name: str, data: Path, results: Path, seed: int) -> None:
    """Backtest one file, unless its result is there already."""
    out = results / f"{name}_{seed}.json"
    if out.exists():
        return
    started = time.process_time()
    document = backtest_topology_file(
        data / FILES[name], seed=seed, plots=None, console=Console(quiet=True), tell=_quiet
    )
    document["cpu_s"] = time.process_time() - started
    out.write_text(json.dumps(document, indent=1))
    print(f"{name}, seed {seed}: {document['cpu_s']:.0f} s of CPU time")


def _quiet(step: str, share: float) -> None:
    """Tell nobody."""


def render(results: Path) -> str:
    """Return the tables of all results found, Markdown."""
    tables = []
    for name in FILES:
        for seed in SEEDS:
            path = results / f"{name}_{seed}.json"
            if path.exists():
                tables.append(_tables(name, seed, json.loads(path.read_text())))
    return "\n\n".join(tables) + "\n"


def _tables(name: str, seed: int, report: dict[str, Any]) -> str:
    splits = report["splits"] if name == "placements" else report[name]["splits"]
    scores = _TIME if name == "mlperf" else _CHOICE
    if name == "mlperf":
        splits = {"all": splits["all"]}
    lines = [
        f"`{name}`, seed {seed}, SHA-256 `{report['fingerprint'][:16]}`, {report['cpu_s']:.0f} s of CPU time",
        "",
        "| split | model | " + " | ".join(scores) + " |", "|---|---|" + "---|" * len(scores),
    ]  # fmt: skip
    for split, part in splits.items():
        ranked = sorted(part["models"].items(), key=lambda item: float(item[1][scores[0]]))
        for model, values in ranked:
            shown = f"**{model}**" if model == "ours" else model
            lines.append(
                f"| {split} | {shown} | " + " | ".join(f"{values[one]:.4f}" for one in scores) + " |"
            )
    return "\n".join(lines)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        for seed in SEEDS:
            run(name, options.data, options.results, seed)
    if options.markdown is not None:
        options.markdown.write_text(render(options.results))


if __name__ == "__main__":
    main()

"""This module backtests peak memory on each set of measurements and renders the table of results.

``python benchmarks/vram.py --data DIR --results OUT`` writes one JSON file per set, unless it is there;
``--markdown FILE`` renders all JSON files of OUT as the tables of docs/results/vram.md.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from pipelines.vram_backtest import memory_document
from predictor.data.measurements import read_measurements
from predictor.evaluation.memory_backtest import backtest_memory

FILES = ("timm_a100", "synthetic_cnn", "synthetic_mlp1", "synthetic_mlp2", "llm_finetune_a100_80gb",
         "peft_methods", "openmmlab_train_memory")  # fmt: skip
MODELS = ("ours", "ours_with_dry_run", "analytical", "raw_lightgbm", "faketensor")


def run(file: str, data: Path, results: Path, seed: int) -> None:
    """Backtest every set of one file, unless its result is there already."""
    out = results / f"{file}.json"
    if out.exists():
        return
    path = data / f"{file}.csv.gz"
    started = time.process_time()
    sets = read_measurements(path)
    documents = [memory_document(backtest_memory(runs, seed=seed), seed) for runs in sets]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report = {"file": file, "sha256": digest, "cpu_s": time.process_time() - started, "sets": documents}
    out.write_text(json.dumps(report, indent=1))
    print(f"{file}: {report['cpu_s']:.0f} s of CPU time")


def render(results: Path) -> str:
    """Return the tables of all results found, Markdown."""
    reports = [json.loads((results / f"{file}.json").read_text()) for file in FILES
               if (results / f"{file}.json").exists()]  # fmt: skip
    points = ["| set, split | rows, groups | model | MAPE | median | under |", "|---|---|---|---|---|---|"]
    bounds = ["| set, split | groups | above the bound | MiB over | MAQ | out of memory | x 1.3: MAQ | "
              "out of memory |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    prints = ["| file | SHA-256 | CPU s |", "|---|---|---|"]
    for report in reports:
        prints.append(f"| {report['file']} | `{report['sha256'][:16]}` | {report['cpu_s']:.0f} |")
        for document in report["sets"]:
            for name, split in document["splits"].items():
                points += _point_rows(f"{document['name']}, {name.replace('_', ' ')}", split)
                bounds += _bound_rows(f"{document['name']}, {name.replace('_', ' ')}", split)
    return "\n".join([*points, "", *bounds, "", *prints, ""])


def _point_rows(title: str, split: dict[str, Any]) -> list[str]:
    rows = []
    for model in MODELS:
        scores = split["models"].get(model)
        if scores is not None:
            where = f"{title} | {split['rows']:,}, {split['groups']}" if model == "ours" else " | "
            name = f"**{model}**" if model == "ours" else model
            rows.append(f"| {where} | {name} | {scores['mape']:.4f} | {scores['median_ape']:.4f} | "
                        f"{scores['under_rate']:.1%} |")  # fmt: skip
    return rows


def _bound_rows(title: str, split: dict[str, Any]) -> list[str]:
    found = [(title, split["bound"], split["policy"], split["flat_policy"])]
    if "with_dry_run" in split:
        dry = split["with_dry_run"]
        found.append((f"{title}, with dry run", dry["bound"], dry["policy"], None))
    rows = []
    for name, bound, policy, flat in found:
        groups = f"{split['groups']}{' (few)' if bound['few_groups'] else ''}"
        plain = f"{flat['maq']:.3f} | {flat['oom_rate']:.1%}" if flat else " | "
        rows.append(f"| {name} | {groups} | {1 - bound['coverage']:.1%} | {bound['mean_over_mib']:,.0f} | "
                    f"{policy['maq']:.3f} | {policy['oom_rate']:.1%} | {plain} |")  # fmt: skip
    return rows


def main() -> None:
    """Run what is missing, and render."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder of the measurements")
    parser.add_argument("--results", type=Path, required=True, help="folder for one JSON file per set")
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=FILES, choices=FILES)
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    for file in arguments.only:
        run(file, arguments.data, arguments.results, arguments.seed)
    if arguments.markdown is not None:
        arguments.markdown.write_text(render(arguments.results))


if __name__ == "__main__":
    main()

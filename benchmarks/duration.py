"""This module backtests duration forecasts on seven public logs and renders the table of results.

``python benchmarks/duration.py --data DIR --results OUT`` ingests each log, backtests it and writes one JSON
file per log; ``--markdown FILE`` renders all JSON files of OUT as the tables of docs/results/duration.md.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.ingest import ingest
from predictor.data.table import fingerprint, read_table
from predictor.evaluation.backtest import backtest_duration, default_test_from

NOT_LEARNED = (
    "requested_limit",
    "global_median",
    "last_run",
    "last_two_mean",
    "user_median",
    "template_median",
)
MIN_SLICE_ROWS = 500
SLICE_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One public log; ``test_from`` is None for the last fifth by submission."""

    name: str
    file: str
    test_from: str | None = None


LOGS = (
    Log(name="graham", file="drac_graham_jobs.csv.gz", test_from="2021-06-18"),
    Log(name="cedar", file="drac_cedar_jobs.csv.gz", test_from="2021-06-21"),
    Log(name="philly", file="philly_vc.csv.gz", test_from="2017-11-16"),
    Log(name="ricc", file="RICC-2010-2.swf.gz"),
    Log(name="intrepid", file="ANL-Intrepid-2009-1.swf.gz"),
    Log(name="atlas", file="LLNL-Atlas-2006-2.1-cln.swf.gz"),
    Log(name="kth", file="KTH-SP2-1996.swf.gz"),
)


def run(log: Log, data: Path, results: Path) -> None:
    """Ingest and backtest one log, unless its result is there already."""
    out = results / f"{log.name}.json"
    if out.exists():
        return
    table = results / f"{log.name}.parquet"
    ingest([data / log.file], table)
    frame = read_table(table)
    start = (
        default_test_from(frame)
        if log.test_from is None
        else pd.Timestamp(log.test_from, tz="UTC").timestamp()
    )
    report = backtest_duration(frame, test_from_s=start, labels={"fingerprint": fingerprint(frame)})
    out.write_text(json.dumps(report.to_json(), indent=1))


def _gain(ours: float, other: float) -> str:
    return f"{100 * (1 - ours / other):+.1f} %"


def _row(log: Log, report: dict[str, Any], metric: str) -> str:
    models = report["models"]
    ours = models["ours"][metric]
    name = min(NOT_LEARNED, key=lambda key: models[key][metric])
    plain, best = models["plain_lightgbm"][metric], models[name][metric]
    return (
        f"| {log.name} | {report['test_rows']:,} | **{ours:.3f}** | {plain:.3f} | {best:.3f} ({name}) | "
        f"{models['last_run'][metric]:.3f} | {_gain(ours, plain)} | {_gain(ours, best)} |"
    )


def _judged(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the slices that were chosen by what was known at submission and hold enough jobs."""
    return {
        name: part
        for name, part in report["slices"].items()
        if part["conditioned_on"] == "submission" and part["rows"] >= MIN_SLICE_ROWS
    }


def _off(covered: dict[str, float]) -> bool:
    return abs(covered["q90"] - 0.9) > SLICE_TOLERANCE or abs(covered["q95"] - 0.95) > SLICE_TOLERANCE


def _between(covered: dict[str, float], chance: dict[str, Any], level: str) -> str:
    low, high = chance[level]
    return f"{covered[level]:.3f} ({low:.2f}-{high:.2f})"


def _coverage_row(log: Log, report: dict[str, Any]) -> str:
    covered, chance = report["models"]["ours"]["coverage"], report["coverage_intervals"]["all"]
    slices = _judged(report)
    good = sum(not _off(part["coverage"]) for part in slices.values())
    return (
        f"| {log.name} | {chance['submitters']} ({chance['equal_submitters']:.0f}) | {covered['q50']:.3f} | "
        f"{_between(covered, chance, 'q90')} | {_between(covered, chance, 'q95')} | {good} of {len(slices)} |"
    )


def _slice_rows(log: Log, report: dict[str, Any]) -> list[str]:
    rows = []
    for name, part in _judged(report).items():
        covered, chance = part["coverage"], report["coverage_intervals"][name]
        if _off(covered):
            rows.append(
                f"| {log.name} | {name} | {part['rows']:,} | {chance['equal_submitters']:.1f} | "
                f"{_between(covered, chance, 'q90')} | {_between(covered, chance, 'q95')} |"
            )
    return rows


def _gpu_row(log: Log, report: dict[str, Any]) -> str | None:
    part = report["slices"].get("gpu_jobs")
    if part is None:
        return None
    models = part["models"]
    name = min(NOT_LEARNED, key=lambda key: models[key]["mean_abs_log_ratio"])
    return (
        f"| {log.name} | {part['rows']:,} | **{models['ours']['mean_abs_log_ratio']:.3f}** | "
        f"{models['plain_lightgbm']['mean_abs_log_ratio']:.3f} | "
        f"{models[name]['mean_abs_log_ratio']:.3f} ({name}) | "
        f"{models['ours']['coverage']['q90']:.3f} |"
    )


def render(results: Path) -> str:
    """Return the tables of all results found, Markdown."""
    found = [(log, json.loads((results / f"{log.name}.json").read_text())) for log in LOGS
             if (results / f"{log.name}.json").exists()]  # fmt: skip
    lines = []
    for metric, title in (
        ("mean_abs_log_ratio", "Mean |ln(forecast / actual)|"),
        ("crps_log", "CRPS of ln(duration)"),
    ):
        lines += [f"### {title}", ""]
        lines += [
            "| log | test jobs | ours | plain LightGBM | best not learned | last run | vs plain | vs best |"
        ]
        lines += [
            "|---|---|---|---|---|---|---|---|",
            *(_row(log, report, metric) for log, report in found),
            "",
        ]
    lines += ["### Coverage (promised 0.50, 0.90, 0.95)", ""]
    lines += [
        "| log | submitters (as informative as) | q50 | q90 | q95 | slices of 500 jobs within 5 points |",
        "|---|---|---|---|---|---|",
        *(_coverage_row(log, report) for log, report in found),
        "",
    ]
    lines += ["### Slices of 500 jobs or more off by more than 5 points", ""]
    lines += [
        "| log | slice | jobs | as informative as (submitters) | q90 | q95 |",
        "|---|---|---|---|---|---|",
    ]
    lines += [*(row for log, report in found for row in _slice_rows(log, report)), ""]
    lines += ["### GPU jobs alone, mean |ln(forecast / actual)|", ""]
    lines += [
        "| log | test jobs | ours | plain LightGBM | best not learned | coverage of q90 |",
        "|---|---|---|---|---|---|",
    ]
    lines += [row for log, report in found if (row := _gpu_row(log, report)) is not None]
    lines += ["", "### Run time (s, two shared cores) and data", ""]
    lines += [
        "| log | features | all fits of ours | all forecasts of ours | data fingerprint |",
        "|---|---|---|---|---|",
    ]
    for log, report in found:
        spent = report["seconds"]
        digest = str(report["settings"].get("fingerprint", ""))[:16]
        lines += [
            f"| {log.name} | {spent['features']:.1f} | {spent['fit ours']:.0f} | "
            f"{spent['predict ours']:.1f} | `{digest}` |"
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description="Backtest duration forecasts on public logs.")
    parser.add_argument("--data", type=Path, help="folder with the logs; without it nothing is run")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/duration"))
    parser.add_argument("--markdown", type=Path, help="write the tables here instead of printing them")
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    if arguments.data is not None:
        for log in LOGS:
            run(log, arguments.data, arguments.results)
    text = render(arguments.results)
    if arguments.markdown is None:
        print(text)
    else:
        arguments.markdown.write_text(text)


if __name__ == "__main__":
    main()

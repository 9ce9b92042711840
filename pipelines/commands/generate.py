"""This module is ``predictor generate``: it writes a synthetic log with known truth."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pipelines.given_options import refuse
from pipelines.output_paths import file_faults
from predictor.data.sacct_writer import write_sacct
from predictor.data.synthetic import SyntheticLog, WorkloadSpec, generate
from predictor.errors import ArgumentError

_HELP = """Write a synthetic job log whose true duration distributions are known.

The same options give the same log. --out takes the canonical job table (Parquet), --truth the parameters
and quantiles each row was drawn from (Parquet, row for row), --sacct the log as sacct --parsable2 prints
it; a name that ends in .gz is compressed.

Examples:

\b
  predictor generate --jobs 20000 --days 60 --out jobs.parquet --truth truth.parquet
  predictor generate --jobs 12000 --days 70 --seed 7 --sacct jobs.psv.gz
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help=_HELP)
def main(
    *,
    jobs: Annotated[int, typer.Option(help="Number of jobs.")] = 20_000,
    days: Annotated[float, typer.Option(help="Length of the log in days.")] = 60.0,
    users: Annotated[int, typer.Option(help="Number of users.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    censoring: Annotated[
        bool, typer.Option(help="Enforce limits, cancel, evict, fail nodes and cut the log.")
    ] = True,
    out: Annotated[Path | None, typer.Option(help="Canonical job table to write (Parquet).")] = None,
    truth: Annotated[Path | None, typer.Option(help="Known truth to write (Parquet).")] = None,
    sacct: Annotated[Path | None, typer.Option(help="sacct log to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write a synthetic job log whose true duration distributions are known."""
    targets = [path for path in (out, truth, sacct) if path is not None]
    _check({"--out": out, "--truth": truth, "--sacct": sacct})
    spec = WorkloadSpec(jobs=jobs, days=days, users=users, censoring=censoring, random_state=seed)
    log = generate(spec)
    if out is not None:
        log.frame.to_parquet(out, index=False)
    if truth is not None:
        log.truth.to_frame().to_parquet(truth, index=False)
    if sacct is not None:
        write_sacct(log.frame, sacct)
    typer.echo(_summary(log, targets, as_json=as_json))


def _check(outputs: Mapping[str, Path | None]) -> None:
    targets = [path for path in outputs.values() if path is not None]
    if not targets:
        raise ArgumentError("nothing to write; pass at least one of --out, --truth and --sacct")
    faults = [fault for option, path in outputs.items() for fault in file_faults(option, path)]
    if len(set(targets)) < len(targets):
        faults.append("two outputs have the same name")
    refuse(faults)


def _summary(log: SyntheticLog, targets: list[Path], *, as_json: bool) -> str:
    states = {str(state): int(count) for state, count in log.frame["state"].value_counts().items()}
    if as_json:
        summary = {
            "jobs": log.spec.jobs, "rows": len(log.frame), "seed": log.spec.random_state,
            "states": states, "files": [str(path) for path in targets],
        }  # fmt: skip
        return json.dumps(summary)
    spec = log.spec
    head = f"{spec.jobs} jobs, {len(log.frame)} attempts, {spec.days:g} days, seed {spec.random_state}"
    table = [f"  {state:<14} {count:>8}" for state, count in states.items()]
    return "\n".join([head, *table, *(f"wrote {path}" for path in targets)])

"""This module is the command ``predictor store``: migrate, check, back up, export and prune the database."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Engine

from serving.settings import read_settings
from serving.store.backup import back_up
from serving.store.database import open_database
from serving.store.export import export_events, export_rows
from serving.store.schema import migrate, require_current, schema_status
from serving.store.sql_event_log import SqlEventLog

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

_DAY_S = 86400.0
EXAMPLES = """
Examples:

  predictor store status --json

  predictor store migrate --store postgresql://predictor@db/predictor

  predictor store backup --out backup/service.db

  predictor store export --rows --out runs/outcomes/outcomes-event-log.jsonl

  predictor store prune --days 90
"""
_Store = Annotated[str | None, typer.Option(help="Database URL. [default: sqlite:///runs/store/service.db]")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(epilog=EXAMPLES)
def store() -> None:
    """Migrate, check, back up, export and prune the database of events, answers, checkpoints and API keys."""


@app.command("migrate", epilog=EXAMPLES)
def migrate_command(*, store: _Store = None, as_json: _Json = False) -> None:
    """Bring the tables to the version of this program; 'predictor serve' does so as well."""
    with _engine(store, must_exist=False) as engine:
        found = migrate(engine)
    tell = "up to date" if found.is_current else f"migrated from {found.found or 'nothing'}"
    _print({"found": found.found, "version": found.wanted}, f"{tell}: version {found.wanted}", as_json)


@app.command(epilog=EXAMPLES)
def status(*, store: _Store = None, as_json: _Json = False) -> None:
    """Say who writes, where the log ends, and how old the last checkpoint is."""
    with _engine(store) as engine:
        require_current(engine)
        log = SqlEventLog(engine)
        lease, checkpoint = log.view(), log.latest_checkpoint()
        facts = {
            "version": schema_status(engine).found, "writer": lease.holder, "epoch": lease.epoch,
            "next_sequence": log.next_sequence(),
            "checkpoint_sequence": None if checkpoint is None else checkpoint.sequence,
            "checkpoint_age_s": None if checkpoint is None else round(time.time() - checkpoint.moment_s, 1),
        }  # fmt: skip
    _print(facts, "\n".join(f"{name:<20} {value}" for name, value in facts.items()), as_json)


@app.command(epilog=EXAMPLES)
def backup(
    *,
    out: Annotated[Path, typer.Option(help="File to write; it must not exist.")],
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Copy an SQLite database whole, also while the service runs; PostgreSQL has pg_dump."""
    with _engine(store) as engine:
        require_current(engine)
        size = back_up(engine, out)
    _print({"file": str(out), "bytes": size}, f"wrote {size:,} bytes to '{out}'", as_json)


@app.command(epilog=EXAMPLES)
def export(
    *,
    out: Annotated[Path, typer.Option(help="File of JSON lines to write.")],
    rows: Annotated[bool, typer.Option("--rows", help="Only rows of the job table, for retraining.")] = False,
    after: Annotated[int, typer.Option(min=0, help="Only events after this sequence.")] = 0,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Write the event log as JSON lines."""
    with _engine(store) as engine:
        require_current(engine)
        log = SqlEventLog(engine)
        if rows:
            from predictor.contracts.event_codec import decode_events  # noqa: PLC0415  (only here)

            count = export_rows(log, out, decode_events)
        else:
            count = export_events(log, out, after=after)
    _print({"lines": count, "file": str(out)}, f"wrote {count} lines to '{out}'", as_json)


@app.command(epilog=EXAMPLES)
def prune(
    *,
    days: Annotated[float, typer.Option(min=0, help="Keep events of the last days.")] = 90.0,
    answer_hours: Annotated[
        float, typer.Option(min=1, help="Keep answers to idempotent requests for so long.")
    ] = 48.0,
    store: _Store = None,
    as_json: _Json = False,
) -> None:
    """Delete old events, but never those after the last two checkpoints. Export them first."""
    now_s = time.time()
    with _engine(store) as engine:
        require_current(engine)
        gone = SqlEventLog(engine).prune(
            events_before_s=now_s - days * _DAY_S, answers_before_s=now_s - answer_hours * 3600.0
        )
    told = f"deleted {gone.events} events, {gone.checkpoints} checkpoints and {gone.answers} answers"
    _print(asdict(gone), told, as_json)


@contextmanager
def _engine(store: str | None, *, must_exist: bool = True) -> Iterator[Engine]:
    engine = open_database(read_settings(store=store).store, must_exist=must_exist)
    try:
        yield engine
    finally:
        engine.dispose()


def _print(facts: Mapping[str, object], text: str, as_json: bool) -> None:
    print(json.dumps(facts) if as_json else text)

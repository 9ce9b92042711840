"""This module is the command ``predictor keys``: make, list and revoke API keys, and look up hidden names."""

import getpass
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from predictor.data.pseudonyms import read_names_key
from predictor.errors import ArgumentError
from serving.security.keys import ADMIN, OUTCOME, PREDICT, SUBMIT, ApiKey, make_key
from serving.settings import read_settings
from serving.store.database import open_database
from serving.store.key_table import KeyTable
from serving.store.schema import migrate

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

_DAY_S = 86400.0
EXAMPLES = """
Examples:

  predictor keys create slurm-prolog --scope predict --scope submit

  predictor keys create operator --scope admin --days 90

  predictor keys list --json

  predictor keys revoke 1f0c9a3b7e

  predictor keys token ada --names-key /etc/predictor/names.key

Scopes: predict (forecasts, and reading the queue), submit (submit and cancel jobs), outcome (starts and ends
of jobs), admin (everything: policy, nodes, snapshots).
"""
_Store = Annotated[str | None, typer.Option(help="Database URL. [default: sqlite:///runs/store/service.db]")]


@app.callback(epilog=EXAMPLES)
def keys() -> None:
    """Make, list and revoke API keys. A running service takes changes up within seconds."""


@app.command(epilog=EXAMPLES)
def create(
    name: Annotated[str, typer.Argument(help="What holds the key, such as a program or a team.")],
    *,
    scope: Annotated[
        list[str], typer.Option(help=f"May be repeated: {PREDICT}, {SUBMIT}, {OUTCOME}, {ADMIN}.")
    ],
    days: Annotated[float | None, typer.Option(help="Days until it expires. [default: never]")] = None,
    store: _Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a key and print it. It is shown this once and kept nowhere."""
    now_s = time.time()
    key, token = make_key(name, scope, now_s=now_s, lives_s=None if days is None else days * _DAY_S)
    with _table(store) as table:
        table.add(key, actor=_me())
    if as_json:
        print(json.dumps({**_view(key, now_s), "key": token}))
        return
    print(token)
    print(f"key {key.key_id} ({', '.join(sorted(key.scopes))}); send it as 'Authorization: Bearer KEY'. "
          f"It is not shown again.", file=sys.stderr)  # fmt: skip


@app.command("list", epilog=EXAMPLES)
def list_keys(
    *, store: _Store = None, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List all keys, those that ended too."""
    now_s = time.time()
    with _table(store) as table:
        views = [_view(key, now_s) for key in table.read_keys()]
    if as_json:
        print(json.dumps(views, indent=2))
        return
    shown = Table("key", "name", "scopes", "created", "expires", "state")
    for view in views:
        shown.add_row(*(str(value) for value in view.values()))
    Console().print(shown if views else "no keys; make one with 'predictor keys create NAME --scope predict'")


@app.command(epilog=EXAMPLES)
def revoke(
    key_id: Annotated[str, typer.Argument(help="The id, as listed; not the key itself.")],
    *,
    store: _Store = None,
) -> None:
    """End a key for good."""
    with _table(store) as table:
        if not table.revoke(key_id, now_s=time.time(), actor=_me()):
            raise ArgumentError(f"no key '{key_id[:40]}' is in force; see 'predictor keys list'")
    print(f"revoked {key_id}")


@app.command("token", epilog=EXAMPLES)
def show_token(
    names: Annotated[list[str], typer.Argument(help="Names of users or accounts.")],
    *,
    names_key: Annotated[
        Path | None, typer.Option(help="File with the site's key. [default: PREDICTOR_NAMES_KEY]")
    ] = None,
) -> None:
    """Print what a service with PREDICTOR_NAMES_KEY keeps in place of names."""
    path = read_settings(names_key=names_key).names_key
    if path is None:
        raise ArgumentError("no names key is set; give --names-key FILE or PREDICTOR_NAMES_KEY")
    pseudonyms = read_names_key(path)
    for name in names:
        print(f"{pseudonyms.token(name)}  {name}")


@contextmanager
def _table(store: str | None) -> Iterator[KeyTable]:
    engine = open_database(read_settings(store=store).store)
    try:
        migrate(engine)
        yield KeyTable(engine)
    finally:
        engine.dispose()


def _view(key: ApiKey, now_s: float) -> dict[str, str]:
    state = "revoked" if key.revoked_s is not None else "active" if key.is_active(now_s) else "expired"
    return {
        "key_id": key.key_id, "name": key.name, "scopes": " ".join(sorted(key.scopes)),
        "created": _day(key.created_s), "expires": "never" if key.expires_s is None else _day(key.expires_s),
        "state": state,
    }  # fmt: skip


def _day(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, tz=UTC).strftime("%Y-%m-%d %H:%MZ")


def _me() -> str:
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return "user:unknown"

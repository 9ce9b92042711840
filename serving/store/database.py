"""This module opens the database, SQLite or PostgreSQL, so that a commit is on disk when it returns."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError as UrlError
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, NoSuchModuleError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from predictor.errors import ArgumentError
from serving.store.errors import StoreError, StoreUnavailableError

_BUSY_S = 5.0  # how long one SQLite connection waits for another to finish writing
_POSTGRES_TIMEOUTS = {
    # A writer that was paused within a transaction holds the lock that a take-over needs: end its session.
    "idle_in_transaction_session_timeout": "3s",
    "lock_timeout": "5s",
    "statement_timeout": "60s",
    "synchronous_commit": "on",
}
_IMMEDIATE = "immediate"


def open_database(url: str, *, must_exist: bool = False) -> Engine:
    """Return an engine for ``sqlite:///path`` or ``postgresql://user@host/name``; connects when first used.

    Args:
        must_exist: do not make an SQLite file where there is none.

    Raises:
        ArgumentError: the URL is neither, or there is no such file.
    """
    try:
        parsed = make_url(url)
    except UrlError:
        raise ArgumentError(
            f"store '{url}' is no database URL; pass sqlite:///PATH or postgresql://USER@HOST/NAME"
        ) from None
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        return _open_sqlite(parsed, must_exist=must_exist)
    if kind == "postgresql":
        return _open_postgres(parsed)
    raise ArgumentError(
        f"store '{parsed.render_as_string()}' is of the kind '{kind}'; supported are sqlite and postgresql"
    )


def _open_sqlite(url: URL, *, must_exist: bool) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ArgumentError(f"store '{url}' has no path; what is acknowledged must outlive the process")
    if must_exist and not Path(url.database).is_file():
        raise ArgumentError(
            f"there is no store at '{url.database}'; run this in the working directory of the service, or "
            f"name its database with --store or PREDICTOR_STORE"
        )
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url.set(drivername="sqlite+pysqlite"), connect_args={"timeout": _BUSY_S})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves: the driver's own comes too late for reads
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads and then writes would fail at once where another writes in between.
        immediate = connection.get_execution_options().get(_IMMEDIATE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _open_postgres(url: URL) -> Engine:
    arguments: dict[str, Any] = {  # Any: parameters of the driver
        "connect_timeout": 5,
        "application_name": "predictor",
        "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 8000,
        "options": " ".join(f"-c {name}={value}" for name, value in _POSTGRES_TIMEOUTS.items()),
    }  # fmt: skip
    try:
        return create_engine(
            url.set(drivername="postgresql+psycopg"), connect_args=arguments, pool_pre_ping=True,
            pool_size=8, max_overflow=8, pool_timeout=5,
        )  # fmt: skip
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ArgumentError(f"PostgreSQL needs the package psycopg: {error}") from error


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """Run a transaction that writes; it is committed and durable at the end of the block.

    Raises:
        StoreUnavailableError: the database failed; whether the commit took place may be unknown.
    """
    with (
        _translated(),
        engine.connect().execution_options(**{_IMMEDIATE: True}) as connection,
        connection.begin(),
    ):
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Run a transaction that reads.

    Raises:
        StoreUnavailableError: the database failed.
    """
    with _translated(), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError, InternalError) as error:
        raise StoreUnavailableError(f"the database failed: {_reason(error)}") from error
    except DBAPIError as error:
        raise StoreError(f"the database refuses: {_reason(error)}") from error
    except PoolTimeoutError as error:
        raise StoreUnavailableError("all connections to the database are in use") from error


def _reason(error: DBAPIError) -> str:
    return next(iter(str(error.orig).strip().splitlines()), type(error.orig).__name__)

"""A real PostgreSQL for tests: on a free loopback port, in a directory of its own, gone at the end.

PostgreSQL refuses to run as root: there it runs as the user `postgres`, or as `nobody`.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

_USER = "predictor"
_PATIENCE_S = 20.0


def find_binaries() -> tuple[Path | None, str]:
    """Return where `initdb` and `postgres` lie, or None and the reason."""
    places = [Path(found).resolve().parent for name in ("postgres",) if (found := shutil.which(name))]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place, ""
    return None, "PostgreSQL is not installed; as root, tests/services/install.sh installs it"


@dataclass
class Postgres:
    """A server that can be stopped hard and started again."""

    binaries: Path
    directory: Path
    port: int
    process: "subprocess.Popen[bytes] | None" = None
    databases: int = field(default=0)

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
            "fsync": "off",  # tests kill the server, never the machine
            "shared_buffers": "16MB", "max_connections": 60, "autovacuum": "off",
        }  # fmt: skip
        command = [str(self.binaries / "postgres"), "-D", str(self.directory / "data")]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen[bytes](command, stdout=log, stderr=log, **_identity())
        self.process = process
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.directory / "log").read_text())
            time.sleep(0.05)

    def stop(self, *, hard: bool = False) -> None:
        """Stop; `hard` as in a crash: connections break, recovery comes at the next start."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT if hard else signal.SIGINT)
        self.process.wait(timeout=_PATIENCE_S)

    def new_database(self) -> str:
        """Return the URL of a fresh database."""
        self.databases += 1
        name = f"test_{os.getpid()}_{self.databases}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=2).close()
            return True
        return False


def postgres_or_skip() -> Iterator["Postgres"]:
    """Give a server to the tests of a fixture, or skip them with the reason where it cannot run."""
    binaries, reason = find_binaries()
    if binaries is None:
        pytest.skip(reason)
    with running_postgres(binaries) as server:
        yield server


@contextlib.contextmanager
def running_postgres(binaries: Path) -> Iterator[Postgres]:
    """Make a cluster, run a server on it, and remove both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    directory = Path(tempfile.mkdtemp(prefix="predictor-postgres-"))
    try:
        if (user := _user()) is not None:
            os.chown(directory, user.pw_uid, user.pw_gid)
        command = [str(binaries / "initdb"), "-D", str(directory / "data"), "-U", _USER, "-A", "trust",
                   "-E", "UTF8", "--no-locale", "--no-sync"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, cwd="/", **_identity())
        server = Postgres(binaries=binaries, directory=directory, port=port)
        server.start()
        try:
            yield server
        finally:
            server.stop(hard=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _identity() -> dict[str, Any]:  # Any: arguments of Popen
    user = _user()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

"""Fixtures of the contract suites."""

from collections.abc import Iterator

import pytest

from tests.services.postgres import Postgres, find_binaries, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a worker; each test has a database of its own."""
    binaries, reason = find_binaries()
    if binaries is None:
        pytest.skip(reason)
    with running_postgres(binaries) as server:
        yield server

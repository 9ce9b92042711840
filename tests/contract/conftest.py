"""Fixtures of the contract suites."""

from collections.abc import Iterator

import pytest

from tests.api.conftest import harness
from tests.services.postgres import Postgres, postgres_or_skip

__all__ = ["harness", "postgres"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a worker; each test has a database of its own."""
    yield from postgres_or_skip()

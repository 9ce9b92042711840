"""Fixtures of all tests."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The event loop that the service runs on."""
    return "asyncio"

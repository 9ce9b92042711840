"""Fixtures of the API tests."""

from pathlib import Path

import pytest

from tests.api.harness import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """A place with a champion and a fallback."""
    made = Harness(tmp_path).with_fallback()
    made.store.publish("v1")
    return made

"""A real browser and a real service for the tests of the dashboard."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.services.live_service import LiveService, live_service

OUTPUT = Path(__file__).parents[1] / "output"  # screenshots, kept for people


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here; as root, tests/services/install.sh installs it")
    options = ["--disable-dev-shm-usage"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    with live_service(tmp_path_factory.mktemp("service")) as made:
        yield made.start()


@pytest.fixture
def output() -> Path:
    OUTPUT.mkdir(exist_ok=True)
    return OUTPUT

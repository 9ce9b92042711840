"""The dashboard of a service that asks for API keys."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.services.live_service import LiveService, live_service

pytestmark = pytest.mark.timeout(300)
SEEN_S = 15_000  # milliseconds; the machine may be busy


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    with live_service(
        tmp_path_factory.mktemp("guarded"), secure=True, settings={"PREDICTOR_KEYS_REFRESH_S": "0.1"}
    ) as made:
        made.key("admin")  # without any it does not start
        yield made.start()


def test_a_key_is_asked_for_until_one_fits_and_before_the_feed_is_refused(
    browser: Browser, guarded: LiveService
) -> None:
    keys = {
        scope: guarded.key(scope)["authorization"].removeprefix("Bearer ") for scope in ("submit", "predict")
    }
    page = browser.new_page()
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(guarded.url)
    dialog, why = page.locator("#signin"), page.locator("#signin-why")
    expect(dialog).to_be_visible(timeout=SEEN_S)
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    for key, told in (
        ("prk_0000000000_x", "does not take this key"),
        (keys["submit"], "needs the scope 'predict'"),
    ):
        page.locator("#signin-key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(why).to_contain_text(told, timeout=SEEN_S)
        expect(dialog).to_be_visible()
    assert sockets == []
    page.locator("#signin-key").fill(keys["predict"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#connection")).to_have_text("live", timeout=SEEN_S)
    expect(dialog).to_be_hidden()
    assert "ticket=" in sockets[0]
    page.close()

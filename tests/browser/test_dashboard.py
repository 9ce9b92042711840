"""The dashboard as people see it: real Chromium, a real service, no network beyond loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from tests.services.live_service import LiveService

pytestmark = pytest.mark.timeout(300)
LAPTOP, PHONE = (1280, 900), (390, 844)
SEEN_S = 15_000  # milliseconds; the machine may be busy
RUNS = {
    "job_id": "training-run",
    "requested_gpus": 60,
    "walltime_s": 7200,
    "user": "ada",
    "account": "vision",
}
WAIT = {"jobs": [
    {"job_id": "long", "requested_gpus": 32, "walltime_s": 90000, "user": "bob", "account": "speech",
     "forecast": {"quantiles_s": {"q10": 30000, "q50": 40000, "q90": 80000}}},
    {"job_id": "short", "requested_gpus": 16, "walltime_s": 900, "user": "eve", "account": "vision",
     "forecast": {"duration_s": 600}},
]}  # fmt: skip


@contextmanager
def opened(
    browser: Browser, service: LiveService, *, size: tuple[int, int] = LAPTOP,
    scheme: Literal["light", "dark"] = "light", quiet: bool = True,
) -> Iterator[Page]:  # fmt: skip
    """Open the page, let nothing but loopback pass, and hold it to no error on the console."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    faults: list[str] = []

    def only_loopback(route: Route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            faults.append(f"asks for {route.request.url}")
            route.abort()

    context.route("**/*", only_loopback)
    page = context.new_page()
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(service.url)
    expect(page.locator("#connection")).to_have_text("live", timeout=SEEN_S)
    yield page
    context.close()
    if quiet:
        assert faults == []


def order_of(page: Page) -> list[str]:
    return [row.get_attribute("data-row") or "" for row in page.locator("#queue-rows tr").all()]


@pytest.fixture(scope="module", autouse=True)
def jobs(service: LiveService) -> None:
    """One job runs, two wait; the shorter comes first."""
    service.post("/v1/jobs", RUNS)
    service.post("/v1/jobs", WAIT)


def test_the_page_shows_the_queue_and_a_submitted_job_appears_without_reload(
    browser: Browser, service: LiveService, output: Path
) -> None:
    with opened(browser, service) as page:
        expect(page.locator("[data-row=long]")).to_be_visible(timeout=SEEN_S)
        assert order_of(page) == ["short", "long"]
        expect(page.locator("#factor-legend")).to_contain_text("size")
        expect(page.locator("#gantt svg")).to_contain_text("training-run")
        service.post("/v1/jobs", {"job_id": "newcomer", "requested_gpus": 8, "walltime_s": 7200})
        expect(page.locator("[data-row=newcomer]")).to_be_visible(timeout=SEEN_S)
        expect(page.locator("#summary")).to_contain_text("3 waiting", timeout=SEEN_S)
        page.screenshot(path=output / "dashboard-light.png", full_page=True)
        assert service.client.delete(f"{service.url}/v1/jobs/newcomer").status_code == 200
        expect(page.locator("[data-row=newcomer]")).to_have_count(0, timeout=SEEN_S)


def test_an_explanation_opens_and_closes_by_keyboard(
    browser: Browser, service: LiveService, output: Path
) -> None:
    with opened(browser, service) as page:
        button = page.locator("[data-job=long]")
        expect(button).to_be_visible(timeout=SEEN_S)
        button.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#job")).to_be_visible(timeout=SEEN_S)
        expect(page.locator("#job-title")).to_have_text("Job long")
        expect(page.locator("#job-body")).to_contain_text("Why not now")
        page.screenshot(path=output / "explanation.png")
        assert serious(page) == []
        page.keyboard.press("Escape")
        expect(page.locator("#job")).to_be_hidden()
        expect(button).to_be_focused()


def test_a_job_that_ended_meanwhile_is_said_to_be_over(browser: Browser, service: LiveService) -> None:
    with opened(browser, service, quiet=False) as page:
        expect(page.locator("[data-row=long]")).to_be_visible(timeout=SEEN_S)
        thrown: list[str] = []
        page.on("pageerror", lambda error: thrown.append(str(error)))
        page.route(
            "**/explanation", lambda route: route.continue_(url=f"{service.url}/v1/jobs/gone/explanation")
        )
        page.locator("[data-job=long]").click()
        expect(page.locator("#job-body")).to_contain_text("no job 'gone' waits or runs", timeout=SEEN_S)
        assert thrown == []


def test_a_policy_edit_is_tried_first_and_moves_the_order_when_saved(
    browser: Browser, service: LiveService, output: Path
) -> None:
    with opened(browser, service) as page:
        expect(page.locator("[data-row=long]")).to_be_visible(timeout=SEEN_S)
        before = service.get("/v1/policy")
        guard = page.locator('input[name="order.guard_s"]')
        guard.fill("0")
        expect(page.locator("#policy-save")).to_be_disabled()
        page.get_by_role("button", name="Try", exact=True).click()
        expect(page.locator("#policy-result")).to_contain_text("would move", timeout=SEEN_S)
        assert order_of(page) == ["short", "long"]
        assert service.get("/v1/policy") == before
        page.screenshot(path=output / "policy-tried.png", full_page=True)
        page.locator("#policy-save").click()
        expect(page.locator("#queue-rows tr").first).to_have_attribute("data-row", "long", timeout=SEEN_S)
        expect(page.locator("#policy-version")).to_have_text(
            f"version {before['version'] + 1}", timeout=SEEN_S
        )
        page.get_by_text("Who changed it when").click()
        expect(page.locator("#policy-history li").first).to_contain_text("dashboard")
        expect(page.locator("#policy-history li").first).to_contain_text("order.guard_s")
    patch = {"patch": {"order": {"guard_s": before["policy"]["order"]["guard_s"]}}}
    assert service.client.patch(f"{service.url}/v1/policy", json=patch).status_code == 200


def test_capacity_is_shown_by_type_pool_and_island_and_follows_the_nodes(
    browser: Browser, service: LiveService, output: Path
) -> None:
    """Eight nodes of eight GPUs, 60 in use: a frame for each node, a cell for each GPU."""
    with opened(browser, service) as page:
        card = page.locator("#pools .card")
        expect(card).to_contain_text("60 of 64 in use, 4 free", timeout=SEEN_S)
        expect(page.locator("#gpu-types .card")).to_contain_text("93.8 % in use")
        expect(card.locator(".island")).to_have_count(8)
        expect(card.locator(".island i")).to_have_count(64)
        node = next(node for node in service.get("/v1/capacity")["pools"][0]["nodes"] if node["free"])
        change = {"pool": "gpu", "node": node["index"], "state": "drain"}
        service.post("/v1/nodes", {"nodes": [change]})
        expect(card).to_contain_text("out of service", timeout=SEEN_S)
        expect(card.locator(".island i.down")).to_have_count(node["free"])
        page.locator("#capacity").screenshot(path=output / "capacity.png")
        service.post("/v1/nodes", {"nodes": [{**change, "state": "up"}]})
        expect(card.locator(".island i.down")).to_have_count(0, timeout=SEEN_S)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_axe_finds_nothing_and_the_page_fits_its_width(
    browser: Browser, service: LiveService, output: Path, scheme: Literal["light", "dark"],
    size: tuple[int, int],
) -> None:  # fmt: skip
    with opened(browser, service, size=size, scheme=scheme) as page:
        expect(page.locator("[data-row=long]")).to_be_visible(timeout=SEEN_S)
        page.screenshot(path=output / f"{scheme}-{size[0]}.png", full_page=True)
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        picture = page.locator("#gantt svg").bounding_box()
        assert picture is not None
        assert picture["width"] <= size[0]


def test_the_feed_comes_back_after_a_restart_on_the_same_store(
    browser: Browser, service: LiveService
) -> None:
    with opened(browser, service, quiet=False) as page:
        expect(page.locator("[data-row=long]")).to_be_visible(timeout=SEEN_S)
        service.stop()
        expect(page.locator("#connection")).to_have_attribute("data-state", "lost", timeout=SEEN_S)
        service.start()
        expect(page.locator("#connection")).to_have_text("live", timeout=SEEN_S)
        service.post("/v1/jobs", {"job_id": "afterwards", "requested_gpus": 8, "walltime_s": 7200})
        expect(page.locator("[data-row=afterwards]")).to_be_visible(timeout=SEEN_S)
        expect(page.locator("[data-row=long]")).to_be_visible()
        # tests come in any order: each leaves the queue as it found it
        assert service.client.delete(f"{service.url}/v1/jobs/afterwards").status_code == 200


def serious(page: Page) -> list[str]:
    """Return what axe finds, whatever its impact."""
    found = Axe().run(page).response["violations"]
    return [f"{one['impact']}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]

"""This module checks which pages of other sites may read answers: none, or those of the named origins."""

import pytest

from predictor.errors import ArgumentError
from serving.security.cors import read_origins
from tests.api.harness import Harness, check_problem

pytestmark = pytest.mark.anyio
PORTAL, OTHER = "https://portal.example", "https://evil.example"
LISTED = f"{PORTAL}, http://ops.example:8080"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


def marks(headers: dict[str, str]) -> list[str]:
    return [name for name in headers if name.startswith("access-control-")]


async def test_by_default_no_page_of_another_site_gets_anything(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        asked = await client.options("/v1/predictions", headers={"origin": PORTAL, **PREFLIGHT})
        check_problem(asked, 403, "forbidden")
        check_problem(await client.get("/v1/models", headers={"origin": PORTAL}), 403, "forbidden")
        open_page = await client.get("/livez", headers={"origin": PORTAL})
        assert [marks(dict(answer.headers)) for answer in (asked, open_page)] == [[], []]


@pytest.mark.parametrize("origin", [PORTAL, "http://ops.example:8080"])
async def test_pages_of_a_named_origin_may_call_and_read(harness: Harness, origin: str) -> None:
    async with harness.serving(cors_origins=LISTED) as (client, _):
        asked = await client.options("/v1/predictions", headers={"origin": origin, **PREFLIGHT})
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == origin
        assert "Authorization" in asked.headers["access-control-allow-headers"]
        assert "POST" in asked.headers["access-control-allow-methods"]
        for answer in (
            await client.post("/v1/predictions", json={"user": "ada"}, headers={"origin": origin}),
            await client.get("/v1/models", headers={"origin": origin}),
            await client.get("/v1/nothing", headers={"origin": origin}),
        ):
            assert answer.headers["access-control-allow-origin"] == origin
            assert answer.headers["vary"] == "Origin"
            assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", [OTHER, "null", f"{PORTAL}.evil.example", PORTAL.replace("https", "http")])
async def test_pages_of_other_origins_still_get_nothing(harness: Harness, origin: str) -> None:
    async with harness.serving(cors_origins=LISTED) as (client, _):
        asked = await client.options("/v1/predictions", headers={"origin": origin, **PREFLIGHT})
        answer = await client.post("/v1/predictions", json={"user": "ada"}, headers={"origin": origin})
        check_problem(answer, 403, "forbidden")
        assert marks(dict(asked.headers)) == marks(dict(answer.headers)) == []


def test_what_is_no_origin_is_refused_and_all_of_it_named() -> None:
    with pytest.raises(ArgumentError) as refused:
        read_origins("*, https://*.example, portal.example, https://a.example/, https://good.example, null")
    assert len(refused.value.faults) == 5
    assert read_origins("") == frozenset()

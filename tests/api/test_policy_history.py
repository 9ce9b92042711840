"""This module checks that a person can read who changed the policy when, why, and what of it."""

from collections.abc import Iterator

import pytest

from serving.security.keys import make_key
from serving.store.database import open_database
from serving.store.key_table import KeyTable
from serving.store.schema import migrate
from tests.api.harness import Harness
from tests.api.queueing import get, queueing

pytestmark = pytest.mark.anyio


@pytest.fixture
def operator(harness: Harness) -> Iterator[tuple[str, dict[str, str]]]:
    """An admin key: its id, and the header."""
    engine = open_database(harness.settings().store)
    migrate(engine)
    key, token = make_key("night-shift", ["admin"], now_s=harness.clock())
    KeyTable(engine).add(key, actor="user:test")
    yield key.key_id, {"authorization": f"Bearer {token}"}
    engine.dispose()


async def test_each_version_tells_who_when_why_and_what(
    harness: Harness, operator: tuple[str, dict[str, str]]
) -> None:
    key_id, headers = operator
    async with queueing(harness, insecure_dev=False) as (client, _):
        client.headers.update(headers)
        assert (await get(client, "/v1/policy/history"))["items"] == []
        for seconds, note in ((3600, "long waits"), (7200, "still long")):
            patch = {"patch": {"order": {"guard_s": seconds}}, "note": note}
            assert (await client.patch("/v1/policy", json=patch)).status_code == 200
            harness.clock.now_s += 60
        last, first = (await get(client, "/v1/policy/history"))["items"]
        assert (first["version"], last["version"]) == (2, 3)
        assert (last["actor"], last["actor_name"], last["note"]) == (key_id, "night-shift", "still long")
        assert last["moment_s"] - first["moment_s"] == pytest.approx(60, abs=1)
        assert last["changed"] == {"order.guard_s": [3600.0, 7200.0], "version": [2, 3]}
        assert last["policy"] == (await get(client, "/v1/policy"))["policy"]
        assert len((await get(client, "/v1/policy/history?limit=1"))["items"]) == 1


async def test_a_snapshot_brings_a_version_of_its_own_and_the_policy_can_change_afterwards(
    harness: Harness,
) -> None:
    """Its own number may stand for another policy here already."""
    async with queueing(harness) as (client, _):
        document = await get(client, "/v1/snapshot")
        before = (await get(client, "/v1/policy"))["policy"]["order"]["guard_s"]
        for seconds in (3600, 7200):
            patch = {"patch": {"order": {"guard_s": seconds}}}
            assert (await client.patch("/v1/policy", json=patch)).status_code == 200
        assert (await client.put("/v1/snapshot", json=document)).status_code == 200
        found = await get(client, "/v1/policy")
        assert (found["version"], found["policy"]["order"]["guard_s"]) == (4, before)
        assert (
            await client.patch("/v1/policy", json={"patch": {"order": {"guard_s": 60}}})
        ).status_code == 200
        history = (await get(client, "/v1/policy/history"))["items"]
    assert [one["version"] for one in history] == [5, 4, 3, 2]
    assert history[1]["note"] == "import of a snapshot"
    assert history[1]["changed"]["order.guard_s"] == [7200.0, before]

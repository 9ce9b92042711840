"""This module checks that names reach no disk where the site has a names key, and history still works."""

import json
from pathlib import Path
from typing import Any

import pytest

from predictor.cli import main
from predictor.data.pseudonyms import read_names_key
from predictor.errors import ArgumentError
from tests.api.fakes import load_fake
from tests.api.harness import Harness
from tests.api.queueing import get, job, queueing, state_of

pytestmark = pytest.mark.anyio
QUEUED_MIB = 1000.0  # what fits the devices, whatever the command says
USER, LAB = "lovelace", "babbage-lab"
SAID: dict[str, Any] = {  # Any: JSON values
    "user": USER, "account": f"physics/{LAB}", "job_name": f"{USER}_train",
    "command": f"python /scratch/{USER}/train.py --wandb-entity {LAB}",
}  # fmt: skip
QUEUED = {**SAID, "forecast": {"vram_mib": QUEUED_MIB}}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "names.key"
    path.write_text("5" * 64)
    return path


def clear_names(root: Path) -> list[str]:
    """Return the files that hold a name, whatever their form."""
    return [
        path.name
        for path in root.rglob("*")
        if path.is_file() and any(name.encode() in path.read_bytes() for name in (USER, LAB))
    ]


async def say_everything(harness: Harness, **settings: Any) -> None:  # Any: fields of the settings
    """Send names by every route that takes any."""
    async with queueing(harness, **settings) as (client, _):
        finished = {
            "event": "finished", "job_id": "old", "state": "COMPLETED", "submitted_at": harness.clock() - 900,
            "started_at": harness.clock() - 600, "ended_at": harness.clock() - 10, **SAID,
        }  # fmt: skip
        weights = {"fair_share": {"weights": [{"team": f"physics/{LAB}", "weight": 2.0}]}}
        quotas = {"quotas": [{"team": f"physics/{LAB}", "units": 64}]}
        requests: list[tuple[str, str, dict[str, Any]]] = [
            ("POST", "/v1/outcomes", finished),
            ("POST", "/v1/outcomes", {"outcomes": [{**finished, "job_id": "older"}]}),
            ("POST", "/v1/predictions", {"job_id": "p", **SAID}),
            ("POST", "/v1/predictions", {"jobs": [{"job_id": "q", **SAID}]}),
            ("PATCH", "/v1/policy", {"patch": {**weights, **quotas}}),
            ("POST", "/v1/jobs", job("a", 64, **QUEUED)),
            ("POST", "/v1/jobs", {"jobs": [job("b", **QUEUED), job("c", **QUEUED)]}),
            ("POST", "/v1/what-if", {"jobs": [job("d", **QUEUED)], "patch": quotas}),
            ("POST", "/v1/jobs/a/outcome", {"event": "finished", "state": "COMPLETED"}),
        ]
        for number, (method, path, body) in enumerate(requests):
            headers = {"idempotency-key": str(number)}
            answer = await client.request(method, path, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            assert answer.json().get("failed", 0) == 0, answer.text


async def test_no_stored_byte_holds_a_name(harness: Harness, key: Path) -> None:
    await say_everything(harness, names_key=key)
    assert clear_names(harness.root) == []
    assert USER not in harness.log.getvalue()


async def test_without_the_setting_names_are_kept(harness: Harness) -> None:
    """The search above finds them where they are."""
    await say_everything(harness)
    assert {"store.db"} <= {name.removesuffix("-wal") for name in clear_names(harness.root)}
    assert any(name.startswith("outcomes-") for name in clear_names(harness.root))


async def test_the_same_name_has_the_same_history_quota_and_token(harness: Harness, key: Path) -> None:
    await say_everything(harness, names_key=key)
    names = read_names_key(key)
    async with queueing(harness, names_key=key) as (client, _):
        answer = (await client.post("/v1/predictions", json=SAID)).json()
        assert answer["support"] == {"level": "user", "count": 3}
        tokened = {**SAID, "user": names.token(USER), "account": names.token(f"physics/{LAB}")}
        assert (await client.post("/v1/predictions", json=tokened)).json()["support"] == answer["support"]
        teams = {team["team"]: team for team in (await get(client, "/v1/fair-share"))["teams"]}
        assert teams[names.token(f"physics/{LAB}")]["quota"] == 64


async def test_a_snapshot_with_names_is_taken_over_without_them(harness: Harness, key: Path) -> None:
    other = Harness(harness.root.parent / "other", harness.clock, load_fake).with_fallback()
    async with queueing(other) as (client, _):
        await client.post("/v1/jobs", json=job("a", 64, **QUEUED))
        document = await get(client, "/v1/snapshot")
    assert USER in json.dumps(document)
    async with queueing(harness, names_key=key) as (client, _):
        assert (await client.put("/v1/snapshot", json=document)).status_code == 200
        assert USER not in json.dumps(await state_of(client))
    assert clear_names(harness.root) == []


def test_the_command_tells_the_token_of_a_name(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "token", USER, "--names-key", str(key)]) == 0
    assert capsys.readouterr().out.split() == [read_names_key(key).token(USER), USER]


def test_a_service_does_not_start_with_a_key_that_is_too_short(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "short.key"
    path.write_text("x")
    with pytest.raises(ArgumentError, match="1 bytes"):
        harness.services(names_key=path)

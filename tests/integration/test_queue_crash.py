"""The real service under load, killed at random moments: nothing is lost, nothing counts twice."""

import os
import random
import signal
import time
from pathlib import Path

import msgspec
import pytest

from tests.services.live_service import live_service
from tests.services.load import Load, check, finish, loaded, replayed
from tests.services.postgres import Postgres

KILLS = int(os.environ.get("PREDICTOR__TEST_KILLS", "2"))  # the long form: 200
TAKE_OVER_S = 10.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * KILLS)]


def test_no_acknowledged_event_is_lost_or_doubled_over_kills(tmp_path: Path) -> None:
    rng = random.Random(0)  # noqa: S311  (moments to kill at)
    store = f"sqlite:///{tmp_path}/store.db"
    loads = [Load(f"l{number}") for number in range(3)]
    with live_service(tmp_path, store=store) as service:
        service.start()
        threads = loaded(loads, service)
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.05, 0.6))
            service.stop(signal.SIGKILL)
            service.start()
        time.sleep(0.3)
        finish(loads, threads)
        check(store, loads, service)


def test_a_second_instance_takes_over_within_ten_seconds_without_loss_or_double(
    tmp_path: Path, database: Postgres
) -> None:
    store = database.new_database()
    loads = [Load(f"l{number}") for number in range(2)]
    with (
        live_service(tmp_path, store=store, name="a") as first,
        live_service(tmp_path, store=store, name="b") as second,
    ):
        first.start()
        second.launch().wait_for_role("standby")
        threads = loaded(loads, first, second)
        time.sleep(1.0)
        assert all(load.submitted for load in loads)
        first.stop(signal.SIGKILL)
        assert second.wait_for_role("leading", TAKE_OVER_S) < TAKE_OVER_S
        first.launch().wait_for_role("standby")
        time.sleep(0.5)
        second.process.send_signal(signal.SIGSTOP)  # type: ignore[union-attr]  # a process runs
        try:
            assert first.wait_for_role("leading", TAKE_OVER_S) < TAKE_OVER_S
        finally:
            second.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]  # as above
        second.wait_for_role("standby", TAKE_OVER_S)
        time.sleep(0.5)
        finish(loads, threads)
        live, other = first.get("/v1/snapshot"), second.get("/v1/snapshot")
        while other["sequence"] < live["sequence"]:
            time.sleep(0.1)
            other = second.get("/v1/snapshot")
        assert replayed(store, other["sequence"]) == msgspec.json.encode(other["state"])
        second.stop()
        check(store, loads, first)

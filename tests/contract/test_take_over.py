"""This module kills, pauses and restarts real processes on a real database, and counts what is left."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import update

from serving.store.database import open_database, writing
from serving.store.errors import StoreUnavailableError
from serving.store.lease import LEASE_S
from serving.store.schema import migrate
from serving.store.sql_event_log import SqlEventLog
from serving.store.tables import lease
from tests.services.postgres import Postgres

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PREDICTOR__TEST_KILLS", "4"))  # the long form: 200
TAKE_OVER_S = 10.0


@dataclass
class Instance:
    """One process that writes whenever it may, and what it has said."""

    url: str
    name: str
    recorded: list[str] = field(default_factory=list)
    lines: "queue.Queue[str]" = field(default_factory=queue.Queue)

    def __enter__(self) -> "Instance":
        command = [sys.executable, "-m", "tests.services.writer_process", self.url, self.name]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.threads = [threading.Thread(target=self._listen), threading.Thread(target=self._drain)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if not line.endswith("\n"):
                break  # cut off by the kill
            if words[0] == "recorded":
                self.recorded.append(words[1])
            self.lines.put(words[0])

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.log = self.process.stderr.read()

    def wait_for(self, word: str, within_s: float = 20.0) -> float:
        """Return how long it took until the process said this."""
        began = time.monotonic()
        while True:
            left = within_s - (time.monotonic() - began)
            try:
                if self.lines.get(timeout=max(left, 0.001)) == word:
                    return time.monotonic() - began
            except queue.Empty:
                pytest.fail(f"{self.name} did not say '{word}' within {within_s} s")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def check_the_log(url: str, *instances: Instance) -> None:
    """Every acknowledged event is there once, sequences have no gap, and epochs never go back."""
    engine = open_database(url)
    events = SqlEventLog(engine).read(limit=10**6)
    engine.dispose()
    found = Counter(event.payload.strip('"') for event in events)
    acknowledged = [event for instance in instances for event in instance.recorded]
    assert len(acknowledged) > 0
    assert [event for event in acknowledged if found[event] != 1] == []
    assert max(found.values()) == 1
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    epochs = [event.epoch for event in events]
    assert epochs == sorted(epochs)


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


def test_a_standby_takes_over_from_a_paused_writer_which_cannot_write_on_waking(url: str) -> None:
    with Instance(url, "a") as first:
        first.wait_for("recorded")
        with Instance(url, "b") as second:
            second.wait_for("waiting")
            first.send(signal.SIGSTOP)
            assert second.wait_for("recorded") < TAKE_OVER_S
            before = len(first.recorded)
            first.send(signal.SIGCONT)
            first.wait_for("refused")
            after = [event for event in first.recorded[before:] if event.startswith("a.")]
            assert len(after) <= 4 * 2, "only what was on disk before the pause may be told after it"
            second.wait_for("recorded")
    check_the_log(url, first, second)


def test_a_standby_takes_over_at_once_from_a_killed_writer(url: str) -> None:
    with Instance(url, "a") as first, Instance(url, "b") as second:
        for instance in (first, second):
            instance.wait_for("waiting")
        time.sleep(1.5)
        leader, standby = (first, second) if first.recorded else (second, first)
        leader.send(signal.SIGKILL)
        assert standby.wait_for("recorded") < TAKE_OVER_S / 2
    check_the_log(url, first, second)


def test_a_writer_outlives_a_crash_of_the_database(url: str, postgres: Postgres) -> None:
    with Instance(url, "a") as instance:
        instance.wait_for("recorded")
        postgres.stop(hard=True)
        postgres.start()
        while not instance.lines.empty():
            instance.lines.get_nowait()
        instance.wait_for("recorded")
    check_the_log(url, instance)


@pytest.mark.timeout(300 + 10 * KILLS)
def test_no_acknowledged_event_is_lost_or_doubled_over_kills(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    gone: list[Instance] = []
    for number in range(KILLS):
        with ExitStack() as stack:
            instance = stack.enter_context(Instance(url, f"i{number}"))
            gone.append(instance)
            instance.wait_for("recorded")
            time.sleep(0.03 * (number % 7))
            instance.send(signal.SIGKILL)
    check_the_log(url, *gone)


def test_a_writer_paused_within_a_transaction_does_not_block_a_take_over(url: str) -> None:
    """The database ends its session after some seconds, and with it the lock."""
    paused, other = open_database(url), open_database(url)
    migrate(other)
    log = SqlEventLog(other)
    assert log.take("a", log.view()) == 1

    def pause_within() -> None:
        with writing(paused) as connection:
            connection.execute(update(lease).values(next_sequence=5))
            began = time.monotonic()
            assert log.take("b", log.view()) == 2
            took_s.append(time.monotonic() - began)
        raise AssertionError("the session was not ended")

    took_s: list[float] = []
    with pytest.raises(StoreUnavailableError):
        pause_within()
    assert took_s[0] < TAKE_OVER_S - LEASE_S
    assert log.next_sequence() == 1
    for engine in (paused, other):
        engine.dispose()

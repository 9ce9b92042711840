"""This module checks when a lease is beaten for, watched, lost and taken, by a clock of its own."""

import io

import pytest

from serving.logs import build_logger
from serving.store.errors import StoreUnavailableError
from serving.store.holder import is_gone, this_process
from serving.store.lease import LeaseKeeper
from tests.services.event_log_fake import MemoryEventLog


class Keepers:
    """Two instances on one log; the test moves the time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.log = MemoryEventLog()
        self.told: list[tuple[str, int | None]] = []
        self.gone = False
        self.a, self.b = self.keeper("a"), self.keeper("b")

    def keeper(self, name: str) -> LeaseKeeper:
        return LeaseKeeper(
            self.log, holder=name, on_change=lambda epoch: self.told.append((name, epoch)), lease_s=4.0,
            logger=build_logger(io.StringIO(), "error"), gone=lambda _: self.gone,
            monotonic=lambda: self.now_s,
        )  # fmt: skip

    def pass_s(self, seconds: int, *alive: LeaseKeeper) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            for keeper in alive:
                keeper.step()


@pytest.fixture
def keepers() -> Keepers:
    made = Keepers()
    made.a.step()
    made.b.step()
    return made


def test_the_first_gets_the_lease_and_keeps_it_while_it_beats(keepers: Keepers) -> None:
    keepers.pass_s(60, keepers.a, keepers.b)
    assert keepers.told == [("a", 1)]


def test_a_standby_takes_over_when_the_beat_stands_still(keepers: Keepers) -> None:
    keepers.pass_s(3, keepers.b)
    assert keepers.b.epoch is None
    keepers.pass_s(2, keepers.b)
    assert keepers.b.epoch == 2


def test_a_holder_that_wakes_after_a_take_over_learns_that_it_lost(keepers: Keepers) -> None:
    keepers.pass_s(6, keepers.b)
    keepers.a.step()
    assert keepers.told == [("a", 1), ("b", 2), ("a", None)]
    keepers.pass_s(10, keepers.a, keepers.b)
    assert (keepers.a.epoch, keepers.b.epoch) == (None, 2)


def test_a_holder_known_to_have_ended_is_followed_at_once(keepers: Keepers) -> None:
    keepers.gone = True
    keepers.b.step()
    assert keepers.b.epoch == 2


def test_a_lease_given_back_is_taken_at_the_next_look(keepers: Keepers) -> None:
    keepers.a.stop()
    keepers.b.step()
    assert keepers.b.epoch == 3  # giving back ends an epoch as well


def test_a_holder_without_database_steps_down_after_the_lease(keepers: Keepers) -> None:
    keepers.log.fault = StoreUnavailableError("away")
    keepers.pass_s(3, keepers.a)
    assert keepers.a.epoch == 1
    keepers.pass_s(1, keepers.a)
    assert keepers.a.epoch is None


def test_a_standby_does_not_take_the_time_without_database_for_silence(keepers: Keepers) -> None:
    keepers.log.fault = StoreUnavailableError("away")
    keepers.pass_s(3, keepers.a, keepers.b)
    keepers.log.fault = None
    keepers.pass_s(1, keepers.b)
    keepers.pass_s(3, keepers.b, keepers.a)
    assert keepers.told == [("a", 1)]


def test_this_process_is_not_gone_and_a_number_used_again_is() -> None:
    mine = this_process()
    assert not is_gone(mine)
    assert is_gone(mine.rpartition("/")[0] + "/1")
    assert not is_gone("elsewhere/other-boot/1/1")
    assert not is_gone("a name of another kind")

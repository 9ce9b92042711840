"""This module checks the queue's clock against a machine's clock that is set back and forth."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from serving.engine.steady_clock import SLOW, SteadyClock


@dataclass
class Machine:
    """True time, and how far the machine's clock is off."""

    true_s: float = 0.0
    off_s: float = 1000.0

    def wall(self) -> float:
        return self.true_s + self.off_s

    def monotonic(self) -> float:
        return self.true_s


def a_clock() -> tuple[Machine, SteadyClock]:
    machine = Machine()
    return machine, SteadyClock(machine.wall, machine.monotonic)


def test_it_tells_the_machines_time_while_that_goes_forward() -> None:
    machine, clock = a_clock()
    for step_s in (0.0, 1.0, 3600.0):
        machine.true_s += step_s
        assert clock() == machine.wall()
    machine.off_s += 7200.0
    assert clock() == machine.wall()


def test_it_goes_on_slowly_when_the_machines_clock_is_set_back_and_meets_it_again() -> None:
    machine, clock = a_clock()
    before_s = clock()
    machine.off_s -= 3600.0
    machine.true_s += 100.0
    assert clock() == before_s + SLOW * 100.0
    machine.true_s += 8000.0
    assert clock() == machine.wall()


def test_it_begins_no_earlier_than_the_last_event_and_does_not_stand_still_there() -> None:
    machine, clock = a_clock()
    clock.reach(machine.wall() + 3600.0)
    assert clock() == machine.wall() + 3600.0
    machine.true_s += 10.0
    assert clock() == 1000.0 + 3600.0 + SLOW * 10.0


def test_it_says_how_long_a_moment_is_away_by_true_time() -> None:
    machine, clock = a_clock()
    assert clock.until_s(clock() + 60.0) == 60.0
    assert clock.until_s(clock() - 60.0) == 0.0
    clock.reach(machine.wall() + 3600.0)
    for due_s in (4700.0, 9000.0):
        wait_s = clock.until_s(due_s)
        later = Machine(machine.true_s, machine.off_s)
        other = SteadyClock(later.wall, later.monotonic)
        other.reach(4600.0)
        later.true_s += wait_s - 1e-6
        assert other() < due_s
        later.true_s += 2e-6
        assert other() >= due_s


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-1e5, 1e5)), max_size=30))
def test_it_never_falls_whatever_is_done_to_the_machines_clock(steps: list[tuple[float, float]]) -> None:
    machine, clock = a_clock()
    told_s = clock()
    for true_s, jump_s in steps:
        machine.true_s += true_s
        machine.off_s += jump_s
        assert clock() >= max(told_s, machine.wall())
        told_s = clock()

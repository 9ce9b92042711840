"""This module tests that the victims of an eviction are the set that destroys least."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.decisions import Preempted
from predictor.contracts.events import JobSubmitted
from predictor.contracts.forecast import LEVELS
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy import Policy
from predictor.scheduling.victims import cheapest_cover

ITEMS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), max_size=7)


@settings(deadline=None)  # the first call compiles
@given(items=ITEMS, short=st.integers(0, 12))
def test_the_cheapest_cover_costs_what_trying_all_sets_finds(
    items: list[tuple[int, int]], short: int
) -> None:
    widths = np.array([width for width, _ in items], dtype=np.int64)
    costs = np.array([cost for _, cost in items], dtype=np.float64)
    chosen = np.ones(len(items), dtype=np.bool_)
    total = cheapest_cover(widths, costs, short, chosen)
    sets = [each for size in range(len(items) + 1) for each in combinations(range(len(items)), size)]
    enough = [costs[list(each)].sum() for each in sets if widths[list(each)].sum() >= short]
    assert total == min(enough, default=np.inf)
    if enough:
        assert costs[chosen].sum() == total
        assert widths[chosen].sum() >= short


def test_a_wide_job_is_left_alone_where_a_narrow_one_is_enough() -> None:
    assert _evicted(Pool(name="gpu", total=9), {"wide": 8, "narrow": 1}) == ["narrow"]


def test_the_node_that_is_cheapest_to_clear_is_cleared() -> None:
    pool = Pool(name="gpu", node_units=(4, 4))
    evicted = _evicted(pool, {"a": 4, "b": 3, "c": 1}, wanted=2, lost={"a": 900.0, "b": 100.0, "c": 10.0})
    assert evicted == ["b"]


def test_what_cannot_be_resumed_stays_where_two_others_together_lose_less() -> None:
    pool = Pool(name="gpu", total=4)
    evicted = _evicted(pool, {"a": 2, "b": 1, "c": 1}, wanted=2, lost={"a": 400.0, "b": 50.0, "c": 60.0})
    assert sorted(evicted) == ["b", "c"]


def _evicted(
    pool: Pool, widths: dict[str, int], *, wanted: int = 1, lost: dict[str, float] | None = None
) -> list[str]:
    """Let jobs fill a pool and an emergency come after an hour; return who was evicted."""
    coordinator = Coordinator(Policy(), [pool])
    for name, width in widths.items():
        restart_s = (lost or {}).get(name, 60.0)
        coordinator.apply(_job(name, 0.0, width, checkpoint="system", restart_cost_s=restart_s))
    assert coordinator.running == len(widths)
    decisions = coordinator.apply(_job("urgent", 3600.0, wanted, workload_class="emergency"))
    return [each.job_id for each in decisions if isinstance(each, Preempted)]


def _job(name: str, now_s: float, width: int, **given: object) -> JobSubmitted:
    quantiles_s = (100_000.0,) * len(LEVELS)
    return JobSubmitted(now_s=now_s, job_id=name, width=width, quantiles_s=quantiles_s, **given)  # type: ignore[arg-type]

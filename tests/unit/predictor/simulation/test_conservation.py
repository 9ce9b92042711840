"""This module holds for any jobs: what comes in comes out, nothing is booked twice, runs repeat exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.forecast import LEVELS
from predictor.scheduling.capacity import Pool
from predictor.simulation.engine import simulate
from predictor.simulation.failures import draw_outages
from predictor.simulation.policies import NAMES, arrivals_for, contenders
from predictor.simulation.report import score
from predictor.simulation.result import REFUSED, SimulationResult
from predictor.simulation.trace import Trace

N_MOST = 40
COUNTED = (Pool(name="cpu", total=8),)
NODES = (Pool(name="gpu", node_units=(4, 4)),)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, N_MOST))
    whole = st.integers(1, 60)
    work_s = np.array(draw(st.lists(whole, min_size=n, max_size=n)), dtype=float)
    gaps = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    slack = np.array(draw(st.lists(st.integers(0, 60), min_size=n, max_size=n)), dtype=float)
    width = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    kinds = draw(st.lists(st.sampled_from(("none", "application", "system")), min_size=n, max_size=n))
    classes = draw(st.lists(st.sampled_from(("emergency", "experiment", "")), min_size=n, max_size=n))
    return Trace(
        job_ids=tuple(map(str, range(n))),
        rows=np.arange(n),
        submitted_s=np.cumsum(gaps).astype(float),
        work_s=work_s,
        limit_s=work_s + slack,
        width=np.array(width),
        timed_out=slack == 0,
        user=tuple(str(k % 3) for k in range(n)),
        workload_class=tuple(classes),
        gpu_type=("",) * n,
        region=("",) * n,
        checkpoint=tuple(kinds),
        deadline_s=np.full(n, np.nan),
        preemptible=np.full(n, -1),
        checkpoint_interval_s=np.full(n, 7.0),
        restart_cost_s=np.full(n, 2.0),
        left_out={},
    )


def play(name: str, trace: Trace, pools: tuple[Pool, ...], *, failing: bool) -> SimulationResult:
    (contender,) = contenders(name)
    quantiles_s = np.outer(trace.work_s, np.linspace(0.2, 3.0, len(LEVELS)))
    arrivals = arrivals_for(contender, trace, quantiles_s, trace.work_s * 1.5)
    outages = draw_outages(pools, from_s=0, to_s=300, mean_between_s=150, repair_s=20, seed=3)
    return simulate(trace, pools, contender.policy, arrivals, outages=outages if failing else ())


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(trace=traces(), on_nodes=st.booleans(), failing=st.booleans())
def test_as_many_jobs_come_out_as_went_in_and_no_unit_is_held_twice(
    name: str, trace: Trace, *, on_nodes: bool, failing: bool
) -> None:
    pools = NODES if on_nodes else COUNTED
    result = play(name, trace, pools, failing=failing)
    too_wide = trace.width > pools[0].total
    assert np.array_equal(result.outcome == REFUSED, too_wide)
    assert result.completed.sum() + too_wide.sum() == len(trace)
    done = result.completed
    assert (result.start_s[done] >= trace.submitted_s[done]).all()
    assert (result.wait_s[done] >= -1e-6).all()
    _assert_never_above(result, pools[0].total)
    assert not score(result).utilisation > 1 + 1e-9
    if on_nodes:
        for node in range(len(pools[0].node_units)):
            _assert_never_above(result, pools[0].node_units[node], node)


def _assert_never_above(result: SimulationResult, units: int, node: int = -1) -> None:
    attempts = result.attempts
    steps = []
    for at in range(len(attempts.job)):
        width = int(result.trace.width[attempts.job[at]])
        if node >= 0:
            width = sum(count for index, count in attempts.nodes[at] if index == node)
        steps += [(float(attempts.end_s[at]), -width), (float(attempts.start_s[at]), width)]
    held = 0
    for _, change in sorted(steps):
        held += change
        assert held <= units


@pytest.mark.parametrize("name", ["easy", "ours", "srtf-oracle"])
@settings(max_examples=5, deadline=None)
@given(trace=traces())
def test_the_same_jobs_have_the_same_schedule_again(name: str, trace: Trace) -> None:
    first, second = (play(name, trace, NODES, failing=True) for _ in range(2))
    assert np.array_equal(first.end_s, second.end_s, equal_nan=True)
    assert np.array_equal(first.attempts.start_s, second.attempts.start_s)
    assert first.attempts.nodes == second.attempts.nodes

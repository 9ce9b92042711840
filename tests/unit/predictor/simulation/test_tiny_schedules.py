"""This module holds whole schedules that were worked out by hand on paper, against the simulator."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from predictor.data.schema import conform
from predictor.errors import ArgumentError, EmptyInputError
from predictor.scheduling.capacity import Pool
from predictor.simulation.engine import simulate
from predictor.simulation.failures import Outage, draw_outages
from predictor.simulation.policies import arrivals_for, contenders
from predictor.simulation.report import jain_index, score
from predictor.simulation.result import SimulationResult
from predictor.simulation.trace import Trace, build_trace

FOUR = (Pool(name="cpu", total=4),)


def trace_of(*jobs: tuple[float, float, float, int], user: Sequence[str] = (), **more: object) -> Trace:
    """Return jobs of (submitted, work, limit, width)."""
    submitted, work, limit, width = zip(*jobs, strict=True)
    frame = pd.DataFrame(
        {
            "job_id": [str(k) for k in range(len(jobs))],
            "attempt": 0.0,
            "state": "COMPLETED",
            "submitted_at": pd.to_datetime(pd.Series(submitted) * 1e9, utc=True),
            "elapsed_s": np.array(work, dtype=float),
            "walltime_s": np.array(limit, dtype=float),
            "requested_cpus": np.array(width, dtype=float),
            "user": list(user) or ["u"] * len(jobs),
            **more,
        }
    )
    return build_trace(conform(frame), units="cpus")


def play(name: str, trace: Trace, outages: Sequence[Outage] = ()) -> SimulationResult:
    (contender,) = contenders(name)
    return simulate(trace, FOUR, contender.policy, arrivals_for(contender, trace, None), outages=outages)


# A holds three of four units until 100; B needs all four; C (50 s) and D (200 s) need one unit each.
BLOCKED = ((0, 100, 100, 3), (1, 100, 100, 4), (2, 50, 50, 1), (3, 200, 200, 1))


def test_fifo_lets_nobody_go_ahead_of_the_blocked_head() -> None:
    assert play("fifo", trace_of(*BLOCKED)).start_s.tolist() == [0, 100, 200, 200]


def test_easy_backfills_what_ends_before_the_promise_and_nothing_else() -> None:
    assert play("easy", trace_of(*BLOCKED)).start_s.tolist() == [0, 100, 2, 200]


def test_easy_goes_by_the_limit_although_the_job_would_end_in_time() -> None:
    jobs = ((0, 100, 100, 3), (1, 100, 100, 4), (2, 50, 300, 1))
    assert play("easy", trace_of(*jobs)).start_s.tolist() == [0, 100, 200]


def test_easy_pp_believes_the_mean_of_the_users_last_two_jobs() -> None:
    # two jobs of v took 10 and 30 s: its third, whose limit is 300 s, is taken for 20 s and backfilled
    jobs = ((0, 10, 300, 1), (0, 30, 300, 1), (40, 100, 100, 3), (41, 100, 100, 4), (42, 20, 300, 1))
    trace = trace_of(*jobs, user=["v", "v", "w", "w", "v"])
    assert play("easy-pp", trace).start_s.tolist() == [0, 0, 40, 140, 42]
    assert play("easy", trace).start_s.tolist() == [0, 0, 40, 140, 240]


def test_the_sjf_oracle_takes_the_shortest_first() -> None:
    jobs = ((0, 100, 100, 4), (1, 80, 80, 4), (2, 20, 20, 4), (3, 50, 50, 4))
    assert play("sjf-oracle", trace_of(*jobs)).start_s.tolist() == [0, 170, 100, 120]


def test_the_srtf_oracle_evicts_the_longer_job_and_takes_it_up_again() -> None:
    jobs = ((0, 100, 100, 4), (10, 20, 20, 4))
    trace = trace_of(*jobs, checkpoint_kind=["system", "system"], preemptible=[True, True])
    result = play("srtf-oracle", trace)
    assert result.start_s.tolist() == [0, 10]
    assert result.end_s.tolist() == [120, 30]
    assert result.evictions.tolist() == [1, 0]
    assert score(result).lost_gpu_h == 0


def test_an_eviction_without_checkpoint_costs_the_work_that_is_repeated() -> None:
    jobs = ((0, 100, 100, 4), (10, 20, 20, 4))
    result = play("srtf-oracle", trace_of(*jobs, preemptible=[True, True]))
    assert result.end_s.tolist() == [130, 30]
    assert score(result).lost_gpu_h == pytest.approx(10 * 4 / 3600)


def test_a_finish_frees_its_units_for_a_job_submitted_at_the_same_instant() -> None:
    assert play("fifo", trace_of((0, 10, 10, 4), (10, 5, 5, 4))).start_s.tolist() == [0, 10]


def test_a_failing_unit_stops_the_job_on_it_which_starts_again_from_nothing() -> None:
    outage = Outage(from_s=30, to_s=50, pool=0, node=0)
    result = play("easy", trace_of((0, 100, 100, 4)), (outage,))
    assert result.end_s.tolist() == [150]
    assert result.failures.tolist() == [1]


def test_a_checkpoint_survives_a_failure() -> None:
    trace = trace_of((0, 100, 100, 4), checkpoint_kind=["application"], checkpoint_interval_s=[20.0])
    result = play("easy", trace, (Outage(from_s=30, to_s=50, pool=0, node=0),))
    assert result.end_s.tolist() == [130]


def test_units_that_fail_at_one_instant_are_all_gone_and_come_back_once() -> None:
    outages = [Outage(from_s=10, to_s=20 + 5 * node, pool=0, node=node) for node in range(4)]
    result = play("fifo", trace_of((0, 30, 30, 1), *[(40, 10, 10, 2)] * 4), outages)
    assert result.end_s.tolist() == [50, 50, 60, 60, 70]
    assert score(result).utilisation == (10 + 30 + 80) / (4 * 70)


def test_no_job_runs_on_units_that_are_gone() -> None:
    outages = [Outage(from_s=10 + node, to_s=500, pool=0, node=node) for node in range(3)]
    result = play("fifo", trace_of((0, 100, 100, 2)), outages)
    assert result.start_s.tolist() == [0]
    assert result.end_s.tolist() == [600]  # a single unit is left meanwhile
    assert result.failures.tolist() == [3]


def test_nodes_fail_as_often_as_stated() -> None:
    outages = draw_outages(FOUR, from_s=0, to_s=1e6, mean_between_s=1000, repair_s=10, seed=1)
    assert 3700 < len(outages) < 4200
    assert outages == draw_outages(FOUR, from_s=0, to_s=1e6, mean_between_s=1000, repair_s=10, seed=1)
    with pytest.raises(ArgumentError, match="above 0"):
        draw_outages(FOUR, from_s=0, to_s=1, mean_between_s=0, repair_s=10, seed=1)


def test_a_job_wider_than_the_cluster_is_refused_and_counted() -> None:
    result = play("easy", trace_of((0, 10, 10, 5), (0, 10, 10, 4)))
    assert result.completed.tolist() == [False, True]
    assert (score(result).jobs, score(result).unfit, score(result).cancelled) == (1, 1, 0)


def test_the_scores_of_two_jobs_are_those_worked_out_by_hand() -> None:
    # the second waits 90 s and runs 10: slowdown 10; busy 4 * 100 + 4 * 10 of 4 * 110
    scores = score(play("fifo", trace_of((0, 100, 100, 4), (10, 10, 10, 4), user=["a", "b"])))
    assert scores.mean_wait_s == 45
    assert scores.max_wait_s == 90
    assert scores.mean_bounded_slowdown == 5.5
    assert scores.mean_jct_s == 100
    assert scores.utilisation == 1
    assert scores.jain == pytest.approx(jain_index(np.array([1.0, 10.0])))


def test_a_promise_is_judged_by_the_real_start() -> None:
    promises = score(play("easy", trace_of(*BLOCKED))).promises
    assert (promises.made, promises.median_abs_error_s) == (2, 0)


def test_the_offered_load_is_set_by_stretching_the_arrivals() -> None:
    trace = trace_of((0, 100, 100, 2), (100, 100, 100, 2))
    assert trace.offered_load(4) == 1.0
    slower = trace.at_load(0.5, 4)
    assert slower.submitted_s.tolist() == [0, 200]
    assert slower.offered_load(4) == 0.5
    assert trace.units_for(0.5) == 8
    assert np.isnan(trace.take(slice(0, 1)).offered_load(4))
    with pytest.raises(ArgumentError, match="load=0"):
        trace.at_load(0, 4)


def test_rows_that_cannot_be_played_are_counted_by_reason() -> None:
    trace = trace_of((0, 10, 10, 1), (0, 0, 10, 1), (0, 10, 10, 0))
    assert len(trace) == 1
    assert trace.left_out == {"without cpus": 1, "never ran": 1}
    with pytest.raises(EmptyInputError, match="check queue"):
        trace_of((0, 0, 10, 1))


def test_jobs_that_had_not_ended_are_counted_and_left_out() -> None:
    states = ["RUNNING", "COMPLETED", "PENDING", "UNKNOWN"]
    trace = trace_of((0, 10, 10, 1), (0, 10, 10, 1), (0, 0, 10, 1), (0, 10, 10, 1), state=states)
    assert trace.rows.tolist() == [1, 3]
    assert trace.left_out == {"had not ended": 2}


def test_a_job_that_outlived_its_limit_is_killed_only_when_asked() -> None:
    trace = trace_of((0, 20, 10, 1))
    assert (trace.work_s[0], trace.limit_s[0], bool(trace.timed_out[0])) == (20, 20, True)


def test_policies_are_named_changed_and_refused_by_name() -> None:
    assert [each.name for each in contenders("easy, ours,easy")] == ["easy", "ours"]
    assert len(contenders("all")) == 9
    (changed,) = contenders("ours:reserve.heads=7:preemption.mode=order")
    assert changed.policy.reserve.heads == 7
    assert changed.policy.preemption.mode == "order"
    assert changed.knows == "forecast"
    with pytest.raises(ArgumentError, match="nonsense"):
        contenders("easy,nonsense")
    with pytest.raises(ArgumentError, match="heeds"):
        contenders("ours:reserve.heeds=7")
    with pytest.raises(ArgumentError, match="needs forecasts"):
        arrivals_for(contenders("ours")[0], trace_of((0, 1, 1, 1)), None)

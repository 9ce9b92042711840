"""This module tests that synthetic logs are reproducible, well-formed and censored as stated."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from predictor.contracts.job import CENSORED_STATES, OBSERVED_STATES, JobState
from predictor.data.schema import COLUMNS, conform, seconds
from predictor.data.synthetic import GpuType, SyntheticLog, WorkloadSpec, generate
from predictor.data.validate import validate
from predictor.errors import ArgumentError


@pytest.fixture(scope="module")
def log() -> SyntheticLog:
    return generate(WorkloadSpec(jobs=6000, days=60.0, random_state=3))


def rows_in(log: SyntheticLog, *states: JobState) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return log.frame["state"].isin([state.value for state in states]).to_numpy(dtype=np.bool_)


def elapsed_s(log: SyntheticLog) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return log.frame["elapsed_s"].to_numpy(dtype=np.float64)


def check_invariants(log: SyntheticLog) -> None:
    """Whatever the spec: the schema holds, no row is at fault, and what is recorded agrees with the truth."""
    frame, spec = log.frame, log.spec
    pd.testing.assert_frame_equal(conform(frame), frame)
    assert validate(frame).fault_counts == {}
    assert len(frame) == len(log.truth)
    assert (frame["attempt"] == 0).sum() == spec.jobs
    assert not frame.duplicated(["job_id", "attempt"]).any()
    submitted_s = seconds(frame["submitted_at"])
    assert (np.diff(submitted_s) >= 0).all()
    assert submitted_s.min() >= spec.start_ts
    assert submitted_s.max() <= spec.end_ts
    ran = frame["started_at"].notna().to_numpy()
    elapsed = elapsed_s(log)
    assert (elapsed[ran] >= 1).all()
    assert np.isnan(elapsed[~ran]).all()
    censored = rows_in(log, *CENSORED_STATES) & ran
    observed = rows_in(log, *OBSERVED_STATES)
    assert (censored | observed)[ran].all()
    # one second: an attempt that is over within its first second is recorded as one second
    assert (elapsed[censored] <= np.maximum(log.truth.duration_s[censored], 1.0)).all()
    assert (elapsed[observed] == np.maximum(np.ceil(log.truth.duration_s[observed]), 1.0)).all()
    if not spec.censoring:
        assert observed.all()


small_specs = st.builds(
    WorkloadSpec,
    jobs=st.integers(1, 150),
    days=st.floats(0.05, 40.0),
    users=st.integers(1, 12),
    gpu_job_share=st.floats(0.0, 1.0),
    templates_per_user=st.floats(1.0, 5.0),
    newcomer_share=st.floats(0.0, 1.0),
    array_share=st.floats(0.0, 0.5),
    burst_share=st.floats(0.0, 0.5),
    drift_strength=st.floats(0.0, 0.5),
    failure_rate=st.floats(0.0, 0.5),
    out_of_memory_rate=st.floats(0.0, 0.5),
    tail_weight=st.floats(0.0, 0.5),
    censoring=st.booleans(),
    cancel_running_ratio=st.floats(0.0, 2.0),
    cancel_pending_rate=st.floats(0.0, 1.0),
    preemption_hazard_per_h=st.floats(0.0, 2.0),
    node_failure_hazard_per_node_h=st.floats(0.0, 2.0),
    unlimited_share=st.floats(0.0, 1.0),
    requeue=st.booleans(),
    mean_wait_s=st.floats(0.0, 1e5),
    random_state=st.integers(0, 2**32),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spec=small_specs)
def test_every_spec_gives_a_valid_log_that_agrees_with_its_truth(spec: WorkloadSpec) -> None:
    check_invariants(generate(spec))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spec=small_specs, level=st.floats(0.001, 0.999))
def test_quantiles_invert_the_distribution_function(spec: WorkloadSpec, level: float) -> None:
    truth = generate(spec).truth
    quantile_s = truth.true_quantile_s([level])[:, 0]
    np.testing.assert_allclose(truth.cdf(quantile_s), level, atol=1e-9)


def test_a_large_log_holds_all_invariants(log: SyntheticLog) -> None:
    check_invariants(log)


def test_the_same_spec_gives_the_same_log(log: SyntheticLog) -> None:
    again = generate(log.spec)
    pd.testing.assert_frame_equal(again.frame, log.frame)
    pd.testing.assert_frame_equal(again.truth.to_frame(), log.truth.to_frame())


def test_another_seed_gives_another_log(log: SyntheticLog) -> None:
    other = generate(replace(log.spec, random_state=4))
    assert not other.frame["submitted_at"].head(100).equals(log.frame["submitted_at"].head(100))


def test_every_state_but_unknown_occurs(log: SyntheticLog) -> None:
    busy = generate(WorkloadSpec(jobs=20_000, days=20.0, mean_wait_s=20_000.0, random_state=1))
    assert set(busy.frame["state"]) == set(JobState) - {JobState.UNKNOWN}


def test_a_timeout_ran_exactly_as_long_as_its_limit(log: SyntheticLog) -> None:
    timeout = rows_in(log, JobState.TIMEOUT)
    assert timeout.sum() > 50
    assert (elapsed_s(log)[timeout] == log.frame["walltime_s"].to_numpy()[timeout]).all()


def test_a_running_job_is_seen_until_the_cut(log: SyntheticLog) -> None:
    running = rows_in(log, JobState.RUNNING)
    assert running.any()
    assert log.frame["ended_at"][running].isna().all()
    seen_until = seconds(log.frame["started_at"])[running] + elapsed_s(log)[running]
    assert (seen_until == log.spec.end_ts).all()


def test_only_preemptible_jobs_are_preempted(log: SyntheticLog) -> None:
    preempted = rows_in(log, JobState.PREEMPTED)
    assert preempted.any()
    assert log.frame["preemptible"][preempted].all()


def test_a_requeued_attempt_enters_the_queue_when_the_one_before_it_ended(log: SyntheticLog) -> None:
    second = log.frame[log.frame["attempt"] == 1].set_index("job_id")
    first = log.frame[log.frame["attempt"] == 0].set_index("job_id").loc[second.index]
    assert len(second) > 0
    assert set(first["state"]) <= {JobState.PREEMPTED, JobState.NODE_FAIL}
    assert (first["ended_at"] == second["submitted_at"]).all()
    assert (first["job_name"] == second["job_name"]).all()


def test_new_users_appear_long_after_the_begin(log: SyntheticLog) -> None:
    first_seen = log.frame.groupby("user")["submitted_at"].min()
    late = first_seen > log.frame["submitted_at"].iloc[0] + pd.Timedelta(days=20)
    assert late.sum() >= 3


def test_array_tasks_share_one_job_id_and_count_from_zero(log: SyntheticLog) -> None:
    tasks = log.frame[log.frame["array_job_id"].notna() & (log.frame["attempt"] == 0)]
    assert len(tasks) > 0
    index = tasks["array_task_index"].astype("int64").astype("str")
    assert (tasks["job_id"] == tasks["array_job_id"] + "_" + index).all()
    groups = tasks.groupby("array_job_id")["array_task_index"]
    assert (groups.min() == 0).all()
    assert (groups.max() == groups.count() - 1).all()
    assert len(tasks[["array_job_id", "job_name"]].drop_duplicates()) == len(groups)


def test_memory_peaks_fit_into_what_was_given(log: SyntheticLog) -> None:
    frame = log.frame
    peak = frame["peak_host_memory_mib"]
    assert (peak.isna() | (peak <= frame["requested_memory_mib"])).all()
    memory_mib = frame["gpu_type"].map({kind.name: kind.memory_mib for kind in log.spec.gpu_types})
    vram = frame["peak_vram_mib"]
    assert (vram.isna() | (vram <= memory_mib)).all()
    assert vram[frame["requested_gpus"] == 0].isna().all()
    exhausted = rows_in(log, JobState.OUT_OF_MEMORY)
    assert (peak == frame["requested_memory_mib"])[exhausted].all()


def test_a_faster_gpu_type_shortens_durations_by_its_speed() -> None:
    slow = GpuType(name="slow", weight=1.0, speed=1.0, memory_mib=40_960.0)
    spec = WorkloadSpec(jobs=500, gpu_job_share=1.0, gpu_types=(slow,), random_state=5)
    fast = generate(replace(spec, gpu_types=(replace(slow, speed=4.0),)))
    np.testing.assert_allclose(
        generate(replace(spec, requeue=False, censoring=False)).truth.log_location,
        generate(replace(fast.spec, requeue=False, censoring=False)).truth.log_location + np.log(4.0),
    )


def test_without_drift_the_location_of_a_template_depends_on_the_request_only() -> None:
    spec = WorkloadSpec(jobs=3000, drift_strength=0.0, random_state=2)
    still = generate(spec)
    shape = still.frame[["gpu_type", "epochs", "requested_gpus"]].assign(template=still.truth.template)
    locations = pd.Series(still.truth.log_location).groupby([*shape.to_numpy(dtype=object).T], dropna=False)
    assert (locations.max() - locations.min()).max() < 1e-9


def test_all_faults_of_a_spec_are_told_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        WorkloadSpec(jobs=0, tail_weight=1.5, array_share=0.7, burst_share=0.7, gpu_types=())
    text = str(caught.value)
    assert all(
        word in text for word in ("jobs=0", "tail_weight=1.5", "array_share and burst_share", "gpu_types")
    )


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, float("nan")])
def test_a_level_that_is_no_probability_is_refused(log: SyntheticLog, level: float) -> None:
    with pytest.raises(ArgumentError, match="strictly between 0 and 1"):
        log.truth.true_quantile_s([0.5, level])


def test_every_column_that_the_generator_knows_is_filled(log: SyntheticLog) -> None:
    empty = {name for name in COLUMNS if log.frame[name].isna().all()}
    assert empty == {
        "dependency", "constraints", "reservation", "optimizer", "parallelism", "gradient_checkpointing",
        "lora_rank", "steps", "deadline_at", "checkpoint_kind", "checkpoint_interval_s", "data_region",
    }  # fmt: skip

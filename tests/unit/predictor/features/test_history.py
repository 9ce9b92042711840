"""The as-of history: nothing of the future, one implementation for batch and online."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.job import JobState
from predictor.contracts.request import JobRequest
from predictor.data.schema import conform
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.features.assemble import FeatureBuilder, feature_names, log_features
from predictor.features.history import HistoryFeatures, HistoryStore, history_names, lifetimes
from predictor.features.names import name_group
from predictor.features.request import columns_of_requests, request_columns
from predictor.features.rowwise import Vocabulary

JobRow = tuple[int, str, float, float, float, str, float]


def a_log(rows: list[JobRow]) -> pd.DataFrame:
    """Build a table of (submit, user, wait, run, walltime, state, gpus)."""
    submit = np.array([row[0] for row in rows], dtype=float)
    start = submit + np.array([row[2] for row in rows])
    end = start + np.array([row[3] for row in rows])

    def times(values: npt.NDArray[np.float64]) -> "pd.Series[pd.Timestamp]":
        return pd.Series(pd.to_datetime(values, unit="s", utc=True)).astype("datetime64[us, UTC]")

    frame = pd.DataFrame(
        {
            "job_id": [str(index) for index in range(len(rows))],
            "array_job_id": ["a" if row[5] == "FAILED" else None for row in rows],
            "array_task_index": [index % 3 if row[5] == "FAILED" else None for index, row in enumerate(rows)],
            "attempt": 0.0,
            "cluster": "c",
            "user": [row[1] for row in rows],
            "queue": "q",
            "job_name": [f"train_{row[1]}_{index}" for index, row in enumerate(rows)],
            "requested_gpus": [row[6] for row in rows],
            "requested_cpus": 4.0,
            "requested_nodes": 1.0,
            "walltime_s": [row[4] for row in rows],
            "submitted_at": times(submit),
            "started_at": times(start),
            "ended_at": times(end),
            "elapsed_s": [row[3] for row in rows],
            "state": [row[5] for row in rows],
        }
    )
    return conform(frame)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 5000) | st.integers(0, 90).map(lambda second: 20 * second),  # often in a row
        st.sampled_from(["ann", "bob", "eve"]),
        st.integers(0, 2000).map(float),
        st.integers(0, 4000).map(float),
        st.sampled_from([3600.0, 7200.0, float("nan")]),
        st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]),
        st.sampled_from([0.0, 1.0, 8.0]),
    ),
    min_size=1,
    max_size=40,
)


def reading(features: HistoryFeatures, row: int, name: str) -> float:
    """Return one named reading of one job."""
    return float(features.values[row, history_names().index(name)])


def play_online(frame: pd.DataFrame) -> HistoryFeatures:
    """Feed the log event by event, reading each job just before it is submitted."""
    life = lifetimes(frame)
    submitted = request_columns(frame).submitted_s
    events = []
    for row in range(len(frame)):
        events.append((submitted[row], 0, row))
        if not np.isnan(life.start_s[row]):
            events.append((life.start_s[row], 1, row))
        if not np.isnan(life.end_s[row]):
            events.append((life.end_s[row], 2, row))
    store = HistoryStore()
    values: dict[int, npt.NDArray[np.float32]] = {}
    recent: dict[int, npt.NDArray[np.float32]] = {}
    for at_s, kind, row in sorted(events):
        job = frame.iloc[row]
        key = ("c", str(job["job_id"]), 0)
        if kind == 0:
            walltime_s = float(job["walltime_s"])
            request = columns_of_requests(
                [
                    JobRequest(
                        submitted_s=at_s,
                        cluster="c",
                        user=str(job["user"]),
                        queue="q",
                        job_name=str(job["job_name"]),
                        requested_gpus=float(job["requested_gpus"]),
                        requested_cpus=4.0,
                        requested_nodes=1.0,
                        walltime_s=None if np.isnan(walltime_s) else walltime_s,
                        array_task_index=None
                        if pd.isna(job["array_task_index"])
                        else int(job["array_task_index"]),
                    )
                ]
            )
            read = store.read(request)
            values[row], recent[row] = read.values[0], read.recent_log_s[0]
            store.submit(key, request)
        elif kind == 1:
            assert store.start(key, at_s)
        else:
            assert store.end(
                key, at_s, elapsed_s=float(life.elapsed_s[row]), state=JobState(str(job["state"]))
            )
    order = range(len(frame))
    return HistoryFeatures(
        values=np.stack([values[row] for row in order]), recent_log_s=np.stack([recent[row] for row in order])
    )


@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_batch_and_incremental_history_are_equal_bit_by_bit(rows: list[JobRow]) -> None:
    frame = a_log(rows)
    batch, online = HistoryStore().sweep_log(frame), play_online(frame)
    np.testing.assert_array_equal(batch.values, online.values)
    np.testing.assert_array_equal(batch.recent_log_s, online.recent_log_s)


@given(rows=ROWS, cut=st.integers(0, 6000), seed=st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_permuting_the_future_changes_no_feature(rows: list[JobRow], cut: int, seed: int) -> None:
    """Durations, states and ends that lie at or after the cut may be anything."""
    frame = a_log(rows)
    life = lifetimes(frame)
    late = np.flatnonzero(life.end_s >= cut)
    changed = frame.copy()
    rng = np.random.default_rng(seed)
    if len(late):
        new_end = np.maximum(cut, life.start_s[late]) + rng.integers(0, 10_000, len(late))
        changed.loc[changed.index[late], "elapsed_s"] = new_end - life.start_s[late]
        ends = pd.Series(pd.to_datetime(new_end, unit="s", utc=True), index=changed.index[late])
        changed.loc[changed.index[late], "ended_at"] = ends.astype("datetime64[us, UTC]")
        changed.loc[changed.index[late], "state"] = rng.permutation(
            frame["state"].to_numpy(dtype=object)[late]
        )
    early = request_columns(frame).submitted_s <= cut
    vocabulary = Vocabulary.learn(request_columns(frame))
    before, after = log_features(frame, vocabulary), log_features(conform(changed), vocabulary)
    np.testing.assert_array_equal(before.values[early], after.values[early])
    np.testing.assert_array_equal(before.recent_log_s[early], after.recent_log_s[early])


def test_the_previously_submitted_job_is_not_history_while_it_runs() -> None:
    """Same user, second job submitted while the first runs: its duration must not show."""
    frame = a_log(
        [
            (0, "ann", 0.0, 5000.0, 7200.0, "COMPLETED", 1.0),
            (100, "ann", 0.0, 10.0, 7200.0, "COMPLETED", 1.0),
            (6000, "ann", 0.0, 10.0, 7200.0, "COMPLETED", 1.0),
        ]
    )
    features = HistoryStore().sweep_log(frame)
    assert np.isnan(reading(features, 1, "user_last_log_s"))
    assert reading(features, 1, "user_running") == pytest.approx(np.log1p(1))
    assert reading(features, 1, "user_running_oldest_elapsed_log_s") == pytest.approx(np.log1p(100))
    assert reading(features, 2, "user_last_log_s") == pytest.approx(np.log(5000.0))  # ended last


def test_history_by_submission_order_would_be_caught() -> None:
    """A cheating history that uses the previously submitted job differs from ours where jobs overlap."""
    log = generate(WorkloadSpec(jobs=1500, days=10.0, random_state=3)).frame
    life = lifetimes(log)
    ours = log_features(log, Vocabulary.learn(request_columns(log)))
    last = ours.values[:, feature_names().index("user_last_log_s")]
    cheat = pd.Series(np.log(np.maximum(life.elapsed_s, 1.0))).groupby(log["user"].to_numpy()).shift(1)
    previous_end = pd.Series(life.end_s).groupby(log["user"].to_numpy()).shift(1).to_numpy()
    leaks = previous_end >= request_columns(log).submitted_s
    assert leaks.sum() > 50
    assert np.isclose(last[leaks], cheat.to_numpy()[leaks]).mean() < 0.2


def a_sweep(at_s: int, durations_s: list[float]) -> list[JobRow]:
    """Return a run of alike jobs, ten seconds apart."""
    return [
        (at_s + 10 * place, "ann", 0.0, duration_s, 3600.0, "COMPLETED", 0.0)
        for place, duration_s in enumerate(durations_s)
    ]


def test_a_job_of_a_sweep_sees_the_job_at_its_place_in_the_sweeps_before() -> None:
    durations_s = [100.0, 2000.0, 30.0, 700.0]
    frame = a_log(a_sweep(0, durations_s) + a_sweep(20_000, durations_s))
    features = HistoryStore().sweep_log(frame)
    seen = [np.exp(reading(features, row, "place_last_log_s")) for row in range(8)]
    assert np.isnan(seen[:5]).all()  # the first of a row is no sweep yet
    np.testing.assert_allclose(seen[5:], durations_s[1:], rtol=1e-6)


def test_a_pause_begins_a_new_sweep_and_other_requests_do_not() -> None:
    first = a_sweep(0, [100.0, 200.0, 300.0])
    other = [(15, "ann", 0.0, 50.0, 7200.0, "COMPLETED", 0.0)]  # in between, with another limit
    again = [*a_sweep(20_000, [1.0]), *a_sweep(20_061, [1.0, 1.0])]
    features = HistoryStore().sweep_log(a_log([*first, *other, *again]))
    seen = [np.exp(reading(features, row, "place_last_log_s")) for row in range(4, 7)]
    assert np.isnan(seen[:2]).all()
    assert seen[2] == pytest.approx(200.0)


def test_a_task_of_an_array_stands_where_its_index_says() -> None:
    frame = a_log(a_sweep(0, [100.0, 2000.0, 30.0]) + a_sweep(20_000, [30.0, 100.0, 2000.0]))
    frame["array_job_id"] = ["1"] * 3 + ["2"] * 3
    frame["array_task_index"] = [0.0, 1.0, 2.0, 2.0, 0.0, 1.0]
    features = HistoryStore().sweep_log(conform(frame))
    seen = [np.exp(reading(features, row, "place_last_log_s")) for row in range(3, 6)]
    np.testing.assert_allclose(seen, [30.0, 100.0, 2000.0], rtol=1e-6)


def test_a_job_asked_for_after_its_submission_keeps_its_place() -> None:
    store = HistoryStore()
    store.sweep_log(a_log(a_sweep(0, [100.0, 2000.0, 30.0, 700.0])))
    jobs = [
        JobRequest(
            submitted_s=20_000.0 + 10.0 * place, cluster="c", user="ann", queue="q", job_name="train_ann_1",
            requested_gpus=0.0, requested_cpus=4.0, requested_nodes=1.0, walltime_s=3600.0,
        )
        for place in range(3)
    ]  # fmt: skip
    keys = [("c", f"new{place}", 0) for place in range(3)]
    before = []
    for key, job in zip(keys, jobs, strict=True):
        before.append(reading(store.read(columns_of_requests([job])), 0, "place_last_log_s"))
        store.submit(key, columns_of_requests([job]))
    after = store.read(columns_of_requests(jobs), keys)
    assert [reading(after, row, "place_last_log_s") for row in range(3)] == pytest.approx(before, nan_ok=True)


def test_a_job_of_zero_length_does_not_see_itself() -> None:
    frame = a_log([(10, "ann", 0.0, 0.0, 3600.0, "FAILED", 0.0)])
    features = HistoryStore().sweep_log(frame)
    assert reading(features, 0, "user_count_ended") == 0.0


def test_jobs_cancelled_while_pending_teach_no_duration() -> None:
    frame = a_log(
        [(0, "ann", 0.0, 100.0, 3600.0, "COMPLETED", 0.0), (500, "ann", 0.0, 9.0, 3600.0, "COMPLETED", 0.0)]
    )
    frame.loc[0, "started_at"] = pd.NaT
    frame.loc[0, "elapsed_s"] = np.nan
    frame.loc[0, "state"] = "CANCELLED"
    features = HistoryStore().sweep_log(conform(frame))
    assert reading(features, 1, "user_count_ended") == 0.0
    assert reading(features, 1, "user_pending") == 0.0


def test_a_stored_history_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Play half a log, store, restore, and read: the same as without the stop."""
    log = generate(WorkloadSpec(jobs=400, days=5.0, random_state=1)).frame
    submitted = request_columns(log).submitted_s
    cut = float(np.median(submitted))
    store = HistoryStore()
    store.sweep_log(log, until_s=cut)
    np.savez(tmp_path / "history.npz", allow_pickle=False, **store.export_arrays())
    (tmp_path / "history.json").write_text(json.dumps(store.export_names()))
    with np.load(tmp_path / "history.npz") as arrays:
        again = HistoryStore.restore(dict(arrays), json.loads((tmp_path / "history.json").read_text()))
    later = request_columns(log[submitted >= cut].head(20))
    np.testing.assert_array_equal(store.read(later).values, again.read(later).values)
    assert len(again) == len(store) > 0


def test_a_store_takes_one_log_only() -> None:
    log = generate(WorkloadSpec(jobs=60, days=2.0, random_state=1)).frame
    store = HistoryStore()
    store.sweep_log(log)
    with pytest.raises(ValueError, match="new HistoryStore"):
        store.sweep_log(log)


def test_outcomes_that_come_late_or_twice_do_no_harm() -> None:
    store = HistoryStore()
    request = columns_of_requests([JobRequest(submitted_s=100.0, user="ann")])
    job = (None, "1", 0)
    assert not store.end(job, 5.0, elapsed_s=3.0, state=JobState.COMPLETED)
    store.submit(job, request)
    store.submit(job, request)
    assert store.start(job, 150.0)
    assert not store.start(job, 160.0)
    assert store.end(job, 120.0, elapsed_s=30.0, state=JobState.COMPLETED)  # the clock went backwards
    assert not store.end(job, 121.0, elapsed_s=30.0, state=JobState.COMPLETED)
    assert np.isfinite(store.read(request).values[0, 0])


@given(name=st.text(max_size=60))
def test_no_number_survives_in_a_name_group(name: str) -> None:
    assert not any(letter.isdecimal() for letter in name_group(name))


def test_names_that_differ_in_numbers_only_share_a_group() -> None:
    assert name_group("train_llama_0012") == name_group("train_llama_0999")
    assert name_group("sweep-lr3e-4-seed7") == name_group("sweep-lr1e-5-seed12")
    assert name_group("run_a3f9c2e1") == name_group("run_77bd01ac")
    assert name_group("train") != name_group("eval")


def test_features_do_not_depend_on_how_many_jobs_are_asked_at_once() -> None:
    """Small requests take the loop, large ones the columnar path; both give the same numbers."""
    log = generate(WorkloadSpec(jobs=300, days=5.0, random_state=2)).frame
    store = HistoryStore()
    store.sweep_log(log)
    builder = FeatureBuilder(Vocabulary.learn(request_columns(log)))
    many = request_columns(log.tail(100))
    together = builder.assemble(many, store.read(many)).values
    for row in range(0, 100, 17):
        one = request_columns(log.tail(100).iloc[[row]])
        np.testing.assert_array_equal(builder.assemble(one, store.read(one)).values[0], together[row])


def test_a_request_of_zeros_or_of_nothing_has_no_logarithms() -> None:
    jobs = [
        JobRequest(submitted_s=4 * 86400.0 + 3600.0, requested_gpus=0, requested_cpus=0, requested_nodes=2),
        JobRequest(
            submitted_s=0.0, walltime_s=7200.0, requested_memory_mib=8.0, requested_cpus=4.0, queue="q"
        ),
    ]
    requests = columns_of_requests(jobs)
    table = FeatureBuilder(Vocabulary(values=(("p", "q"), (), ()))).assemble(
        requests, HistoryStore().read(requests)
    )
    row = [dict(zip(feature_names(), values.tolist(), strict=True)) for values in table.values]
    assert np.isnan([row[0]["log_cpus"], row[0]["log_walltime_s"], row[0]["log_memory_per_cpu_mib"]]).all()
    assert np.isnan(
        [row[0]["log_cpus_per_node"], row[0]["walltime_is_whole_days"], row[0]["queue_code"]]
    ).all()
    assert (row[0]["log_gpus"], row[0]["gpus_per_node"]) == (0.0, 0.0)
    assert (row[0]["hour_utc"], row[0]["weekday_utc"]) == (1.0, 0.0)  # a Monday
    assert (row[1]["walltime_is_whole_days"], row[1]["walltime_is_whole_hours"]) == (0.0, 1.0)
    assert (row[1]["weekday_utc"], row[1]["queue_code"]) == (3.0, 1.0)  # a Thursday
    assert row[1]["log_memory_per_cpu_mib"] == np.float32(np.log(2.0))
    assert table.limit_s.tolist() == [np.inf, 7200.0]
    assert table.support.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_no_jobs_have_no_features() -> None:
    requests = columns_of_requests([])
    table = FeatureBuilder(Vocabulary(values=((), (), ()))).assemble(requests, HistoryStore().read(requests))
    assert table.values.shape == (0, len(feature_names()))

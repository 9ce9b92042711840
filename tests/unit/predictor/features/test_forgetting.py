"""The bound of the history: memory ends somewhere, and what is used or under way is never forgotten."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.job import JobState
from predictor.contracts.request import JobRequest
from predictor.features.history import HistoryStore, JobKey
from predictor.features.keys import KEY_KINDS
from predictor.features.request import RequestColumns, columns_of_requests


def a_request(at_s: float, user: str, walltime_s: float) -> RequestColumns:
    return columns_of_requests(
        [JobRequest(submitted_s=at_s, cluster="c", user=user, requested_gpus=1.0, walltime_s=walltime_s)]
    )


def run(store: HistoryStore, number: int, user: str, walltime_s: float, elapsed_s: float) -> None:
    job: JobKey = ("c", f"{user}{number}", 0)
    at_s = 1000.0 * number
    store.submit(job, a_request(at_s, user, walltime_s))
    store.start(job, at_s + 1.0)
    store.end(job, at_s + 1.0 + elapsed_s, elapsed_s=elapsed_s, state=JobState.COMPLETED)


def test_ever_new_requests_fill_no_more_than_the_bound() -> None:
    store = HistoryStore(most_keys=256)
    counts = []
    for number in range(256):
        run(store, number, "ann", 60.0 + number, 10.0)
    full = store.export_arrays()["stat"]
    for number in range(256, 3000):
        run(store, number, "ann", 60.0 + number, 10.0)
        counts.append(store.key_count)
    assert max(counts) <= 256
    assert len(full) == 256
    assert np.shares_memory(full, store.export_arrays()["stat"])  # no copies, which would leave holes
    assert min(counts) >= 256 - 256 // 4 - len(KEY_KINDS)


def test_what_is_used_now_and_then_keeps_its_history_and_what_is_not_loses_it() -> None:
    store = HistoryStore(most_keys=256)
    run(store, 0, "old", 7.0, 70.0)
    for number in range(1, 2000):
        run(store, number, "ann", 60.0 + number, 10.0)
        if number % 20 == 0:
            run(store, number, "bob", 5.0, 50.0)
    later = [
        store.read(a_request(3e6, user, limit)).recent_log_s for user, limit in (("bob", 5.0), ("old", 7.0))
    ]
    assert np.isclose(later[0][0, :2, :2], np.log(50.0)).all()  # of the user and of the template
    assert np.isnan(later[1]).all()


def test_jobs_under_way_keep_their_keys_and_leave_no_trace_in_others() -> None:
    store = HistoryStore(most_keys=64)
    waiting = [("c", f"w{number}", 0) for number in range(200)]
    for number, job in enumerate(waiting):
        store.submit(job, a_request(float(number), f"u{number}", 10.0))
        if number % 2:
            store.start(job, number + 0.5)
    for number in range(1, 500):
        run(store, number, "ann", 60.0 + number, 10.0)
    for number, job in enumerate(waiting):
        assert store.end(job, 1e6, elapsed_s=30.0, state=JobState.COMPLETED)
        seen = store.read(a_request(2e6, f"u{number}", 10.0))
        assert np.isclose(seen.recent_log_s[0, :2, 0], np.log(30.0)).all()
    stat = store.export_arrays()["stat"]
    assert (stat[:, 2:4] == 0.0).all()  # none waits and none runs


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), min_size=30, max_size=90))
def test_a_store_that_has_forgotten_is_stored_and_goes_on_as_it_was(
    jobs: list[tuple[int, int, bool]],
) -> None:
    store = HistoryStore(most_keys=32)
    for number, (user, limit, ends) in enumerate(jobs):
        if ends:
            run(store, number, f"u{user}", float(limit), 5.0 + limit)
        else:
            store.submit(("c", f"open{number}", 0), a_request(1000.0 * number, f"u{user}", float(limit)))
    names = json.loads(json.dumps(store.export_names()))
    again = HistoryStore.restore(store.export_arrays(), names)
    assert again.key_count == store.key_count
    for user, limit, _ in jobs:
        asked = a_request(1e6, f"u{user}", float(limit))
        np.testing.assert_array_equal(store.read(asked).values, again.read(asked).values)


def test_as_much_is_remembered_as_a_store_without_a_bound_does_while_there_is_room() -> None:
    small, large = HistoryStore(most_keys=2048), HistoryStore(most_keys=10**9)
    for number in range(400):
        for store in (small, large):
            run(store, number, f"u{number % 7}", 60.0 + number % 50, 10.0 + number)
    asked = a_request(1e6, "u3", 63.0)
    np.testing.assert_array_equal(small.read(asked).values, large.read(asked).values)

"""The outcome route: durable, idempotent, and known to the next forecast."""

import asyncio
from typing import Any

import pytest

from serving.examples import OUTCOME_REQUESTS
from tests.api.harness import Harness, check_problem, pointers, rows

pytestmark = pytest.mark.anyio
URL = "/v1/outcomes"
SUBMITTED = {"event": "submitted", "job_id": "1", "user": "ada", "submitted_at": "2026-11-03T09:00:00Z"}
STARTED = {"event": "started", "job_id": "1", "started_at": "2026-11-03T09:10:00Z"}
FINISHED = {"event": "finished", "job_id": "1", "state": "COMPLETED", "ended_at": "2026-11-03T10:10:00Z"}
WHOLE = {"job_id": "2", "user": "ada", "state": "FAILED", "submitted_at": 1793700000,
         "started_at": 1793700010, "ended_at": 1793700070}  # fmt: skip


async def test_a_finished_job_counts_in_the_next_forecast(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        before = (await client.post("/v1/predictions", json={"user": "ada"})).json()
        receipt = await client.post(URL, json=WHOLE)
        after = (await client.post("/v1/predictions", json={"user": "ada"})).json()
    assert receipt.json() == {"status": 200, "result": "recorded", "event": "finished", "cluster": None,
                              "job_id": "2", "attempt": 0}  # fmt: skip
    assert (before["support"]["count"], after["support"]["count"]) == (0, 1)


async def test_the_final_row_holds_all_that_was_ever_told_of_the_job(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        for event in (SUBMITTED, STARTED, FINISHED):
            assert (await client.post(URL, json=event)).status_code == 200
    (row,) = rows(harness.root, "outcomes")
    assert (row["user"], row["submitted_at"], row["started_at"]) == (
        "ada",
        "2026-11-03T09:00:00Z",
        "2026-11-03T09:10:00Z",
    )
    assert (row["elapsed_s"], row["state"]) == (3600.0, "COMPLETED")
    assert [row["state"] for row in rows(harness.root, "announced")] == ["PENDING", "RUNNING"]


async def test_repeating_an_event_changes_nothing(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        for event in (SUBMITTED, STARTED, FINISHED):
            results = [(await client.post(URL, json=event)).json()["result"] for _ in range(2)]
            assert results == ["recorded", "duplicate"]
        support = (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]
    assert len(rows(harness.root, "outcomes")) == 1
    assert support["count"] == 1


async def test_the_same_event_with_other_content_is_a_conflict(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post(URL, json=WHOLE)
        answer = await client.post(URL, json={**WHOLE, "state": "COMPLETED"})
        other_attempt = await client.post(URL, json={**WHOLE, "attempt": 1})
        other_cluster = await client.post(URL, json={**WHOLE, "cluster": "beta"})
    check_problem(answer, 409, "outcome-conflict")
    assert (other_attempt.status_code, other_cluster.status_code) == (200, 200)


AGAIN = {**WHOLE, "submitted_at": 1793700080, "started_at": 1793700090, "ended_at": 1793700190}


async def test_an_id_that_is_used_again_after_its_job_has_ended_is_another_job(harness: Harness) -> None:
    later = [{**SUBMITTED, "submitted_at": "2026-11-03T10:10:00Z"},
             {**STARTED, "started_at": "2026-11-03T10:20:00Z"},
             {**FINISHED, "ended_at": "2026-11-03T11:00:00Z"}]  # fmt: skip
    harness.clock.now_s += 3600.0
    async with harness.serving() as (client, _):
        for event in (SUBMITTED, STARTED, FINISHED, *later, WHOLE, AGAIN):
            answer = await client.post(URL, json=event)
            assert (answer.status_code, answer.json()["result"]) == (200, "recorded"), answer.text
        support = (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]
    assert [row["elapsed_s"] for row in rows(harness.root, "outcomes")] == [3600.0, 2400.0, 60.0, 100.0]
    assert support["count"] == 4


async def test_events_of_every_run_of_an_id_are_recognised_also_after_a_restart(harness: Harness) -> None:
    runs = [WHOLE, AGAIN, {**AGAIN, "submitted_at": 1793700200, "started_at": 1793700300,
                           "ended_at": 1793700400}]  # fmt: skip
    async with harness.serving() as (client, _):
        batch = (await client.post(URL, json={"outcomes": [*runs, *runs]})).json()
        assert [item["result"] for item in batch["outcomes"]] == ["recorded"] * 3 + ["duplicate"] * 3
    async with harness.serving() as (client, _):
        for run in runs:
            assert (await client.post(URL, json=run)).json()["result"] == "duplicate"
        other = await client.post(URL, json={**runs[2], "state": "COMPLETED"})
        support = (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]
    check_problem(other, 409, "outcome-conflict")
    assert support["count"] == 3


async def test_a_job_that_ended_as_it_was_submitted_is_not_taken_for_another(harness: Harness) -> None:
    event = {"job_id": "9", "state": "CANCELLED", "submitted_at": 1793700000.1, "ended_at": 1793700000.1}
    async with harness.serving() as (client, _):
        assert (await client.post(URL, json=event)).status_code == 200
        assert (await client.post(URL, json=event)).json()["result"] == "duplicate"
        check_problem(await client.post(URL, json={**event, "user": "bob"}), 409, "outcome-conflict")


async def test_repetitions_are_recognised_after_a_restart(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post(URL, json=WHOLE)
    async with harness.serving() as (client, _):
        again = await client.post(URL, json=WHOLE)
        support = (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]
    assert again.json()["result"] == "duplicate"
    assert support["count"] == 1


async def test_an_open_job_is_remembered_over_a_restart(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post(URL, json=SUBMITTED)
    async with harness.serving() as (client, _):
        await client.post(URL, json=STARTED)
    async with harness.serving() as (client, _):
        assert (await client.post(URL, json=FINISHED)).status_code == 200
    assert rows(harness.root, "outcomes")[0]["user"] == "ada"


STORIES: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "no end, no state, never announced": (
        {"job_id": "9"}, [("/ended_at", "missing"), ("/submitted_at", "missing"), ("/state", "missing")]),
    "no id": ({"event": "started"}, [("/job_id", "missing")]),
    "an unknown state beside a fault of type": (
        {**WHOLE, "state": "DONE", "walltime_s": -1},
        [("/walltime_s", "out-of-range"), ("/state", "not-allowed")]),
    "a state that is not final": ({**WHOLE, "state": "RUNNING"}, [("/state", "not-allowed")]),
    "an end before the start": ({**WHOLE, "ended_at": 1793700000}, [("/ended_at", "out-of-order")]),
    "a start before the submission": ({**WHOLE, "started_at": 1793690000}, [("/started_at", "out-of-order")]),
    "a submission that knows its end": (
        {**SUBMITTED, "state": "COMPLETED", "ended_at": 1793700070},
        [("/ended_at", "not-applicable"), ("/state", "not-applicable")]),
    "a completed job that never ran": (
        {"job_id": "9", "state": "COMPLETED", "submitted_at": 1793700000, "ended_at": 1793700070},
        [("/elapsed_s", "missing")]),
    "an unknown event": ({**WHOLE, "event": "paused"}, [("/event", "invalid")]),
    "a misspelt field": ({**WHOLE, "exitcode": 1}, [("/exitcode", "unknown-field")]),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
async def test_every_fault_of_an_event_is_named(harness: Harness, story: str) -> None:
    body, want = STORIES[story]
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json=body)
    check_problem(answer, 422, "invalid-request")
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == want
    assert rows(harness.root, "outcomes") == []


@pytest.mark.parametrize(("ahead_s", "status"), [(900, 200), (901, 422), (365 * 86400, 422)])
async def test_what_has_not_happened_yet_is_refused_and_a_skew_of_clocks_is_not(
    harness: Harness, ahead_s: int, status: int
) -> None:
    late = {**WHOLE, "job_id": "late", "ended_at": harness.clock.now_s + ahead_s}
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"outcomes": [WHOLE, late]})
        one = await client.post(URL, json=late)
    assert [item["status"] for item in answer.json()["outcomes"]] == [200, status]
    assert [row["job_id"] for row in rows(harness.root, "outcomes")] == ["2", "late"][
        : 2 if status == 200 else 1
    ]
    if status == 422:
        check_problem(one, 422, "invalid-request")
        (fault,) = one.json()["errors"]
        assert (fault["pointer"], fault["code"]) == ("/ended_at", "in-the-future")
        assert f"{ahead_s} s ahead" in fault["detail"]
        assert "at most 900 s" in fault["detail"]


@pytest.mark.parametrize(("event", "field"), [(SUBMITTED, "submitted_at"), (STARTED, "started_at")])
async def test_submissions_and_starts_of_the_future_are_refused_too(
    harness: Harness, event: dict[str, Any], field: str
) -> None:
    async with harness.serving() as (client, _):
        await client.post(URL, json={**SUBMITTED, "job_id": "1" if event is STARTED else "0"})
        answer = await client.post(URL, json={**event, field: harness.clock.now_s + 3600})
    check_problem(answer, 422, "invalid-request")
    assert pointers(answer) == [f"/{field}"]


async def test_a_job_cancelled_in_the_queue_needs_no_start(harness: Harness) -> None:
    event = {"job_id": "9", "state": "CANCELLED", "submitted_at": 1793700000, "ended_at": 1793700070}
    async with harness.serving() as (client, _):
        assert (await client.post(URL, json=event)).status_code == 200
    assert "elapsed_s" not in rows(harness.root, "outcomes")[0]


async def test_a_batch_gives_each_event_its_receipt_or_problem(harness: Harness) -> None:
    events = [
        SUBMITTED,
        STARTED,
        {"job_id": "8", "state": "DONE"},
        FINISHED,
        FINISHED,
        {**FINISHED, "state": "FAILED"},
    ]
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"outcomes": events})
    body = answer.json()
    assert answer.status_code == 200
    assert [item["status"] for item in body["outcomes"]] == [200, 200, 422, 200, 200, 409]
    assert [item.get("result") for item in body["outcomes"]] == [
        "recorded", "recorded", None, "recorded", "duplicate", None]  # fmt: skip
    assert body["failed"] == 2
    assert body["outcomes"][2]["problem"]["errors"][0]["pointer"] == "/outcomes/2/ended_at"


async def test_late_news_of_a_finished_job_does_not_open_it_again(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post(URL, json={**WHOLE, "job_id": "1"})
        assert (await client.post(URL, json=SUBMITTED)).status_code == 200
        assert (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]["count"] == 1
        metrics = (await client.get("/metrics")).text
    assert 'predictor_outcomes_total{event="submitted",result="recorded"} 1.0' in metrics


async def test_what_cannot_be_written_is_not_acknowledged(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    async with harness.serving() as (client, _):
        await client.post(URL, json={**WHOLE, "job_id": "0"})
        with monkeypatch.context() as patch:
            patch.setattr("serving.day_files.os.fsync", full)
            one = await client.post(URL, json=WHOLE)
            batch = await client.post(URL, json={"outcomes": [SUBMITTED, WHOLE]})
            ready = await client.get("/readyz")
        support = (await client.post("/v1/predictions", json={"user": "ada"})).json()["support"]
        again = await client.post(URL, json=WHOLE)
    check_problem(one, 503, "outcome-log-unavailable")
    check_problem(batch, 503, "outcome-log-unavailable")
    assert ready.status_code == 503
    assert [check["name"] for check in ready.json()["checks"] if not check["ok"]] == ["outcome_log"]
    assert support["count"] == 1
    assert again.json()["result"] == "recorded"
    assert [row["job_id"] for row in rows(harness.root, "outcomes")] == ["0", "2"]


async def test_coverage_and_ratio_compare_the_first_forecast_with_the_end(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post("/v1/predictions", json={"job_id": "2", "user": "ada", "walltime_s": 100})
        await client.post("/v1/predictions", json={"job_id": "2", "user": "ada", "walltime_s": 1e6})
        await client.post(URL, json=WHOLE)  # 60 s: above q50 = 40 s, below q90 = 80 s
        metrics = (await client.get("/metrics")).text
        coverage = (await client.get("/v1/models")).json()["coverage"]
    assert coverage == {"q50": 0.0, "q90": 1.0, "q95": 1.0}
    assert 'predictor_coverage_ratio{quantile="q90"} 1.0' in metrics
    assert "predictor_duration_ratio_sum 1.5" in metrics


@pytest.mark.parametrize("body", ["[]", '{"outcomes": 3}', '{"outcomes": [], "job_id": 1}'])
async def test_a_body_of_another_shape_is_refused(harness: Harness, body: str) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, content=body, headers={"content-type": "application/json"})
    check_problem(answer, 422, "invalid-request")
    assert pointers(answer) == [{"[": "", '{"outcomes": 3': "/outcomes"}.get(body[:-1], "/job_id")]


async def test_the_documented_examples_are_recorded(harness: Harness) -> None:
    harness.clock.now_s += 2 * 86400.0  # the last of them ends on the next day
    async with harness.serving() as (client, _):
        for name in ("submitted", "started", "finished", "unannounced", "batch"):
            answer = await client.post(URL, json=OUTCOME_REQUESTS[name]["value"])
            assert answer.status_code == 200, answer.text
    assert {item["result"] for item in answer.json()["outcomes"]} == {"duplicate"}


async def test_a_batch_beyond_the_limit_is_refused_as_a_whole(harness: Harness) -> None:
    async with harness.serving(max_jobs=2) as (client, _):
        answer = await client.post(URL, json={"outcomes": [WHOLE] * 3})
        empty = await client.post(URL, json={"outcomes": []})
    check_problem(answer, 422, "too-many-jobs")
    assert rows(harness.root, "outcomes") == []
    assert empty.json() == {"outcomes": [], "failed": 0}


async def test_what_is_not_json_is_a_bad_request(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(
            URL, content=b'{"elapsed_s": NaN}', headers={"content-type": "application/json"}
        )
    check_problem(answer, 400, "malformed-json")
    assert pointers(answer) == ["/elapsed_s"]


async def test_concurrent_repetitions_are_recorded_once(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answers = await asyncio.gather(*(client.post(URL, json=WHOLE) for _ in range(8)))
    results = [answer.json()["result"] for answer in answers]
    assert sorted(results) == ["duplicate"] * 7 + ["recorded"]
    assert len(rows(harness.root, "outcomes")) == 1


async def test_all_rows_of_an_attempt_agree_on_its_submission(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        await client.post(URL, json=SUBMITTED)
        answer = await client.post(
            URL, json={**FINISHED, "submitted_at": "2026-11-03T09:00:01Z", "elapsed_s": 5}
        )
    assert answer.status_code == 200
    moments = {
        row["submitted_at"] for series in ("announced", "outcomes") for row in rows(harness.root, series)
    }
    assert moments == {"2026-11-03T09:00:00Z"}

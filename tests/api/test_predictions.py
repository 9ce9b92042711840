"""The prediction route: answers, per-item errors, and every fault at once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from predictor.contracts.request import JobRequest
from serving.decoding import MOST_UNKNOWN
from serving.examples import PREDICTION_REQUESTS
from serving.ports import Forecaster
from serving.schemas import Prediction, PredictionBatch
from tests.api.fakes import CRASHES, REFUSED, FakeForecast, FakeForecaster, read_fake
from tests.api.harness import Harness, check_problem, pointers

pytestmark = pytest.mark.anyio
URL = "/v1/predictions"


async def test_one_job_gets_its_distribution_support_and_model(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"job_id": 7, "user": "ada", "walltime_s": 100})
    body = answer.json()
    assert answer.status_code == 200
    assert body["job_id"] == "7"
    assert list(body["quantiles_s"]) == ["q05", "q10", "q25", "q50", "q75", "q90", "q95"]
    assert (body["mean_s"], body["limit_s"], body["fallback"]) == (45.0, 100.0, "no-history-of-this-user")
    assert body["support"] == {"level": "site", "count": 0}
    assert set(body["model"]) == {"name", "version", "digest", "feature_spec", "calibration_id"}
    assert body["model"]["version"] == "v1"
    assert "remaining" not in body
    assert "survival" not in body


async def test_an_elapsed_time_asks_for_what_remains_and_ages_for_survival(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"walltime_s": 100, "elapsed_s": 30, "ages_s": [0, 50, 200]})
    body = answer.json()
    assert body["remaining"]["elapsed_s"] == 30
    assert body["remaining"]["quantiles_s"]["q50"] == pytest.approx(10)
    assert [point["probability"] for point in body["survival"]] == [1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    "moment", ["2026-11-03T09:30:00Z", "2026-11-03T09:30:00.5+01:00", 1793698200, 1793698200.25]
)
async def test_times_are_rfc_3339_or_epoch_seconds(harness: Harness, moment: object) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"submitted_at": moment})
    assert answer.status_code == 200


FAULTY: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "negative": ({"walltime_s": -5}, [("/walltime_s", "out-of-range")]),
    "text for a number": ({"requested_gpus": "4"}, [("/requested_gpus", "wrong-type")]),
    "a flag for a number": ({"requested_gpus": True}, [("/requested_gpus", "wrong-type")]),
    "a huge number": ({"requested_cpus": 1e300}, [("/requested_cpus", "out-of-range")]),
    "empty text": ({"user": ""}, [("/user", "out-of-range")]),
    "a time without zone": ({"submitted_at": "2026-11-03T09:30:00"}, [("/submitted_at", "invalid")]),
    "milliseconds": ({"submitted_at": 1793698200000}, [("/submitted_at", "out-of-range")]),
    "a number in a list": ({"ages_s": [1, -2]}, [("/ages_s/1", "out-of-range")]),
    "too many ages": ({"ages_s": [1] * 201}, [("/ages_s", "out-of-range")]),
    "all of it at once": (
        {"usr": "ada", "walltime_s": -5, "requested_gpus": "4", "submitted_at": 1793698200000, "a/b": 1},
        [("/usr", "unknown-field"), ("/a~1b", "unknown-field"), ("/requested_gpus", "wrong-type"),
         ("/walltime_s", "out-of-range"), ("/submitted_at", "out-of-range")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", FAULTY)
async def test_every_fault_is_named_at_once_with_a_pointer(harness: Harness, story: str) -> None:
    body, want = FAULTY[story]
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json=body)
    check_problem(answer, 422, "invalid-request")
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == want


async def test_an_unknown_field_is_refused_with_the_nearest_name(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        near = await client.post(URL, json={"requested_gpu": 1})
        part = await client.post(URL, json={"gpus": 4})
        far = await client.post(URL, json={"zzzzzz": 1})
    assert "did you mean 'requested_gpus'?" in near.json()["detail"]
    assert "did you mean 'requested_gpus'?" in part.json()["detail"]
    assert "allowed are" in far.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"{}{}", b'{"user": "\xff"}', b'{"user": nope}', b"[" * 100_000])
async def test_what_is_not_json_is_a_bad_request(harness: Harness, body: bytes) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    check_problem(answer, answer.status_code, answer.json()["code"])
    assert answer.status_code == 400 or body.startswith(b"[")


async def test_nan_is_pointed_at(harness: Harness) -> None:
    content = b'{"jobs": [{"walltime_s": 1}, {"walltime_s": NaN, "ages_s": [-Infinity]}]}'
    async with harness.serving() as (client, _):
        answer = await client.post(URL, content=content, headers={"content-type": "application/json"})
    check_problem(answer, 400, "malformed-json")
    assert pointers(answer) == ["/jobs/1/walltime_s", "/jobs/1/ages_s/0"]


@pytest.mark.parametrize("body", ["[]", "3", "null", '"job"', '{"jobs": 3}', '{"jobs": null}'])
async def test_a_body_of_another_shape_is_refused(harness: Harness, body: str) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, content=body, headers={"content-type": "application/json"})
    check_problem(answer, 422, "invalid-request")
    assert answer.json()["errors"]


@pytest.mark.parametrize(
    "headers",
    [{}, {"content-type": "text/plain"}, {"content-type": "application/json; charset=latin-1"},
     {"content-type": "application/json", "content-encoding": "gzip"}],
)  # fmt: skip
async def test_another_content_type_is_refused(harness: Harness, headers: dict[str, str]) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, content=b"{}", headers=headers)
    check_problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "application/vnd.site+json", "Application/JSON"]
)
async def test_every_way_to_say_json_is_understood(harness: Harness, kind: str) -> None:
    async with harness.serving() as (client, _):
        assert (await client.post(URL, content=b"{}", headers={"content-type": kind})).status_code == 200


async def test_a_body_above_the_limit_is_refused_also_without_a_length(harness: Harness) -> None:
    async def chunks() -> Any:
        for _ in range(3):
            yield b" " * 1000

    kind = {"content-type": "application/json"}
    async with harness.serving(max_body_bytes=2000) as (client, _):
        stated = await client.post(URL, content=b" " * 2001, headers=kind)
        chunked = await client.post(URL, content=chunks(), headers=kind)
        fits = await client.post(URL, content=b"{}".ljust(2000), headers=kind)
    check_problem(stated, 413, "body-too-large")
    check_problem(chunked, 413, "body-too-large")
    assert fits.status_code == 200


async def test_a_batch_answers_each_job_in_its_place(harness: Harness) -> None:
    jobs = [{"job_id": "a"}, {"job_id": "b", "walltime_s": -1, "usr": 1}, "no job", {"job_id": "c"}]
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"jobs": jobs})
    body = answer.json()
    assert answer.status_code == 200
    assert [item["status"] for item in body["predictions"]] == [200, 422, 422, 200]
    assert [item["job_id"] for item in body["predictions"]] == ["a", "b", None, "c"]
    assert body["failed"] == 2
    faults = body["predictions"][1]["problem"]["errors"]
    assert [fault["pointer"] for fault in faults] == ["/jobs/1/usr", "/jobs/1/walltime_s"]
    assert body["predictions"][2]["problem"]["errors"][0]["pointer"] == "/jobs/2"


async def test_one_job_cannot_spoil_the_others_of_its_batch(harness: Harness) -> None:
    jobs = [{"user": "ada"}, {"user": CRASHES}, {"user": REFUSED}, {"user": "ada"}]
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"jobs": jobs})
    items = answer.json()["predictions"]
    assert [item["status"] for item in items] == [200, 500, 422, 200]
    assert [item["problem"]["code"] for item in items[1:3]] == ["internal-error", "argument"]


async def test_long_batches_are_answered_in_slices_and_in_order(harness: Harness) -> None:
    jobs = [{"job_id": str(n)} if n % 7 else {"job_id": n, "x": 1} for n in range(25)]
    async with harness.serving(slice_jobs=4) as (client, _):
        answer = await client.post(URL, json={"jobs": jobs})
    items = answer.json()["predictions"]
    assert [item["job_id"] for item in items] == [str(n) for n in range(25)]
    assert answer.json()["failed"] == 4
    assert items[14]["problem"]["errors"][0]["pointer"] == "/jobs/14/x"


async def test_an_empty_batch_has_no_answers(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        assert (await client.post(URL, json={"jobs": []})).json() == {"predictions": [], "failed": 0}


async def test_a_batch_beyond_the_limit_is_refused_as_a_whole(harness: Harness) -> None:
    async with harness.serving(max_jobs=3) as (client, _):
        answer = await client.post(URL, json={"jobs": [{}] * 4})
        fits = await client.post(URL, json={"jobs": [{}] * 3})
    check_problem(answer, 422, "too-many-jobs")
    assert pointers(answer) == ["/jobs"]
    assert fits.status_code == 200


async def test_fields_beside_a_batch_are_refused(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"jobs": [], "user": "ada"})
    check_problem(answer, 422, "invalid-request")
    assert pointers(answer) == ["/user"]


async def test_a_crash_of_the_model_is_an_internal_error_without_details(harness: Harness) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json={"user": CRASHES})
        refused = await client.post(URL, json={"user": REFUSED})
    check_problem(answer, 500, "internal-error")
    assert "stumbles" not in answer.text
    assert any("stumbles" in event.get("exception", "") for event in harness.log_events())
    check_problem(refused, 422, "argument")


async def test_without_any_model_the_service_says_so(harness: Harness) -> None:
    bare = Harness(harness.root / "bare")
    async with bare.serving() as (client, _):
        one: httpx.Response = await client.post(URL, json={})
        batch = await client.post(URL, json={"jobs": [{}]})
    for answer in (one, batch):
        check_problem(answer, 503, "no-model")
        assert answer.headers["retry-after"]


@pytest.mark.parametrize("name", PREDICTION_REQUESTS)
async def test_the_documented_examples_are_answered_as_documented(harness: Harness, name: str) -> None:
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json=PREDICTION_REQUESTS[name]["value"])
    assert answer.status_code == 200
    if name == "batch":
        assert set(answer.json()) == {field.name for field in msgspec.structs.fields(PredictionBatch)}
    else:
        msgspec.json.decode(answer.content, type=Prediction)


async def test_requests_of_one_moment_are_forecast_together_and_cannot_spoil_each_other(
    harness: Harness,
) -> None:
    calls: list[int] = []

    class Counting(FakeForecaster):
        def predict(self, jobs: Sequence[JobRequest]) -> list[FakeForecast]:
            calls.append(len(jobs))
            return super().predict(jobs)

    def load(directory: Path, digest: str | None) -> Forecaster:
        return Counting(info=read_fake(directory, digest))

    harness.load = load
    users = ["ada", CRASHES, "bob", REFUSED, "eve"]
    async with harness.serving(slice_jobs=3) as (client, _):
        calls.clear()
        good = await asyncio.gather(
            *(client.post(URL, json={"user": user}) for user in ("ada", "bob", "eve"))
        )
        together = list(calls)
        mixed = await asyncio.gather(*(client.post(URL, json={"user": user}) for user in users))
    assert [answer.status_code for answer in good] == [200, 200, 200]
    assert max(together) > 1
    assert max(calls) <= 3
    assert [answer.status_code for answer in mixed] == [200, 500, 200, 422, 200]


async def test_a_flood_of_unknown_names_is_summed_up(harness: Harness) -> None:
    body = {f"name-{number}": 1 for number in range(5000)}
    async with harness.serving() as (client, _):
        answer = await client.post(URL, json=body)
    check_problem(answer, 422, "invalid-request")
    assert len(answer.json()["errors"]) == MOST_UNKNOWN + 1
    assert "4980 further names" in answer.json()["errors"][-1]["detail"]

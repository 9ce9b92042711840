"""This module checks that the memory of recorded events ends after some days, and not before."""

from serving.ledger import OpenJobs
from serving.outcome_log import DAY_S
from serving.outcome_rows import OutcomeRow, from_epoch
from serving.seen_events import SeenEvents

NOW_S = 1_793_700_000.0  # 2026-11-03


def a_row(job_id: str, event: str, days: float, *, submitted_days: float | None = None) -> OutcomeRow:
    at = from_epoch(NOW_S + days * DAY_S)
    submitted_at = at if submitted_days is None else from_epoch(NOW_S + submitted_days * DAY_S)
    return OutcomeRow(
        event=event, recorded_at=at, payload=f"{job_id}{event}", job_id=job_id, attempt=0, state="RUNNING",
        submitted_at=submitted_at, source="service", ended_at=at,
    )  # fmt: skip


def test_what_came_on_days_before_is_forgotten_and_the_rest_is_known() -> None:
    jobs = OpenJobs()
    for day in range(40):
        jobs.add(a_row(f"done-{day}", "submitted", day))
        jobs.add(a_row(f"done-{day}", "finished", day))
        jobs.add(a_row(f"open-{day}", "submitted", day))
    jobs.forget(NOW_S + 30 * DAY_S)
    for day in range(40):
        kept = day >= 30
        assert (jobs.payload((None, f"done-{day}", 0), "finished") is not None) == kept
        assert (jobs.known((None, f"open-{day}", 0)) is not None) == kept
    assert len(jobs) == 10


def test_an_end_of_an_earlier_day_is_still_an_end() -> None:
    jobs = OpenJobs()
    jobs.add(a_row("a", "finished", 0))
    jobs.add(a_row("a", "submitted", 2, submitted_days=0))
    assert jobs.is_over((None, "a", 0))
    assert jobs.known((None, "a", 0)) is None


def test_an_id_that_is_used_again_opens_another_job() -> None:
    jobs = OpenJobs()
    jobs.add(a_row("a", "finished", 0))
    assert not jobs.add(a_row("a", "submitted", 2))
    assert not jobs.is_over((None, "a", 0))
    assert jobs.known((None, "a", 0)) is not None
    assert jobs.payload((None, "a", 0), "finished") is None
    assert jobs.was_earlier((None, "a", 0), "finished", "afinished")


def test_an_event_for_which_the_index_has_no_room_is_known_all_the_same() -> None:
    class Full(SeenEvents):
        def add(self, *_: object) -> None:
            raise OSError("full")

    jobs = OpenJobs(Full())
    jobs.add(a_row("a", "finished", 0))
    assert jobs.payload((None, "a", 0), "finished") == "afinished"
    assert jobs.is_over((None, "a", 0))

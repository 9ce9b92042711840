"""This module checks the job rows that events of the queue make, and that retraining takes them in."""

from pathlib import Path

from pipelines.outcomes import outcome_table
from predictor.contracts.events import (
    Event,
    JobCancelled,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    Tick,
)
from predictor.data.sources.event_log import job_rows
from serving.store.event_log import Change, NewEvent
from serving.store.export import export_events, export_rows
from tests.services.event_log_fake import MemoryEventLog

AT = 1.7e9


def submitted(job_id: str, at_s: float = 0.0) -> JobSubmitted:
    return JobSubmitted(now_s=AT + at_s, job_id=job_id, width=4, user="ada", team="lab", limit_s=3600.0)


STORY: list[Event] = [
    submitted("a"),
    submitted("b", 1.0),
    submitted("c", 2.0),
    JobStarted(now_s=AT + 10.0, job_id="a"),
    Tick(now_s=AT + 11.0),
    JobRequeued(now_s=AT + 30.0, job_id="a"),
    JobCancelled(now_s=AT + 31.0, job_id="b"),
    JobStarted(now_s=AT + 40.0, job_id="a"),
    JobFinished(now_s=AT + 100.0, job_id="a", outcome="out_of_memory"),
    JobFinished(now_s=AT + 101.0, job_id="never-submitted"),
]


def test_each_attempt_becomes_a_row_that_says_what_it_teaches() -> None:
    rows = [(row["job_id"], row["attempt"], row["state"], row.get("elapsed_s")) for row in job_rows(STORY)]
    assert rows == [
        ("a", 0, "PREEMPTED", 20.0),
        ("b", 0, "CANCELLED", None),
        ("a", 1, "OUT_OF_MEMORY", 60.0),
        ("c", 0, "PENDING", None),
    ]


def test_a_row_has_the_request_and_no_column_that_nobody_told() -> None:
    (row,) = job_rows([submitted("a")])
    assert (row["requested_gpus"], row["walltime_s"], row["user"], row["account"]) == (
        4,
        3600.0,
        "ada",
        "lab",
    )
    assert "gpu_type" not in row
    assert row["submitted_at"] == "2023-11-14T22:13:20+00:00"


def test_retraining_reads_what_was_exported(tmp_path: Path) -> None:
    log = MemoryEventLog()
    log.take("x", log.view())
    log.append(
        [Change(events=(NewEvent(moment_s=AT, kind="step", payload='"story"'),)),
         Change(events=(NewEvent(moment_s=AT, kind="restored", payload="{}"),))],
        expected_next=1, epoch=1,
    )  # fmt: skip
    assert export_rows(log, tmp_path / "rows.jsonl", lambda _: STORY) == 4
    lines = outcome_table(tmp_path / "rows.jsonl", tmp_path / "rows.parquet")
    assert (lines.rows, lines.damaged) == (4, ())
    assert export_events(log, tmp_path / "all.jsonl", after=1) == 1
    assert b'"sequence":2' in (tmp_path / "all.jsonl").read_bytes()

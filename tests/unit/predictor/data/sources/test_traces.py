"""This module checks the published traces that are no plain tables: Philly's JSON and Alibaba's PAI."""

import json

import numpy as np
import pytest

from predictor.data.sources.base import ReadOptions
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.pai import PaiReader, table_of
from predictor.data.sources.philly_json import PhillyJsonReader
from predictor.data.validate import validate
from predictor.errors import EmptyInputError, FormatError

TASK = (
    "j1,worker,2.0,Terminated,100.0,160.0,600.0,29.3,50.0,V100\n"
    "j1,ps,1.0,Running,100.0,,600.0,29.3,,\n"
    "j2,worker,1.0,Waiting,,,600.0,29.3,100.0,MISC\n"
)
JOB = "j1,i1,u1,Terminated,90.0,160.0\nj2,i2,u2,Waiting,95.0,\n"
SENSOR = (
    "j1,worker,w0,i0,m0,/dev/nvidia0,1,20,3.5,4.0,6.0,7.5,1,2,3,4\n"
    "j1,worker,w1,i1,m0,/dev/nvidia1,1,20,3.5,5.0,6.0,6.5,1,2,3,4\n"
)


def log(text: str, name: str = "t.csv") -> LogFile:
    return LogFile(name=name, data=text.encode())


def test_the_pai_tables_are_told_apart_by_their_content() -> None:
    assert [table_of(log(text)) for text in (TASK, JOB, SENSOR, "a,b\n")] == ["task", "job", "sensor", None]


def test_pai_requests_are_percent_per_instance_and_blanks_are_not_there_yet() -> None:
    result = PaiReader().read(log(TASK), ReadOptions())
    frame = result.frame
    assert frame["job_id"].tolist() == ["j1/worker", "j1/ps", "j2/worker"]
    assert frame["requested_gpus"].tolist() == [1.0, 0.0, 1.0]
    assert frame["requested_cpus"].tolist() == [12.0, 6.0, 6.0]
    assert frame["state"].tolist() == ["COMPLETED", "RUNNING", "PENDING"]
    np.testing.assert_array_equal(frame["elapsed_s"], [60.0, np.nan, np.nan])
    assert result.notes == {"submit-time-is-start": 3}


def test_pai_jobs_and_sensors_are_joined_where_given() -> None:
    options = ReadOptions(companions=(log(JOB, "j.csv"), log(SENSOR, "s.csv")))
    frame = PaiReader().read(log(TASK), options).frame
    assert frame["user"].tolist() == ["u1", "u1", "u2"]
    assert (frame["started_at"] - frame["submitted_at"]).iloc[0].total_seconds() == 10.0
    assert frame["peak_vram_mib"].iloc[0] == 7680.0
    assert frame["peak_host_memory_mib"].iloc[0] == 5120.0
    assert validate(frame).fault_counts == {}


def test_pai_needs_its_task_table() -> None:
    with pytest.raises(FormatError, match="the job table"):
        PaiReader().read(log(JOB), ReadOptions())


def philly(**changes: object) -> dict[str, object]:
    placement = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]
    attempts = [
        {"start_time": f"2026-01-05 {start}", "end_time": f"2026-01-05 {end}", "detail": placement}
        for start, end in (("12:01:00", "12:02:00"), ("12:03:00", "12:09:00"))
    ]
    job: dict[str, object] = {
        "status": "Pass", "vc": "v1", "jobid": "a1", "user": "u1",
        "submitted_time": "2026-01-05 12:00:00", "attempts": attempts,
    }  # fmt: skip
    return {**job, **changes}


def test_each_philly_attempt_is_a_row_and_all_but_the_last_failed() -> None:
    frame = (
        PhillyJsonReader().read(log(json.dumps([philly()])), ReadOptions(zone="America/Los_Angeles")).frame
    )
    assert frame["state"].tolist() == ["FAILED", "COMPLETED"]
    assert frame["attempt"].tolist() == [0.0, 1.0]
    assert frame["requested_gpus"].tolist() == [3.0, 3.0]
    assert frame["submitted_at"].iloc[1] == frame["ended_at"].iloc[0]
    assert frame["submitted_at"].iloc[0].isoformat() == "2026-01-05T20:00:00+00:00"
    assert validate(frame).fault_counts == {}


def test_philly_jobs_killed_in_the_queue_and_missing_times_are_read() -> None:
    jobs: list[object] = [
        philly(jobid="b", status="Killed", attempts=[]),
        philly(
            jobid="c", status="Failed", attempts=[{"start_time": "None", "end_time": "None", "detail": []}]
        ),
        philly(jobid="d", attempts=[{"start_time": "2026-01-05 12:01:00", "end_time": "None", "detail": []}]),
        "odd",
    ]
    result = PhillyJsonReader().read(log(json.dumps(jobs)), ReadOptions())
    assert result.frame["state"].tolist() == ["CANCELLED", "FAILED", "COMPLETED"]
    assert result.unreadable["reason"].tolist() == ["not-a-job"]
    assert set(validate(result.frame).fault_counts) == {"elapsed-missing", "end-missing"}


def test_philly_faults_are_clear() -> None:
    for text, kind in (
        ("[", FormatError),
        ("{}", FormatError),
        ("[]", EmptyInputError),
        ("[1]", FormatError),
    ):
        with pytest.raises(kind):
            PhillyJsonReader().read(log(text), ReadOptions())

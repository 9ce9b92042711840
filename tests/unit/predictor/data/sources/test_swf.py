"""This module checks the SWF reader on the habits of the Parallel Workloads Archive."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.logfile import LogFile, open_logs
from predictor.data.sources.swf import SwfReader
from predictor.data.validate import validate
from predictor.errors import EmptyInputError, FormatError

HEADER = "; Version: 2.2\n; UnixStartTime: 1000000000\n; Note: made by hand\n"


def read(text: str) -> ReadResult:
    return SwfReader().read(LogFile(name="hand.swf", data=text.encode()), ReadOptions())


def test_fields_are_read_with_their_units() -> None:
    job = read(HEADER + "1 100 20 300 4 -1 2048 8 600 1024 1 17 3 184 2 1 -1 -1\n").frame.iloc[0]
    assert job["submitted_at"].timestamp() == 1000000100
    assert job["started_at"].timestamp() == 1000000120
    assert job["ended_at"].timestamp() == 1000000420
    assert (job["elapsed_s"], job["walltime_s"], job["requested_cpus"], job["allocated_cpus"]) == (
        300,
        600,
        8,
        4,
    )
    assert (job["requested_memory_mib"], job["peak_host_memory_mib"]) == (8.0, 8.0)
    assert (job["user"], job["account"], job["job_name"], job["queue"]) == ("17", "3", "184", "2")
    assert (job["requested_gpus"], job["state"], job["cluster"]) == (0.0, "COMPLETED", "hand")


def test_minus_one_is_missing_and_requests_fall_back_to_what_was_used() -> None:
    job = read(HEADER + "1 100 20 300 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 5 -1 -1\n").frame.iloc[0]
    assert job["requested_cpus"] == 4
    assert job["queue"] == "5"
    assert job[["walltime_s", "user", "account", "job_name", "requested_memory_mib"]].isna().all()


@pytest.mark.parametrize(
    ("status", "want"),
    [("0", "FAILED"), ("1", "COMPLETED"), ("5", "CANCELLED"), ("-1", "UNKNOWN"), ("2", "PREEMPTED"),
     ("3", "COMPLETED"), ("4", "CANCELLED"), ("9", "9")],
)  # fmt: skip
def test_status_codes_are_translated(status: str, want: str) -> None:
    assert read(HEADER + f"1 0 0 5 1 -1 -1 1 9 -1 {status} 1 1 1 1 1 -1 -1\n").frame["state"].tolist() == [
        want
    ]


def test_a_log_without_waits_has_durations_but_no_starts() -> None:
    frame = read(HEADER + "1 0 -1 50 4 -1 -1 4 9 -1 1 1 1 1 1 1 -1 -1\n").frame
    assert frame["started_at"].isna().all()
    assert frame["elapsed_s"].tolist() == [50.0]
    assert validate(frame).note_counts == {"start-unknown": 1}


def test_a_job_cancelled_in_the_queue_never_ran() -> None:
    frame = read(HEADER + "1 0 -1 0 -1 -1 -1 -1 -1 -1 5 14 -1 184 -1 1 -1 -1\n").frame
    assert frame[["started_at", "ended_at", "elapsed_s"]].isna().all(axis=None)
    assert validate(frame).fault_counts == {}


def test_unsorted_long_and_short_records_are_all_accounted_for() -> None:
    result = read(
        HEADER
        + "2 500 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1 extra fields\n"
        + "1 100 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n; a comment between\n\n3 7 8\n"
        + "4 x 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n"
    )
    assert result.frame["job_id"].tolist() == ["2", "1"]
    assert dict(zip(result.unreadable["line"], result.unreadable["reason"], strict=True)) == {
        8: "too-few-fields", 9: "bad-number:submit",
    }  # fmt: skip
    assert result.rows_read == 4


def test_large_ids_keep_their_digits() -> None:
    assert read(HEADER + "12345678 1 0 5 1 -1 -1 1 9 -1 1 1234567 1 1 1 1 -1 -1\n").frame[
        "job_id"
    ].tolist() == ["12345678"]


def test_the_variant_with_21_fields_has_epochs_bytes_and_queue_names() -> None:
    line = "0 1356996147 10 56 64 1 1024 64 86400 68719476736 1 62 1 1 -1 1 1 1 {1,2} q_1d 1:ppn=64\n"
    job = read(line).frame.iloc[0]
    assert job["submitted_at"].timestamp() == 1356996147
    assert (job["queue"], job["requested_memory_mib"]) == ("q_1d", 64 * 65536.0)
    assert np.isnan(job["peak_host_memory_mib"])


def test_gzip_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress((HEADER + "1 0 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n").encode()))
    (log,) = open_logs(path)
    assert log.stem == "log"
    assert SwfReader().recognises(log)
    assert len(SwfReader().read(log, ReadOptions()).frame) == 1


def test_clear_errors_for_what_is_no_swf() -> None:
    with pytest.raises(EmptyInputError, match="no record"):
        read(HEADER)
    with pytest.raises(FormatError, match="18 fields"):
        read("1 2 3\n")
    with pytest.raises(FormatError, match="UnixStartTime"):
        read("1 100 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n")


def test_quotes_infinities_and_odd_spaces_spoil_their_own_record_only() -> None:
    good = "1 0 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1"
    result = read(
        HEADER + "\n".join([good, good.replace("9", '"'), good.replace("9", "1e400"), "\t" + good, ""])
    )
    assert len(result.frame) == 2
    assert result.unreadable["reason"].tolist() == ["bad-number:requested_s"] * 2

"""This module checks Slurm's other outputs: sacct --json, jobcomp documents and slurmdbd dumps."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.jobcomp import JobcompReader
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.sacct import SacctReader
from predictor.data.sources.sacct_json import SacctJsonReader
from predictor.data.sources.slurmdbd import SlurmdbdReader
from predictor.data.validate import validate
from predictor.errors import EmptyInputError, FormatError

DATA = Path(__file__).parents[4] / "data"
DUMP_HEADER = (
    "id_job,id_array_job,id_array_task,id_user,nodes_alloc,nodelist,cpus_req,exit_code,mem_req,partition,state,"
    "timelimit,time_submit,time_eligible,time_start,time_end,time_suspended,tres_alloc,tres_req"
)


def log(name: str, text: str) -> LogFile:
    return LogFile(name=name, data=text.encode())


def from_json(text: str) -> ReadResult:
    return SacctJsonReader().read(log("j.json", text), ReadOptions())


def capture(name: str) -> LogFile:
    return LogFile(name=name, data=(DATA / name).read_bytes())


@pytest.mark.parametrize("name", ["sacct_2205.json", "sacct_2411.json", "sacct_2605.json"])
def test_json_of_three_slurm_versions_reads_without_fault(name: str) -> None:
    assert SacctJsonReader().recognises(capture(name))
    result = SacctJsonReader().read(capture(name), ReadOptions())
    assert result.rows_read == len(result.frame) > 0
    assert validate(result.frame).fault_counts == {}
    assert set(result.frame["cluster"]) == {"mini"}
    assert result.frame["peak_host_memory_mib"].notna().any()
    assert result.frame["walltime_s"].notna().all()
    assert set(result.frame["gpu_type"].dropna()) <= {"h100", "a100"}


def test_json_holds_preempted_attempts_and_they_are_numbered() -> None:
    frame = SacctJsonReader().read(capture("sacct_2205.json"), ReadOptions()).frame
    runs = frame[frame["job_id"] == "428"].sort_values("attempt")
    assert runs["state"].tolist() == ["PREEMPTED", "COMPLETED"]
    assert "89_1" in frame["job_id"].tolist()
    assert frame.loc[frame["job_id"] == "89_1", "array_task_index"].tolist() == [1.0, 1.0]


def test_json_and_text_of_the_same_jobs_agree() -> None:
    text = SacctReader().read(capture("sacct_2205.psv"), ReadOptions()).frame.set_index("job_id")
    told = SacctJsonReader().read(capture("sacct_2205.json"), ReadOptions()).frame.set_index("job_id")
    same = ["1", "2", "4", "5"]
    columns = [
        "user", "account", "queue", "job_name", "requested_gpus", "gpu_type", "requested_nodes",
        "requested_cpus", "requested_memory_mib", "walltime_s",
        "submitted_at", "started_at", "ended_at", "elapsed_s", "state",
        "allocated_gpus", "peak_host_memory_mib", "attempt",
    ]  # fmt: skip
    pd.testing.assert_frame_equal(text.loc[same, columns], told.loc[same, columns])


def test_a_job_that_never_started_has_no_start_in_any_shape() -> None:
    for name in ("sacct_2411.json", "sacct_2605.json"):
        job = SacctJsonReader().read(capture(name), ReadOptions()).frame.set_index("job_id").loc["2"]
        assert job["state"] == "CANCELLED"
        assert pd.isna(job["started_at"])


def test_unlimited_and_per_cpu_memory_of_the_newer_shape() -> None:
    document = json.loads((DATA / "sacct_2605.json").read_text())
    job = document["jobs"][0]
    job["time"]["limit"] = {"set": False, "infinite": True, "number": 0}
    job["required"]["memory_per_cpu"] = {"set": True, "infinite": False, "number": 100}
    job["tres"]["requested"] = [{"type": "cpu", "name": "", "id": 1, "count": 2}]
    job["tres"]["allocated"] = []
    job["array"] = {"job_id": 40, "task_id": {"set": False, "infinite": False, "number": 0}, "task": "5-9%2"}
    job["state"]["current"] = ["RUNNING", "COMPLETING"]
    frame = from_json(json.dumps({"jobs": [job]})).frame
    assert frame["walltime_s"].isna().all()
    assert frame["requested_memory_mib"].tolist() == [200.0]
    assert frame["job_id"].tolist() == ["40_[5-9%2]"]
    assert frame["state"].tolist() == ["RUNNING"]


def test_json_faults_are_clear_and_odd_elements_are_kept() -> None:
    with pytest.raises(FormatError, match="no JSON"):
        from_json("{jobs")
    with pytest.raises(FormatError, match="'jobs'"):
        from_json('{"nodes": []}')
    with pytest.raises(EmptyInputError, match="slurmdbd is down"):
        from_json('{"jobs": [], "errors": [{"description": "slurmdbd is down"}]}')
    with pytest.raises(FormatError, match="squeue"):
        from_json('{"jobs": [{"job_state": ["RUNNING"]}]}')
    document = json.loads((DATA / "sacct_2605.json").read_text())
    document["jobs"].append("odd")
    result = from_json(json.dumps(document))
    assert result.unreadable["reason"].tolist() == ["not-a-job"]


def test_jobcomp_documents_read_with_limits_in_seconds() -> None:
    assert JobcompReader().recognises(capture("jobcomp_2205.jsonl"))
    result = JobcompReader().read(capture("jobcomp_2205.jsonl"), ReadOptions())
    assert len(result.frame) == result.rows_read == 5
    assert validate(result.frame).fault_counts == {}
    assert set(result.frame["state"]) >= {"PREEMPTED", "TIMEOUT", "FAILED"}
    assert result.frame["script_hash"].str.len().eq(64).all()
    failed = result.frame[result.frame["state"] == "FAILED"].iloc[0]
    assert (failed["walltime_s"], failed["exit_code"], failed["requested_memory_mib"]) == (420.0, 3.0, 2048.0)
    assert 0.0 in result.frame["requested_gpus"].tolist()
    assert result.frame["array_job_id"].notna().any()


def test_jobcomp_lines_may_be_wrapped_and_broken_ones_are_kept() -> None:
    line = (DATA / "jobcomp_2205.jsonl").read_text().splitlines()[2]
    wrapped = json.dumps({"_index": "slurm", "_source": json.loads(line)})
    result = JobcompReader().read(log("x", f"{wrapped}\n{line[:50]}\n[]\n"), ReadOptions())
    assert (len(result.frame), result.rows_read) == (1, 3)
    assert result.unreadable["line"].tolist() == [2, 3]
    with pytest.raises(FormatError, match="jobcomp"):
        JobcompReader().read(log("x", "hello\n"), ReadOptions())


def test_halves_of_characters_in_json_do_not_stop_a_reader() -> None:
    line = (DATA / "jobcomp_2205.jsonl").read_text().splitlines()[2]
    document = {**json.loads(line), "job_name": "\ud800x", "script": "\ud800"}
    assert JobcompReader().read(log("x", json.dumps(document)), ReadOptions()).frame["job_name"].tolist() == [
        "?x"
    ]


def dump(*rows: str) -> ReadResult:
    return SlurmdbdReader().read(log("alpha.csv", "\n".join([DUMP_HEADER, *rows, ""])), ReadOptions())


def test_a_database_dump_has_epochs_integers_and_numeric_resources() -> None:
    result = dump(
        '16051200000000.0,74939900000000.0,2625,42.0,1,n1,20,256,9.22337e+18,normal,5,4294967295,1609535912,'
        '1609535912,1609808470,1609808777,7,"1=20,2=170000,4=1,1002=2","1=20,2=170000,4=1"',
        '17,0,4294967294,43,0,,1,0,4096,normal,4,720,1609535912,1609535912,0,1609535999,0,,"1=2,4=2,1001=4,1002=4"',
        '18,0,4294967294,43,2,n[1-2],1,0,4096,normal,1,720,1609535912,1609535912,1609535999,0,0,"1=2,4=2","1=2,4=2"',
        '19,0,4294967294,43,0,,1,0,0,normal,77,720,1609535912,1609535912,0,0,0,,',
    )  # fmt: skip
    frame = result.frame
    assert frame["job_id"].tolist() == ["16051200000000.0", "17", "18", "19"]
    assert frame["state"].tolist() == ["FAILED", "CANCELLED", "RUNNING", "77"]
    np.testing.assert_array_equal(frame["walltime_s"], [np.nan, 43200, 43200, 43200])
    np.testing.assert_array_equal(frame["requested_gpus"], [2, 4, 0, np.nan])
    np.testing.assert_array_equal(frame["requested_memory_mib"], [170000, 8192, 8192, np.nan])
    np.testing.assert_array_equal(frame["array_task_index"], [2625, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(frame["elapsed_s"], [300, np.nan, np.nan, np.nan])
    assert frame["exit_code"].iloc[0] == 1.0
    assert frame["started_at"].isna().tolist() == [False, True, False, True]
    assert validate(frame).fault_counts == {"state-unknown": 1}


def test_a_dump_without_the_table_s_columns_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="time_submit"):
        SlurmdbdReader().read(log("x", "id_job,state\n1,3\n"), ReadOptions())


def test_parts_of_heterogeneous_jobs_keep_their_offset() -> None:
    document = json.loads((DATA / "sacct_2605.json").read_text())
    job = document["jobs"][0]
    job["het"] = {"job_id": 40, "job_offset": {"set": True, "infinite": False, "number": 1}}
    assert from_json(json.dumps({"jobs": [job]})).frame["job_id"].tolist() == ["40+1"]
    line = json.loads((DATA / "jobcomp_2205.jsonl").read_text().splitlines()[2])
    line |= {"het_job_id": 40, "het_job_offset": 1, "time_limit": 4294967295}
    frame = JobcompReader().read(log("x", json.dumps(line)), ReadOptions()).frame
    assert frame["job_id"].tolist() == ["40+1"]
    assert frame["walltime_s"].isna().all()

"""This module checks the formats that are tables with a header: DRAC, MLPerf, the built-in maps, own maps."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from predictor.data.schema import conform
from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.column_map import parse_column_map, read_column_map
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.registry import find_reader, recognise
from predictor.data.validate import validate
from predictor.errors import ArgumentError, EmptyInputError, FormatError

DRAC = (
    "job_unique_id,cluster_id,submit_time,partition_id_x,account_id,req_cpus,req_mem_total,req_tres,alloc_nodes,"
    "state,priority_x,eligible_time,start_time,elapsed_time,end_time,time_limit_sec,q_jobs_above,name_y"
)
LIFE = "2026-01-05 12:00:00,2026-01-05 12:01:00,2026-01-05 12:02:00"


def read(name: str, text: str, **options: object) -> ReadResult:
    log = LogFile(name="hand.csv", data=text.encode())
    assert recognise(log).name == name
    return find_reader(name).read(log, ReadOptions(**options))  # type: ignore[arg-type]


def test_drac_accounts_stand_for_users_and_leftovers_are_ignored() -> None:
    result = read("drac", (
        f'{DRAC}\n9,2,2026-01-05 12:00:00,48,17,2,3800,"billing=1,cpu=2,gres/gpu=1,mem=3800M,node=1",1,'
        "OUT_OF_MEMORY,5,2026-01-05 12:00:00,2026-01-05 12:01:00,60,2026-01-05 12:02:00,72000,4,x\n"
        '10,2,2026-01-05 12:00:00,48,17,2,3800,"billing=1,cpu=2,mem=3800M,node=1",1,'
        "TIMEOUT,5,2026-01-05 12:00:00,2026-01-05 12:01:00,60,2026-01-05 12:02:00,0,4,x\n"
    ))  # fmt: skip
    first, second = result.frame.iloc[0], result.frame.iloc[1]
    assert first["account"] == "17"
    assert pd.isna(first["user"])
    assert (first["queue"], first["requested_gpus"], first["walltime_s"]) == ("48", 1.0, 72000.0)
    assert second["requested_gpus"] == 0.0
    assert np.isnan(second["walltime_s"])
    assert validate(result.frame).fault_counts == {}


def test_philly_has_durations_without_starts_and_equal_rows_are_copies() -> None:
    row = "2026-01-05 12:00:00,66.0,2,132.0,ab12\n"
    result = read(
        "philly", f"timestamp,duration,num_gpus,gpu_time,cluster\n{row}{row}2026-01-05 11:00:00,5,1,5,cd\n"
    )
    assert result.dropped == {"duplicate-row": 1}
    assert result.frame["queue"].tolist() == ["ab12", "cd"]
    assert result.frame["state"].tolist() == ["UNKNOWN", "UNKNOWN"]
    assert result.frame["started_at"].isna().all()
    assert validate(result.frame).note_counts == {"start-unknown": 2}


def test_helios_times_are_local() -> None:
    text = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        f"1,u1,vc7,8,32,1,COMPLETED,{LIFE},60,0\n2,u1,vc7,0,1,1,CANCELLED,2026-01-05 12:00:00,None,None,,0\n"
    )
    frame = read("helios", text, zone="Asia/Shanghai", cluster="earth").frame
    assert frame["submitted_at"].iloc[0].isoformat() == "2026-01-05T04:00:00+00:00"
    assert set(frame["cluster"]) == {"earth"}
    assert validate(frame).fault_counts == {}


def test_acme_takes_the_log_s_own_duration() -> None:
    text = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
        "end_time,fail_time,stop_time,duration,queue,gpu_time\n"
        "a,u,2,16,64,100,10,Pretrain,FAILED,2026-01-05 12:00:00+08:00,2026-01-05 12:01:00+08:00,"
        "2026-01-05 12:02:00+08:00,,,45,3,720\n"
    )
    frame = read("acme", text).frame
    assert frame["submitted_at"].iloc[0].isoformat() == "2026-01-05T04:00:00+00:00"
    assert frame["elapsed_s"].tolist() == [45.0]
    assert validate(frame).note_counts == {"elapsed-differs": 1}


def test_openb_counts_thousandths_of_gpus_from_a_relative_clock() -> None:
    text = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time\np0,4000,9000,1,460,V100M16,LS,Succeeded,0,90,30.0\np1,1000,100,0,0,,BE,Running,5,,6\n"
        "p2,1000,100,8,1000,,LS,Failed,5,9,6\n"
    )
    frame = read("openb", text).frame
    assert frame["requested_gpus"].tolist() == [0.46, 0.0, 8.0]
    assert frame["gpu_type"].iloc[0] == "v100m16"
    assert frame["elapsed_s"].iloc[0] == 60.0
    assert frame["submitted_at"].iloc[0].isoformat() == "2023-01-01T00:00:00+00:00"
    assert validate(frame).fault_counts == {}


def test_dlrm_pods_from_before_the_trace_are_quarantined() -> None:
    text = (
        "instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time\n"
        "i0,HN,app0,12,1,120.0,,,\ni1,CN,app0,64,0,320.0,100.0,110.0,\ni2,CN,app0,64,0,320.0,100.0,110.0,200.0\n"
    )
    checked = validate(read("dlrm", text).frame)
    assert checked.fault_counts == {"submitted-missing": 1}
    assert checked.clean["state"].tolist() == ["RUNNING", "UNKNOWN"]
    assert checked.clean["requested_memory_mib"].iloc[0] == 327680.0


def test_crux_and_eagle_are_recognised() -> None:
    crux = read(
        "crux", "#job id,arrival time (sec),topology,shape,size,duration (sec)\n0,0.0,CLOS,48,48,720.0\n"
    )
    assert crux.frame[["requested_gpus", "elapsed_s"]].iloc[0].tolist() == [48.0, 720.0]
    header = (
        "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,submit_time,"
        "start_time,end_time,run_time,state,name,work_dir,submit_line\n"
    )
    rows = [f"{job},u,a,p,normal,7200.0,2,72,0,0.0,{LIFE},60.0,COMPLETED,n,w,s\n" for job in "565"]
    eagle = read("eagle", header + "".join(rows))
    assert eagle.frame[["job_name", "submit_line", "work_dir"]].iloc[0].tolist() == ["n", "s", "w"]
    assert eagle.frame["job_id"].tolist() == ["5_0", "6", "5_1"]
    assert eagle.frame["array_job_id"].fillna("-").tolist() == ["5", "-", "5"]
    assert len(validate(eagle.frame).clean) == 3


def test_mlperf_keeps_aborted_runs_and_makes_up_times_only_without_clock() -> None:
    text = (
        "round,org,system,benchmark,run,run_start_ms,duration_s,run_status,sys_number_of_nodes,"
        "sys_accelerators_per_node,sys_accelerator_model_name,global_batch_size,epochs\n"
        "training-v9.9,o,s,bert,r0,1767614400000,60.5,success,2,8,GPU-X,256,3\n"
        "training-v3.0,o,s,bert,r1,5000,70.5,aborted,2,8,GPU-X,256,3\n"
        "training-v3.0,o,s,bert,r2,5000,,success,2,8,GPU-X,256,3\n"
        "training-v3.0,o,s,bert,r1,5000,70.5,,2,8,GPU-X,256,3\n"
    )
    result = read("mlperf", text)
    assert result.unreadable["reason"].tolist() == ["no-duration"]
    assert result.frame["state"].tolist() == ["COMPLETED", "FAILED", "UNKNOWN"]
    assert result.frame["requested_gpus"].tolist() == [16.0] * 3
    assert result.frame["submitted_at"].iloc[1].isoformat() == "2023-06-01T00:00:00+00:00"
    assert result.frame["started_at"].isna().tolist() == [False, True, True]
    assert validate(result.frame).fault_counts == {}
    assert result.frame["epochs"].isna().all()


MAP = """
[format]
name = "mysite"
marks = ["ID"]
zone = "Europe/Berlin"

[columns]
job_id = "ID"
submitted_at = "sub"
elapsed_s = { column = "mins", unit = "min" }
walltime_s = { column = "limit", unit = "clock" }
requested_memory_mib = { column = "mem", unit = "size" }
requested_gpus = { column = "tres", unit = "tres_gpus" }
preemptible = "pre"
framework = { constant = "jax" }
state = "st"

[states]
ok = "COMPLETED"
"*" = "FAILED"
"""


def test_a_site_s_own_map_translates_units_states_and_zones(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(MAP)
    text = (
        "ID;sub;mins;limit;mem;tres;pre;st;other\n"
        "1;2026-01-05T12:00:00;2;1-00:00:00;4G;gres/gpu=2;true;ok;x\n"
        "2;2026-01-05T12:00:00;3;UNLIMITED;-;cpu=1;no;odd;x\n"
        "3;2026-01-05T12:00:00;three;;;;perhaps;odd;x\n4;short\n"
    )
    options = ReadOptions(column_map=read_column_map(tmp_path / "m.toml"))
    result = find_reader("csv").read(LogFile(name="own.csv", data=text.encode()), options)
    frame = result.frame
    assert frame["submitted_at"].iloc[0].isoformat() == "2026-01-05T11:00:00+00:00"
    assert frame["elapsed_s"].tolist() == [120.0, 180.0]
    np.testing.assert_array_equal(frame["walltime_s"], [86400.0, np.nan])
    np.testing.assert_array_equal(frame["requested_memory_mib"], [4096.0, np.nan])
    assert frame["requested_gpus"].tolist() == [2.0, 0.0]
    assert frame["preemptible"].tolist() == [True, False]
    assert frame["state"].tolist() == ["COMPLETED", "FAILED"]
    assert set(frame["framework"]) == {"jax"}
    assert set(frame["source"]) == {"mysite"}
    reasons = dict(zip(result.unreadable["line"], result.unreadable["reason"], strict=True))
    assert reasons == {4: "bad-number:mins;bad-flag:pre", 5: "fields-do-not-fit"}


def test_every_fault_of_a_map_is_named_at_once() -> None:
    text = (
        "[format]\norigin='soon'\nrepeated_ids='x'\n"
        "[columns]\ncolour='c'\njob_id=3\nelapsed_s={column='a',unit='lightyears'}\n"
        "user={column='u',constant='x'}\n[states]\nok='FINE'\n[odd]\n"
    )
    with pytest.raises(ArgumentError) as caught:
        parse_column_map(text, "m.toml")
    told = str(caught.value)
    for fault in (
        "'colour'",
        "'job_id' must be",
        "lightyears",
        "'user' takes",
        "'FINE'",
        "[odd]",
        "'soon'",
        "repeated_ids",
        "submitted_at",
    ):
        assert fault in told
    with pytest.raises(FormatError, match="no TOML"):
        parse_column_map("= [", "m.toml")
    with pytest.raises(FormatError, match="check the path"):
        read_column_map(Path("absent.toml"))


def test_relative_times_need_an_origin() -> None:
    text = "[columns]\njob_id='i'\nsubmitted_at={column='t',unit='relative'}\n"
    options = ReadOptions(column_map=parse_column_map(text, "m"))
    with pytest.raises(ArgumentError, match="origin"):
        find_reader("csv").read(LogFile(name="x", data=b"i,t\n1,5\n"), options)


def test_a_table_with_canonical_names_needs_no_map() -> None:
    text = "job_id,submitted_at,started_at,ended_at,state,own\n1,2026-01-05T12:00:00Z,,,PENDING,x\n"
    frame = find_reader("csv").read(LogFile(name="x", data=text.encode()), ReadOptions()).frame
    assert frame["state"].tolist() == ["PENDING"]
    with pytest.raises(FormatError, match="--map"):
        find_reader("csv").read(LogFile(name="x", data=b"a,b\n1,2\n"), ReadOptions())


def test_parquet_reads_with_and_without_a_map() -> None:
    stream = io.BytesIO()
    pd.DataFrame(
        {"job_id": ["1"], "submitted_at": ["2026-01-05T12:00:00Z"], "state": ["PENDING"]}
    ).to_parquet(stream)
    log = LogFile(name="x.parquet", data=stream.getvalue())
    plain = find_reader("parquet").read(log, ReadOptions()).frame
    column_map = parse_column_map(
        "[columns]\njob_id='job_id'\nsubmitted_at='submitted_at'\nstate='state'\n", "m"
    )
    mapped = find_reader("parquet").read(log, ReadOptions(column_map=column_map)).frame
    assert plain["submitted_at"].equals(mapped["submitted_at"])
    with pytest.raises(FormatError, match="no Parquet"):
        find_reader("parquet").read(LogFile(name="x", data=b"hello"), ReadOptions())


def test_whole_numbers_of_parquet_stay_whole_where_one_is_missing() -> None:
    numbers = pd.DataFrame({
        "job_id": pd.array([2**53 + 1, 2**53 + 3], dtype="Int64"),
        "user": pd.array([1001, None], dtype="Int64"),
        "submitted_at": "2026-01-05T12:00:00Z", "state": "PENDING",
    })  # fmt: skip
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(numbers).replace_schema_metadata(None), stream)  # of another program
    read_back = find_reader("parquet").read(LogFile(name="x", data=stream.getvalue()), ReadOptions()).frame
    assert read_back["job_id"].tolist() == ["9007199254740993", "9007199254740995"]
    assert read_back["user"].iloc[0] == "1001"


def test_a_map_that_names_absent_columns_is_refused_with_what_was_found() -> None:
    options = ReadOptions(column_map=parse_column_map(MAP, "m"))
    with pytest.raises(FormatError) as caught:
        find_reader("csv").read(LogFile(name="x", data=b"ID,sub\n1,2\n"), options)
    assert "'mins' is absent" in str(caught.value)
    assert "found: ID, sub" in str(caught.value)


def test_a_header_without_rows_is_empty() -> None:
    with pytest.raises(EmptyInputError):
        read("philly", "timestamp,duration,num_gpus,gpu_time,cluster\n")


def test_conformed_rows_have_the_canonical_types() -> None:
    frame = read(
        "philly", "timestamp,duration,num_gpus,gpu_time,cluster\n2026-01-05 12:00:00,66,2,132,ab\n"
    ).frame
    pd.testing.assert_frame_equal(conform(frame), frame)


def test_rows_of_another_width_than_the_header_are_a_wrong_delimiter_or_unreadable() -> None:
    header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    with pytest.raises(FormatError, match="--delimiter"):
        read("philly", header + "2026-01-05 12:00:00;5;1;5;a\n")
    result = read("philly", header + "2026-01-05 12:00:00,5,1,5,a\n1,2\n2026-01-05 12:00:00,5,1,5,a,b\n")
    assert result.unreadable["line"].tolist() == [3, 4]
    assert result.rows_read == 3


def test_one_huge_field_of_a_table_is_quarantined_not_fatal() -> None:
    header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    cells = ("5,1,5," + "x" * 3_000_000, "nan,1,5,a", "-5,1,5,a")
    rows = "".join(f"2026-01-05 12:00:00,{rest}\n" for rest in cells)
    checked = validate(read("philly", header + rows).frame)
    assert checked.fault_counts == {"field-too-long": 1, "number-negative": 1}

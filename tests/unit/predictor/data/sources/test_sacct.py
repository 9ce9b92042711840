"""This module checks the sacct reader on every quirk that dumps from the field have."""

from pathlib import Path

import numpy as np
import pytest

from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.sacct import SacctReader
from predictor.data.validate import validate
from predictor.errors import EmptyInputError, FormatError

DATA = Path(__file__).parents[4] / "data"
HEADER = "JobID|JobName|User|State|Submit|Start|End|ElapsedRaw"
LIFE = "2026-01-05T12:00:00|2026-01-05T12:01:00|2026-01-05T12:02:00|60"


def read(text: str, **options: object) -> ReadResult:
    log = LogFile(name="cluster7.psv", data=text.encode())
    return SacctReader().read(log, ReadOptions(**options))  # type: ignore[arg-type]


def capture(name: str) -> ReadResult:
    return SacctReader().read(LogFile(name=name, data=(DATA / name).read_bytes()), ReadOptions())


@pytest.mark.parametrize("name", ["sacct_2205.psv", "sacct_2411_all.psv", "sacct_2605_all.psv"])
def test_dumps_of_three_slurm_versions_read_without_fault(name: str) -> None:
    result = capture(name)
    assert len(result.unreadable) == 0
    assert result.merged["step"] == result.rows_read - len(result.frame)
    assert validate(result.frame).fault_counts == {}
    assert result.frame["peak_host_memory_mib"].notna().any()
    assert set(result.frame["cluster"]) == {"mini"}


def test_a_dump_tells_requests_limits_and_outcomes() -> None:
    jobs = capture("sacct_2205.psv").frame.set_index("job_id")
    first = jobs.loc["1"]
    assert (first["requested_gpus"], first["gpu_type"], first["requested_cpus"]) == (2.0, "h100", 8.0)
    assert (first["requested_memory_mib"], first["walltime_s"], first["elapsed_s"]) == (4096.0, 300.0, 20.0)
    assert first["peak_host_memory_mib"] == 4468 / 1024
    assert (jobs.loc["2", "requested_gpus"], jobs.loc["2", "requested_memory_mib"]) == (8.0, 16384.0)
    assert jobs.loc["28_1", "array_job_id"] == "28"
    assert jobs.loc["28_1", "array_task_index"] == 1.0
    assert jobs.loc["27", "exit_code"] == 3.0


def test_jobs_cancelled_while_pending_never_started() -> None:
    jobs = capture("sacct_2205.psv").frame.set_index("job_id")
    assert jobs.loc["4", "state"] == "CANCELLED"
    assert jobs.loc[["4", "5"], ["started_at", "elapsed_s", "node_list"]].isna().all(axis=None)


def test_a_cancelled_pending_job_of_older_slurm_has_no_start_either() -> None:
    text = f"{HEADER}|AllocCPUS\n7|a|u|CANCELLED by 5|2026-01-05T12:00:00|{'2026-01-05T12:02:00|' * 2}0|0\n"
    frame = read(text).frame
    assert frame["started_at"].isna().all()
    assert frame["elapsed_s"].isna().all()


def test_trailing_delimiters_and_any_field_order_are_read() -> None:
    plain = read(f"{HEADER}\n7|a|u|COMPLETED|{LIFE}\n").frame
    trailing = read(f"{HEADER}|\n7|a|u|COMPLETED|{LIFE}|\n").frame
    reordered = read(
        "ElapsedRaw|End|Start|Submit|State|User|JobName|JobID\n"
        "60|2026-01-05T12:02:00|2026-01-05T12:01:00|2026-01-05T12:00:00|COMPLETED|u|a|7\n"
    ).frame
    assert plain.equals(trailing)
    assert plain.equals(reordered)


@pytest.mark.parametrize("delimiter", ["\x1f", ";", "^", "\t"])
def test_other_delimiters_are_found_in_the_header(delimiter: str) -> None:
    text = f"{HEADER}\n7|a|u|COMPLETED|{LIFE}\n".replace("|", delimiter)
    assert read(text).frame["job_id"].tolist() == ["7"]


def test_fields_of_a_headerless_dump_come_from_the_caller() -> None:
    frame = read(f"7|a|u|COMPLETED|{LIFE}\n", fields=tuple(HEADER.split("|"))).frame
    assert frame[["job_id", "user", "state"]].iloc[0].tolist() == ["7", "u", "COMPLETED"]


def test_a_headerless_dump_of_26_accounting_fields_is_recognised() -> None:
    line = (
        "61|61|robin|white|curry|moor|moor|100|hardu|200|2026-01-05T12:00:00|2026-01-05T12:00:00|"
        "2026-01-05T12:01:00|2026-01-05T12:02:00|00:01:00|0:0|CANCELLED by 200|2|8|8|2147486648Mn|"
        "cpu=8,node=2|billing=8,cpu=8,gres/gpu=2,mem=24000M,node=2|1-06:00:00|n-[01-02],n-07|8340d9|x\n"
    )
    log = LogFile(name="robin.log", data=line.encode())
    assert SacctReader().recognises(log)
    job = SacctReader().read(log, ReadOptions()).frame.iloc[0]
    assert (job["job_name"], job["node_list"]) == ("8340d9|x", "n-[01-02],n-07")
    assert job["requested_gpus"] == 2.0  # ReqTRES lacks what AllocTRES has
    assert job["requested_memory_mib"] == 8 * 3000.0
    assert job["walltime_s"] == 108000.0


def test_a_headerless_dump_whose_older_records_lack_the_last_field_is_recognised() -> None:
    record = (
        "FAILED|67|1|100M|1||2026-01-05T12:00:00|2026-01-05T12:00:00|2026-01-05T12:01:00|00:05:16|00:00:00|"
        "2026-01-05T12:06:16|0:125|0:0|1|1||||||00:05:16|01:07.402|01:03.182|02:10.584"
    )
    step = record.replace("|67|", "|67.batch|").replace("|1||||||", "|1|0.07M|0.00M|15|114944K|27994792K|")
    frame = read(f"{record}\n{step}\n{record.replace('67', '68')}|part1\n").frame
    assert frame["queue"].isna().tolist() == [True, False]
    assert frame["peak_host_memory_mib"].iloc[0] == 112.25


def test_requeued_attempts_repeat_the_id_and_are_numbered_by_start() -> None:
    frame = read(
        f"{HEADER}\n"
        "7|a|u|COMPLETED|2026-01-05T13:00:00|2026-01-05T13:01:00|2026-01-05T13:02:00|60\n"
        f"7|a|u|PREEMPTED|{LIFE}\n"
    ).frame
    assert frame["attempt"].tolist() == [1.0, 0.0]
    assert validate(frame).fault_counts == {}


def test_peaks_of_steps_go_to_their_attempt_and_extern_is_skipped() -> None:
    text = (
        f"{HEADER}|MaxRSS|TRESUsageInMax\n"
        f"7|a|u|PREEMPTED|{LIFE}||\n"
        f"7.batch|batch||CANCELLED|{LIFE}|2048K|\n"
        "7|a|u|COMPLETED|2026-01-05T13:00:00|2026-01-05T13:01:00|2026-01-05T13:02:00|60||\n"
        f"7.batch|batch||COMPLETED|{LIFE}|4096K|gres/gpumem=3G,mem=4096K\n"
        f"7.extern|extern||COMPLETED|{LIFE}|99G|\n"
        f"7.0|python||COMPLETED|{LIFE}||mem=6M\n"
    )
    frame = read(text).frame
    assert frame["peak_host_memory_mib"].tolist() == [2.0, 6.0]
    np.testing.assert_array_equal(frame["peak_vram_mib"], [np.nan, 3072.0])


def test_a_step_whose_job_is_not_in_the_log_is_unreadable_not_lost() -> None:
    result = read(f"{HEADER}\n7|a|u|COMPLETED|{LIFE}\n8.batch|batch||COMPLETED|{LIFE}\n")
    assert result.unreadable["reason"].tolist() == ["step-without-job"]
    assert result.unreadable["line"].tolist() == [3]
    assert result.rows_read == 2


def test_epoch_times_and_zones_are_read() -> None:
    epoch = read(f"{HEADER}\n7|a|u|COMPLETED|1767614400|1767614460|1767614520|60\n").frame
    local = read(f"{HEADER}\n7|a|u|COMPLETED|{LIFE}\n", zone="Asia/Tokyo").frame
    assert epoch["submitted_at"].iloc[0].isoformat() == "2026-01-05T12:00:00+00:00"
    assert local["submitted_at"].iloc[0].isoformat() == "2026-01-05T03:00:00+00:00"


def test_running_and_pending_jobs_have_no_end() -> None:
    frame = read(
        f"{HEADER}\n7|a|u|RUNNING|2026-01-05T12:00:00|2026-01-05T12:01:00|Unknown|99\n"
        "8|a|u|PENDING|2026-01-05T12:00:00|Unknown|Unknown|0\n"
    ).frame
    assert frame["ended_at"].isna().all()
    assert frame["elapsed_s"].iloc[0] == 99.0
    assert validate(frame).fault_counts == {}


@pytest.mark.parametrize("name", ["Reserved", "Planned"])
def test_the_wait_field_may_have_either_name(name: str) -> None:
    assert len(read(f"{HEADER}|{name}\n7|a|u|COMPLETED|{LIFE}|00:01:00\n").frame) == 1


@pytest.mark.parametrize(
    ("limit", "want_s"), [("Partition_Limit", None), ("UNLIMITED", None), ("", None), ("1-00:00:00", 86400.0)]
)
def test_limits_without_time_are_missing(limit: str, want_s: float | None) -> None:
    frame = read(f"{HEADER}|Timelimit\n7|a|u|COMPLETED|{LIFE}|{limit}\n").frame
    assert frame["walltime_s"].replace({np.nan: None}).iloc[0] == want_s


def test_raw_limits_are_minutes() -> None:
    frame = read(
        f"{HEADER}|TimelimitRaw\n7|a|u|COMPLETED|{LIFE}|10\n8|a|u|COMPLETED|{LIFE}|UNLIMITED\n"
    ).frame
    np.testing.assert_array_equal(frame["walltime_s"], [600.0, np.nan])


def test_a_job_without_gpus_in_its_tres_asks_for_none_and_without_tres_is_unknown() -> None:
    with_tres = read(f"{HEADER}|ReqTRES\n7|a|u|COMPLETED|{LIFE}|cpu=1,mem=2G,node=1\n").frame
    without = read(f"{HEADER}\n7|a|u|COMPLETED|{LIFE}\n").frame
    assert with_tres["requested_gpus"].tolist() == [0.0]
    assert without["requested_gpus"].isna().all()


def test_logs_without_job_ids_get_row_numbers() -> None:
    result = read("Submit|State|Timelimit\n2026-01-05T12:00:00|CANCELLED by 4|1-00:00:00\n")
    assert result.frame["job_id"].tolist() == ["row-2"]
    assert result.notes["job-id-made-up"] == 1


def test_states_that_no_slurm_writes_are_kept_for_the_quarantine() -> None:
    frame = read(f"{HEADER}\n7|a|u|EXPLODED|{LIFE}\n").frame
    assert validate(frame).fault_counts == {"state-unknown": 1}


def test_unreadable_times_and_numbers_are_named_together() -> None:
    result = read("JobID|State|Submit|ElapsedRaw|NNodes\n7|FAILED|noon|soon|many\n")
    reasons = set(result.unreadable["reason"].iloc[0].split(";"))
    assert reasons == {"bad-time:submit", "bad-number:elapsedraw", "bad-number:nnodes"}
    assert result.rows_read == 1


def test_one_huge_field_is_quarantined_not_fatal() -> None:
    frame = read(f"{HEADER}\n7|{'x' * 2_000_000}|u|COMPLETED|{LIFE}\n8|b|u|COMPLETED|{LIFE}\n").frame
    checked = validate(frame)
    assert checked.fault_counts == {"field-too-long": 1}
    assert checked.clean["job_id"].tolist() == ["8"]


def test_windows_line_ends_are_no_part_of_the_last_field() -> None:
    frame = read(f"JobID|State|Submit|Partition\r\n7|PENDING|2026-01-05T12:00:00|gpu\r\n").frame  # noqa: F541
    assert frame["queue"].tolist() == ["gpu"]


def test_a_header_alone_and_a_strange_file_are_clear_errors() -> None:
    with pytest.raises(EmptyInputError, match="no record"):
        read(f"{HEADER}\n")
    with pytest.raises(FormatError, match="--fields"):
        read("once upon a time\nthere was a log\n")
    with pytest.raises(FormatError, match="fields"):
        read("a|b\n", fields=("JobID", "State", "Submit"))


def test_clocks_that_are_none_are_unreadable_and_dangling_delimiters_are_cut_off() -> None:
    result = read(f"{HEADER}|Timelimit\n7|a|u|COMPLETED|{LIFE}|soonish\n8|a|u|COMPLETED|{LIFE}|00:10:00\n")
    assert result.unreadable["reason"].tolist() == ["bad-number:timelimit"]
    assert result.frame["walltime_s"].tolist() == [600.0]


def test_older_logs_name_gpus_in_reqgres_per_node() -> None:
    frame = read(f"{HEADER}|ReqGRES|ReqNodes\n7|a|u|COMPLETED|{LIFE}|gpu:a100:2|3\n").frame
    assert frame["requested_gpus"].tolist() == [6.0]


def test_gpu_use_of_steps_becomes_a_ratio() -> None:
    text = (
        f"{HEADER}|TRESUsageInAve|MaxRSS\n7|a|u|COMPLETED|{LIFE}||\n"
        f"7.0|a||COMPLETED|{LIFE}|cpu=00:00:10,gres/gpuutil=85|lots\n"
    )
    frame = read(text).frame
    assert frame["gpu_utilisation_ratio"].tolist() == [0.85]
    assert frame["peak_host_memory_mib"].isna().all()


def test_a_dump_in_which_no_record_fits_is_refused() -> None:
    with pytest.raises(FormatError, match="no record"):
        read(f"{HEADER}\n7|a\n8|b\n")

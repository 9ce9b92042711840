"""This module checks the ingest job and its command: table, quarantine, report and exit code."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipelines.ingest import FileAccount, IngestReport, ingest
from predictor.cli import EXIT_USAGE, main
from predictor.data.pseudonyms import read_names_key
from predictor.data.sources.base import ReadOptions
from predictor.data.sources.column_map import parse_column_map
from predictor.data.table import read_metadata, read_table
from predictor.errors import ArgumentError, EmptyInputError, FormatError

DATA = Path(__file__).parents[2] / "data"
HEADER = "JobID|User|State|Submit|Start|End|ElapsedRaw"
GOOD = "1|u|COMPLETED|2026-01-05T12:00:00|2026-01-05T12:01:00|2026-01-05T12:02:00|60"
BACKWARDS = "2|u|COMPLETED|2026-01-05T12:00:00|2026-01-05T12:01:00|2026-01-05T11:02:00|-60"
TORN = "3|u|COMPL"


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([HEADER, *lines, ""]))
    return path


def balances(account: FileAccount) -> bool:
    parts = sum(account.merged.values()) + sum(account.dropped.values())
    return account.read == parts + account.quarantined + account.unreadable + account.kept


def check(report: IngestReport) -> None:
    assert all(balances(account) for account in report.files)
    assert report.kept == len(read_table(report.table))
    refused = 0 if report.quarantine is None else pq.read_metadata(report.quarantine).num_rows
    assert report.quarantined == refused


def test_several_formats_become_one_table_sorted_by_submission(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    report = ingest([DATA / "sacct_2205.psv", DATA / "sacct_2605.json", DATA / "jobcomp_2205.jsonl"], out)
    check(report)
    assert [account.format for account in report.files] == ["sacct", "sacct-json", "jobcomp"]
    assert read_table(out)["submitted_at"].is_monotonic_increasing
    assert sum(report.files[0].merged.values()) == 8


def test_the_table_carries_its_sources_counts_and_schema_version(tmp_path: Path) -> None:
    path = write(tmp_path / "a.psv", GOOD, BACKWARDS)
    report = ingest([path], tmp_path / "jobs.parquet")
    metadata = read_metadata(report.table)
    assert metadata["schema_version"] == "1"
    assert json.loads(metadata["row_counts"]) == {"kept": 1, "quarantined": 1, "read": 2}
    assert list(json.loads(metadata["sources"]).values()) == list(report.sources.values())
    assert all(len(digest) == 64 for digest in report.sources.values())


def test_refused_rows_lie_in_the_quarantine_with_all_their_reasons(tmp_path: Path) -> None:
    report = ingest([write(tmp_path / "a.psv", GOOD, BACKWARDS, TORN)], tmp_path / "jobs.parquet")
    check(report)
    assert report.quarantine == tmp_path / "jobs.quarantine.parquet"
    refused = pd.read_parquet(report.quarantine)
    assert set(refused["fault_codes"]) == {"ended-before-started;number-negative", "fields-do-not-fit"}
    assert report.files[0].reasons == {
        "fields-do-not-fit": 1, "ended-before-started": 1, "number-negative": 1,
    }  # fmt: skip
    assert "3|u|COMPL" in refused["fault_text"].iloc[1]
    assert refused["line"].iloc[1] == 4


def test_a_clean_ingest_removes_the_quarantine_of_an_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "jobs.parquet"
    ingest([write(tmp_path / "a.psv", GOOD, BACKWARDS)], out)
    report = ingest([write(tmp_path / "a.psv", GOOD)], out)
    assert report.quarantine is None
    assert not (tmp_path / "jobs.quarantine.parquet").exists()


def test_copies_and_snapshots_in_overlapping_files_count_once(tmp_path: Path) -> None:
    running = "1|u|RUNNING|2026-01-05T12:00:00|2026-01-05T12:01:00|Unknown|5"
    weeks = {"week1.psv": running, "week2.psv": GOOD, "again.psv": GOOD}
    paths = [write(tmp_path / name, line) for name, line in weeks.items()]
    report = ingest(paths, tmp_path / "jobs.parquet", options=ReadOptions(cluster="alpha"))
    check(report)
    assert [dict(account.dropped) for account in report.files] == [
        {"superseded-snapshot": 1}, {}, {"duplicate-row": 1},
    ]  # fmt: skip
    assert read_table(report.table)["state"].tolist() == ["COMPLETED"]


def test_all_faults_of_all_files_are_told_at_once_and_nothing_is_written(tmp_path: Path) -> None:
    strange, empty = tmp_path / "strange.txt", tmp_path / "empty.log"
    strange.write_text("once upon a time\n")
    empty.write_text("")
    paths = [strange, write(tmp_path / "a.psv", GOOD), empty, tmp_path / "absent.csv"]
    with pytest.raises(FormatError) as caught:
        ingest(paths, tmp_path / "jobs.parquet")
    for name in ("strange.txt", "empty.log", "absent.csv"):
        assert name in str(caught.value)
    assert not (tmp_path / "jobs.parquet").exists()


def test_one_empty_file_is_an_empty_input(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    with pytest.raises(EmptyInputError, match=r"empty\.log"):
        ingest([tmp_path / "empty.log"], tmp_path / "jobs.parquet")
    with pytest.raises(EmptyInputError, match="no file"):
        ingest([], tmp_path / "jobs.parquet")


def test_members_of_an_archive_that_are_no_logs_are_reported(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in (("a.psv", f"{HEADER}\n{GOOD}\n"), ("names.csv", "x,y\n")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    (tmp_path / "logs.tgz").write_bytes(buffer.getvalue())
    report = ingest([tmp_path / "logs.tgz"], tmp_path / "jobs.parquet")
    assert report.kept == 1
    assert "names.csv" in report.skipped[0]


def test_tables_of_one_trace_are_joined_and_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "job.csv").write_text("j1,i1,u1,Terminated,90.0,160.0\n")
    (tmp_path / "task.csv").write_text("j1,worker,2.0,Terminated,100.0,160.0,600.0,29.3,50.0,V100\n")
    report = ingest([tmp_path / "job.csv", tmp_path / "task.csv"], tmp_path / "jobs.parquet")
    check(report)
    assert report.files[0].merged == {"joined": 1}
    assert read_table(report.table)["user"].tolist() == ["u1"]


def test_a_map_makes_any_csv_an_input(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("id,when\n1,2026-01-05T12:00:00\n")
    column_map = parse_column_map(
        "[columns]\njob_id='id'\nsubmitted_at='when'\nstate={constant='PENDING'}\n", "m.toml"
    )
    report = ingest(
        [tmp_path / "own.csv"], tmp_path / "jobs.parquet", options=ReadOptions(column_map=column_map)
    )
    assert report.kept == 1


def test_the_command_writes_the_table_and_prints_the_account(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.psv.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, GOOD, BACKWARDS, ""]).encode()))
    out = tmp_path / "jobs.parquet"
    assert main(["ingest", str(path), "--tz", "Asia/Tokyo", "--cluster", "alpha", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "1 jobs in" in printed
    assert "1 records were refused" in printed
    assert read_table(out)["submitted_at"].iloc[0].isoformat() == "2026-01-05T03:00:00+00:00"
    assert read_table(out)["cluster"].tolist() == ["alpha"]


def test_the_json_report_of_the_command_is_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.psv", GOOD)
    assert main(["ingest", str(path), "--out", str(tmp_path / "jobs.parquet"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["kept"], report["quarantined"], report["files"][0]["format"]) == (1, 0, "sacct")


def test_headerless_logs_and_delimiters_are_options(tmp_path: Path) -> None:
    path = tmp_path / "old.log"
    path.write_text(GOOD.replace("|", "\x1f") + "\n")
    arguments = ["--fields", HEADER.replace("|", ","), "--delimiter", "\\x1f", "--format", "sacct"]
    assert main(["ingest", str(path), *arguments, "--out", str(tmp_path / "jobs.parquet")]) == 0
    assert read_table(tmp_path / "jobs.parquet")["job_id"].tolist() == ["1"]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["strange.txt"], "once upon"),
        (["empty.log"], "is empty"),
        (["a.psv", "--format", "swf"], "18 fields"),
        (["a.psv", "--format", "excel"], "no log format"),
        (["a.psv", "--tz", "Mars/Olympus"], "no time zone"),
        (["a.psv", "--map", "absent.toml"], "cannot read the map"),
        (["a.psv", "--colour", "red"], "--colour"),
    ],
)
def test_wrong_calls_and_wrong_files_exit_2_with_a_clear_message(
    arguments: list[str],
    want: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.psv", GOOD)
    (tmp_path / "strange.txt").write_text("once upon a time\n")
    (tmp_path / "empty.log").write_text("")
    assert main(["ingest", *arguments, "--out", "jobs.parquet"]) == EXIT_USAGE
    assert want in capsys.readouterr().err
    assert not (tmp_path / "jobs.parquet").exists()


@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_parquet_table_is_found_by_its_content_with_and_without_a_map(
    is_mapped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a.psv", GOOD)
    assert main(["ingest", str(tmp_path / "a.psv"), "--out", str(tmp_path / "a.parquet")]) == 0
    again = tmp_path / "strange.csv"
    again.write_bytes((tmp_path / "a.parquet").read_bytes())
    mapping = tmp_path / "m.toml"
    columns = ("job_id", "user", "state", "submitted_at", "started_at", "ended_at")
    mapping.write_text("[format]\nname = 'own'\n[columns]\n" + "".join(f"{c} = '{c}'\n" for c in columns))
    capsys.readouterr()
    options = ["--map", str(mapping)] if is_mapped else []
    assert main(["ingest", str(again), "--out", str(tmp_path / "b.parquet"), "--json", *options]) == 0
    (account,) = json.loads(capsys.readouterr().out)["files"]
    assert (account["format"], account["read"], account["kept"]) == ("parquet", 1, 1)
    assert read_table(tmp_path / "b.parquet")["elapsed_s"].tolist() == [60.0]


def test_options_that_no_format_takes_are_refused_all_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swf = tmp_path / "a.swf"
    swf.write_text("; UnixStartTime: 1000000000\n1 0 10 60 1 -1 -1 1 100 -1 1 1 1 1 1 -1 -1 -1\n")
    mapping = tmp_path / "m.toml"
    mapping.write_text("[format]\nname = 'own'\n[columns]\njob_id = 'id'\nsubmitted_at = 's'\n")
    call = ["ingest", str(swf), "--format", "swf", "--out", str(tmp_path / "jobs.parquet")]
    assert main([*call, "--delimiter", ";", "--fields", "JobID", "--map", str(mapping)]) == EXIT_USAGE
    told = capsys.readouterr().err
    for option in ("--delimiter", "--fields", "--map"):
        assert f"{option}: no log is of a format that takes it (found: swf)" in told
    assert not (tmp_path / "jobs.parquet").exists()
    psv = write(tmp_path / "a.psv", GOOD)
    mixed = ["ingest", str(swf), str(psv), "--delimiter", "|", "--out", str(tmp_path / "jobs.parquet")]
    assert main(mixed) == 0


def test_the_help_shows_the_formats_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", "--help"]) == 0
    printed = capsys.readouterr().out
    for part in ("Examples", "sacct-json", "slurmdbd", "--map", "quarantine"):
        assert part in printed


def test_the_table_never_replaces_a_log_or_a_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "a.psv", GOOD)
    with pytest.raises(ArgumentError, match="one of the logs"):
        ingest([path], tmp_path / "a.psv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArgumentError, match="cannot write"):
        ingest([path], tmp_path / "folder")
    with pytest.raises(FormatError, match="check the path"):
        ingest([tmp_path / "folder"], tmp_path / "jobs.parquet")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.psv", "folder"]


def test_with_a_names_key_no_file_holds_a_name(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    named = [line.replace("|u|", "|lovelace|") for line in (GOOD, BACKWARDS, TORN)]
    key = tmp_path / "names.key"
    key.write_text("5" * 64)
    out = tmp_path / "out" / "jobs.parquet"
    command = ["ingest", str(write(logs / "a.psv", *named)), "--out", str(out), "--names-key", str(key)]
    assert main(command) == 0
    assert list(read_table(out)["user"]) == [read_names_key(key).token("lovelace")]
    assert [path.name for path in out.parent.iterdir() if b"lovelace" in path.read_bytes()] == []
    assert out.with_name("jobs.quarantine.parquet").exists()

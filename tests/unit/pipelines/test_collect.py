"""This module checks how new logs and outcomes are merged into the canonical job table."""

import json
from pathlib import Path

import pytest

from pipelines.collect import Collected, collect
from pipelines.outcomes import outcome_table
from pipelines.settings import DataSettings
from predictor.data.table import fingerprint, read_metadata, read_table
from predictor.errors import EmptyInputError, FormatError

HEADER = "JobID|User|State|Submit|Start|End|ElapsedRaw|Cluster"
LIVE = "1|ann|RUNNING|2026-01-05T12:00:00|2026-01-05T12:01:00|Unknown|60|alpha"
DONE = "1|ann|COMPLETED|2026-01-05T12:00:00|2026-01-05T12:01:00|2026-01-05T12:11:00|600|alpha"
OTHER = "2|bob|FAILED|2026-01-05T11:00:00|2026-01-05T12:01:00|2026-01-05T12:02:00|60|alpha"
AGAIN = "1|eve|FAILED|2026-03-01T12:00:00|2026-03-01T12:01:00|2026-03-01T12:11:00|600|alpha"
BACKWARDS = "3|bob|COMPLETED|2026-01-05T12:00:00|2026-01-05T12:01:00|2026-01-05T11:02:00|-60|alpha"


def log(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([HEADER, *lines, ""]))
    return path


def run(tmp_path: Path, *patterns: str, outcomes: tuple[str, ...] = ()) -> Collected:
    return collect(
        DataSettings.model_validate(
            {
                "table": tmp_path / "canonical" / "jobs.parquet",
                "sources": [{"files": patterns, "format": "sacct"}] if patterns else [],
                "outcomes": outcomes,
            }
        )
    )


def test_logs_become_a_table_that_remembers_them(tmp_path: Path) -> None:
    path = log(tmp_path / "a.psv", LIVE, OTHER)
    result = run(tmp_path, str(tmp_path / "*.psv"))
    assert result.new_files == (str(path),)
    table = read_table(result.table)
    assert table["job_id"].to_list() == ["2", "1"]
    assert list(json.loads(read_metadata(result.table)["sources"])) == [str(path)]


def test_the_same_logs_again_leave_the_table_untouched(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", LIVE, OTHER)
    first = run(tmp_path, str(tmp_path / "*.psv"))
    inode = first.table.stat().st_ino
    again = run(tmp_path, str(tmp_path / "*.psv"))
    assert again.new_files == ()
    assert again.table.stat().st_ino == inode


def test_a_copy_of_a_known_log_adds_nothing(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", LIVE)
    run(tmp_path, str(tmp_path / "*.psv"))
    log(tmp_path / "b.psv", LIVE)
    assert run(tmp_path, str(tmp_path / "*.psv")).new_files == ()


def test_rotated_logs_that_name_no_cluster_are_of_one(tmp_path: Path) -> None:
    for name, lines in {"january": [OTHER], "february": [DONE, OTHER]}.items():
        bare = [line.rpartition("|")[0] for line in (HEADER, *lines)]
        (tmp_path / f"{name}.psv").write_text("\n".join([*bare, ""]))
    table = read_table(run(tmp_path, str(tmp_path / "*.psv")).table)
    assert table["job_id"].to_list() == ["2", "1"]
    assert set(table["cluster"]) == {"sacct"}


def test_patterns_of_sources_that_match_no_file_are_told(tmp_path: Path) -> None:
    wrong = str(tmp_path / "*.pvs")
    with pytest.raises(EmptyInputError) as caught:
        run(tmp_path, wrong, outcomes=(str(tmp_path / "*.jsonl"),))
    assert caught.value.faults == (f"no file matches '{wrong}'",)
    log(tmp_path / "a.psv", LIVE)
    assert run(tmp_path, str(tmp_path / "*.psv"), wrong).unmatched == (wrong,)


def test_the_end_of_a_job_replaces_its_life(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", LIVE, OTHER)
    run(tmp_path, str(tmp_path / "*.psv"))
    log(tmp_path / "b.psv", DONE)
    table = read_table(run(tmp_path, str(tmp_path / "*.psv")).table)
    assert table["state"].to_list() == ["FAILED", "COMPLETED"]
    assert table["elapsed_s"].to_list() == [60.0, 600.0]


def test_a_later_job_of_the_same_id_joins_the_first(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", LIVE)
    run(tmp_path, str(tmp_path / "*.psv"))
    log(tmp_path / "b.psv", DONE, AGAIN)
    table = read_table(run(tmp_path, str(tmp_path / "*.psv")).table)
    assert table[["user", "state"]].to_numpy().tolist() == [["ann", "COMPLETED"], ["eve", "FAILED"]]


def test_a_late_snapshot_does_not_bring_a_job_back_to_life(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", DONE)
    run(tmp_path, str(tmp_path / "*.psv"))
    log(tmp_path / "b.psv", LIVE)
    table = read_table(run(tmp_path, str(tmp_path / "*.psv")).table)
    assert table["state"].to_list() == ["COMPLETED"]
    assert table["elapsed_s"].to_list() == [600.0]


def test_a_growing_log_gives_the_same_table_as_the_whole_one(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", LIVE)
    run(tmp_path, str(tmp_path / "a.psv"))
    log(tmp_path / "a.psv", DONE, OTHER)
    grown = read_table(run(tmp_path, str(tmp_path / "a.psv")).table)
    (tmp_path / "canonical" / "jobs.parquet").unlink()
    whole = read_table(run(tmp_path, str(tmp_path / "a.psv")).table)
    assert fingerprint(grown) == fingerprint(whole)


def test_refused_records_are_kept_with_their_reasons(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", DONE, BACKWARDS)
    result = run(tmp_path, str(tmp_path / "*.psv"))
    assert result.quarantined == 1
    assert all(Path(name).is_file() for name in result.quarantines)


def test_outcomes_of_the_service_fill_in_what_the_log_lacks(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", DONE)
    line = {
        "job_id": "1", "cluster": "alpha", "attempt": 0, "submitted_at": "2026-01-05T12:00:00Z",
        "started_at": "2026-01-05T12:01:00Z", "ended_at": "2026-01-05T12:11:00+00:00", "elapsed_s": 600,
        "state": "COMPLETED", "peak_vram_mib": 4096.0, "user": None, "event": "outcome",
    }  # fmt: skip
    (tmp_path / "o.jsonl").write_text(json.dumps(line) + "\n" + '{"job_id": "9"')
    table = read_table(run(tmp_path, str(tmp_path / "a.psv"), outcomes=(str(tmp_path / "*.jsonl"),)).table)
    assert len(table) == 1
    assert (table["user"][0], table["peak_vram_mib"][0]) == ("ann", 4096.0)


def test_a_log_of_nothing_but_an_unfinished_line_waits(tmp_path: Path) -> None:
    log(tmp_path / "a.psv", DONE)
    (tmp_path / "o.jsonl").write_text('{"job_id": "9"')
    result = run(tmp_path, str(tmp_path / "a.psv"), outcomes=(str(tmp_path / "*.jsonl"),))
    assert result.new_files == (str(tmp_path / "a.psv"),)


def test_lines_about_one_attempt_become_one_row_and_damaged_ones_are_counted(tmp_path: Path) -> None:
    row = {"job_id": "7", "cluster": "alpha", "attempt": 0, "submitted_at": "2026-01-05T12:00:00Z"}
    start = {"started_at": "2026-01-05T12:01:00Z"}
    lines = [
        {**row, "state": "PENDING", "user": "eve"},
        {**row, **start, "state": "RUNNING"},
        {**row, **start, "state": "FAILED", "ended_at": "2026-01-05T12:02:00Z", "elapsed_s": 60},
        {**row, **start, "state": "RUNNING"},
    ]
    (tmp_path / "o.jsonl").write_text("nonsense\n" + "".join(json.dumps(line) + "\n" for line in lines))
    result = run(tmp_path, outcomes=(str(tmp_path / "o.jsonl"),))
    table = read_table(result.table)
    told = table[["job_id", "user", "state", "elapsed_s"]].to_numpy().tolist()
    assert told == [["7", "eve", "FAILED", 60.0]]
    assert result.quarantined == 1


def test_a_log_without_one_good_line_is_refused_and_its_lines_named(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text("nonsense\n[1]\n")
    with pytest.raises(FormatError) as caught:
        outcome_table(path, tmp_path / "o.parquet")
    assert [fault.split(" is")[0] for fault in caught.value.faults] == ["line 1", "line 2"]


def test_absent_logs_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(EmptyInputError) as caught:
        run(tmp_path, str(tmp_path / "a.psv"), str(tmp_path / "b.psv"))
    assert len(caught.value.faults) == 2


def test_patterns_without_a_match_are_no_fault_but_no_data_is(tmp_path: Path) -> None:
    with pytest.raises(EmptyInputError, match="no log to make one of"):
        run(tmp_path, str(tmp_path / "*.psv"))


@pytest.mark.parametrize("line", ['{"job_id": "\\ud800"}', "[" * 200_000])
def test_a_line_that_no_table_can_hold_is_damaged_and_the_others_are_read(tmp_path: Path, line: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(f'{{"job_id": "1"}}\n{line}\n')
    found = outcome_table(path, tmp_path / "o.parquet")
    assert (found.rows, len(found.damaged)) == (1, 1)

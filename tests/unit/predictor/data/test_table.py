"""This module checks that job tables survive the disk and are told apart by their content."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from predictor.data.schema import COLUMNS, conform, empty_table
from predictor.data.table import (
    ended_at_s,
    fingerprint,
    read_metadata,
    read_table,
    write_parquet,
    write_table,
)
from predictor.errors import EmptyInputError, FormatError, SchemaError

NOON = pd.Timestamp("2026-01-05T12:00:00Z")
NOON_S = NOON.timestamp()


def table() -> pd.DataFrame:
    hour = pd.Timedelta(hours=1)
    return conform(
        pd.DataFrame(
            {
                "job_id": ["ended", "no-end", "no-start", "running", "pending"],
                "attempt": 0.0,
                "submitted_at": pd.Series([NOON] * 5),
                "started_at": pd.Series([NOON + hour, NOON + hour, pd.NaT, NOON + hour, pd.NaT]),
                "ended_at": pd.Series(
                    [NOON + 3 * hour, pd.NaT, pd.NaT, pd.NaT, pd.NaT], dtype="datetime64[us, UTC]"
                ),
                "elapsed_s": [7000.0, 60.0, 30.0, 10.0, np.nan],
                "state": ["COMPLETED", "FAILED", "UNKNOWN", "RUNNING", "PENDING"],
            }
        )
    )


def test_a_written_table_reads_back_equal_with_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    write_table(table(), path, {"sources": "{}"})
    pd.testing.assert_frame_equal(read_table(path), table())
    assert read_metadata(path) == {"schema_version": "1", "sources": "{}"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["jobs.parquet"]


def test_reading_names_every_fault_of_a_wrong_table(tmp_path: Path) -> None:
    path = tmp_path / "wrong.parquet"
    write_parquet(pd.DataFrame({"job_id": ["1"], "colour": ["red"]}), path, {})
    with pytest.raises(SchemaError) as caught:
        read_table(path)
    assert "unknown column 'colour'" in str(caught.value)
    assert "required column 'submitted_at' is absent" in str(caught.value)
    assert "required column 'state' is absent" in str(caught.value)


def test_reading_something_else_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("a,b\n")
    for wrong in (path, tmp_path / "absent.parquet"):
        with pytest.raises(FormatError, match="predictor ingest"):
            read_table(wrong)


def test_an_empty_table_is_refused(tmp_path: Path) -> None:
    write_table(empty_table(), tmp_path / "empty.parquet")
    with pytest.raises(EmptyInputError):
        read_table(tmp_path / "empty.parquet")


def test_the_fingerprint_depends_on_content_only(tmp_path: Path) -> None:
    write_table(table(), tmp_path / "a.parquet", {"made": "today"})
    write_table(table(), tmp_path / "b.parquet", {"made": "tomorrow"})
    assert fingerprint(read_table(tmp_path / "a.parquet")) == fingerprint(read_table(tmp_path / "b.parquet"))
    changed = table()
    changed.loc[0, "elapsed_s"] = 1.0
    assert fingerprint(changed) != fingerprint(table())
    assert fingerprint(table().iloc[::-1]) != fingerprint(table())
    assert fingerprint(table()[list(reversed(table().columns))]) == fingerprint(table())


def test_ends_come_from_the_record_or_the_start_or_the_submission() -> None:
    want = [NOON_S + 3 * 3600, NOON_S + 3600 + 60, NOON_S + 30, np.nan, np.nan]
    np.testing.assert_array_equal(ended_at_s(table()), want)


def test_conforming_refuses_naive_times_and_texts_as_times() -> None:
    frame = table().assign(
        submitted_at="yesterday", started_at=pd.Timestamp("2026-01-01"), requested_gpus="many"
    )
    with pytest.raises(SchemaError) as caught:
        conform(frame)
    assert len(caught.value.faults) == 3


def test_conforming_adds_absent_columns_as_missing() -> None:
    frame = conform(table()[["job_id", "attempt", "submitted_at", "state"]])
    assert list(frame.columns) == list(COLUMNS)
    assert frame["requested_gpus"].isna().all()
    assert [str(dtype) for dtype in frame.dtypes] == [column.type.value for column in COLUMNS.values()]

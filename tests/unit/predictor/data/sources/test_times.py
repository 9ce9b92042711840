"""This module checks the times that logs write."""

import pandas as pd
import pytest

from predictor.data.sources.times import parse_times, parse_zone
from predictor.errors import ArgumentError


def parse(*texts: str, zone: str = "UTC") -> list[str | None]:
    times = parse_times(pd.Series(list(texts), dtype="str"), zone).utc
    return [None if pd.isna(time) else time.isoformat() for time in times]


def test_mixed_zones_in_one_column_are_understood_and_an_offset_wins() -> None:
    times = parse(
        "2026-01-05T12:00:00", "2026-01-05T12:00:00+09:00", "2026-01-05 12:00:00-0500",
        "2026-01-05T12:00:00Z", "1767614400", "1767614400000", zone="Europe/Berlin",
    )  # fmt: skip
    assert times == [
        "2026-01-05T11:00:00+00:00", "2026-01-05T03:00:00+00:00", "2026-01-05T17:00:00+00:00",
        "2026-01-05T12:00:00+00:00", "2026-01-05T12:00:00+00:00", "2026-01-05T12:00:00+00:00",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "Unknown", "None", "NONE", "0", "4294967294", "-", "NULL"])
def test_absent_times_are_missing_not_unreadable(text: str) -> None:
    parsed = parse_times(pd.Series([text], dtype="str"), "UTC")
    assert parsed.utc.isna().all()
    assert not parsed.unreadable.any()


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-13-40T00:00:00", "12:00", "2026-01-05T12:00:00+99:99", "Z"]
)
def test_texts_that_are_no_time_are_unreadable(text: str) -> None:
    parsed = parse_times(pd.Series([text, "2026-01-05T12:00:00"], dtype="str"), "UTC")
    assert parsed.unreadable.tolist() == [True, False]


def test_clock_changes_are_counted_and_never_crash() -> None:
    texts = pd.Series(["2025-10-26T02:30:00", "2025-10-26T02:30:00", "2025-03-30T02:30:00"], dtype="str")
    parsed = parse_times(texts, "Europe/Berlin")
    assert (parsed.ambiguous, parsed.nonexistent) == (2, 1)
    assert [time.isoformat() for time in parsed.utc] == [
        "2025-10-26T00:30:00+00:00", "2025-10-26T00:30:00+00:00", "2025-03-30T01:00:00+00:00",
    ]  # fmt: skip


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ArgumentError, match="IANA"):
        parse_zone("Mars/Olympus")

"""This module checks how times of the hour that comes twice in autumn are read by the rest of their row."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.data.schema import seconds
from predictor.data.sources.base import ReadOptions
from predictor.data.sources.column_map import parse_column_map
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.registry import find_reader
from predictor.data.sources.repeated_hour import read_in_order
from predictor.data.sources.times import parse_times
from predictor.data.validate import validate

ZONE = "Europe/Berlin"
CHANGE_S = int(pd.Timestamp("2025-10-26T01:00:00Z").timestamp())  # 03:00 becomes 02:00


def local(moment_s: float) -> str:
    return pd.Timestamp(moment_s, unit="s", tz="UTC").tz_convert(ZONE).strftime("%Y-%m-%dT%H:%M:%S")


def read(lives: list[tuple[str, str, str]], elapsed_s: list[float]) -> list[list[float]]:
    moments = [parse_times(pd.Series(list(texts), dtype="str"), ZONE) for texts in zip(*lives, strict=True)]
    return [seconds(times).tolist() for times in read_in_order(moments, np.array(elapsed_s))]


@given(
    st.lists(
        st.tuples(st.integers(-9000, 9000), st.integers(0, 5000), st.integers(0, 9000)),
        min_size=1,
        max_size=9,
    )
)
def test_any_life_around_the_change_is_read_in_order_and_as_long_as_it_was(
    drawn: list[tuple[int, int, int]],
) -> None:
    true = [(CHANGE_S + at, CHANGE_S + at + wait, CHANGE_S + at + wait + run) for at, wait, run in drawn]
    texts = [(local(submit), local(start), local(end)) for submit, start, end in true]
    found = np.array(read(texts, [float(run) for _, _, run in drawn]))
    assert (np.diff(found, axis=0) >= 0).all()
    assert (found[2] - found[1]).tolist() == [run for _, _, run in drawn]
    assert [tuple(map(local, life)) for life in found.T] == texts
    assert (found[1] <= [start for _, start, _ in true]).all()  # of several readings the earliest


@pytest.mark.parametrize(
    ("clock", "elapsed_s", "hours"),
    [
        (("01:50", "02:50", "02:10"), 1200, (0, 0, 1)),  # it ends after the clock was set back
        (("02:40", "02:10", "02:20"), 600, (0, 1, 1)),  # it starts after that
        (("01:00", "02:10", "03:10"), 3600, (0, 1, 0)),  # only the elapsed time tells
        (("02:00", "02:10", "02:20"), 600, (0, 0, 0)),  # both hours are possible: the earlier
        (("01:00", "02:10", "02:20"), np.nan, (0, 0, 0)),
        (("02:50", "02:20", "01:10"), 600, (0, 0, 0)),  # nothing fits: as before, to be quarantined
        (("01:00", "02:10", "03:20"), 60, (0, 0, 0)),  # in order, suspended for a while
    ],
)
def test_each_case_by_hand(clock: tuple[str, str, str], elapsed_s: float, hours: tuple[int, ...]) -> None:
    texts = [f"2025-10-26T{time}:00" for time in clock]
    first = [seconds(parse_times(pd.Series([text], dtype="str"), ZONE).utc)[0] for text in texts]
    (submit, start, end) = read([(texts[0], texts[1], texts[2])], [elapsed_s])
    later = [
        (found - early) / 3600 for found, early in zip((submit[0], start[0], end[0]), first, strict=True)
    ]
    assert later == list(hours)


MAPPED = """
[format]
name = "own"
zone = "Europe/Berlin"
[columns]
job_id = "JobID"
submitted_at = "Submit"
started_at = "Start"
ended_at = "End"
state = "State"
"""


@pytest.mark.parametrize("name", ["sacct", "csv"])
def test_jobs_of_that_hour_are_kept_and_as_long_as_they_were(name: str) -> None:
    header = "JobID|State|Submit|Start|End" + "|ElapsedRaw" * (name == "sacct")
    row = "1|COMPLETED|2025-10-26T01:50:00|2025-10-26T02:50:00|2025-10-26T02:10:00" + "|1200" * (
        name == "sacct"
    )
    options = ReadOptions(
        zone=ZONE, column_map=None if name == "sacct" else parse_column_map(MAPPED, "m.toml")
    )
    log = LogFile(name="log", data=f"{header}\n{row}\n".encode())
    checked = validate(find_reader(name).read(log, options).frame)
    assert len(checked.clean) == 1
    assert checked.clean["elapsed_s"].tolist() == [1200.0]
    assert str(checked.clean["ended_at"][0]) == "2025-10-26 01:10:00+00:00"

"""This module checks that names with delimiters and line ends come back as they were written."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from predictor.data.sources.base import ReadOptions
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.sacct import SacctReader
from predictor.data.sources.sacct_layout import parse_header
from predictor.data.sources.sacct_records import cut_records

HEADER = "JobID|JobName|User|State|Submit|Start|End|ElapsedRaw|SubmitLine"
LIFE = "COMPLETED|2026-01-05T12:00:00|2026-01-05T12:01:00|2026-01-05T12:02:00|60"
# A line of a name that itself begins like a record (an id and a delimiter) cannot be told from one.
RECORD_LIKE = re.compile(r"(?m)^\d+(_\d+)?(\+\d+)?(\.\w+)?\|")
texts = st.text(st.sampled_from("ab |\n=:-_{}\"'é7"), max_size=25)
names = texts.map(str.strip).filter(lambda text: text and not RECORD_LIKE.search(text) and "\n\n" not in text)


@settings(max_examples=60, deadline=None)
@given(jobs=st.lists(st.tuples(names, names), min_size=1, max_size=5))
@example(jobs=[("a|b\nc", "x|y"), ("|", "|\n|")])
def test_names_with_delimiters_and_line_ends_come_back(jobs: list[tuple[str, str]]) -> None:
    records = [f"{at}|{name}|alice|{LIFE}|{line}" for at, (name, line) in enumerate(jobs, 1)]
    log = LogFile(name="x", data="\n".join([HEADER, *records, ""]).encode())
    result = SacctReader().read(log, ReadOptions())
    assert len(result.unreadable) == 0
    assert list(zip(result.frame["job_name"], result.frame["submit_line"], strict=True)) == jobs


@settings(max_examples=20, deadline=None)
@given(jobs=st.lists(names, min_size=1, max_size=5))
def test_the_unit_separator_makes_pipes_harmless(jobs: list[str]) -> None:
    records = [
        f"{at}|{{}}|alice|{LIFE}|".replace("|", "\x1f").format(name) for at, name in enumerate(jobs, 1)
    ]
    log = LogFile(name="x", data="\n".join([HEADER.replace("|", "\x1f"), *records, ""]).encode())
    assert SacctReader().read(log, ReadOptions()).frame["job_name"].tolist() == jobs


def test_what_fits_no_split_is_unreadable_with_its_line() -> None:
    layout = parse_header("JobID|User|State|Submit")
    assert layout is not None
    records = cut_records(
        ["1|u|FAILED|2026-01-05T12:00:00", "2|u|v|FAILED|2026-01-05T12:00:00", "3|u"], layout, 2
    )
    assert records.table({"jobid", "user"}).to_dict("list") == {"jobid": ["1"], "user": ["u"], "line": [2]}
    assert records.bad_lines == [3, 4]


def test_a_torn_last_line_does_not_spoil_the_others() -> None:
    text = f"{HEADER}\n1|a|alice|{LIFE}|x\n2|b|alice|COMPL"
    result = SacctReader().read(LogFile(name="x", data=text.encode()), ReadOptions())
    assert result.rows_read == len(result.frame) + len(result.unreadable)
    assert "1" in result.frame["job_id"].tolist()


def test_a_torn_record_in_the_middle_does_not_take_the_next_one_with_it() -> None:
    text = f"{HEADER}\n1|a|alice|{LIFE}|x\n2|b|al\n3|c|alice|{LIFE}|z\n"
    result = SacctReader().read(LogFile(name="x", data=text.encode()), ReadOptions())
    assert result.frame["job_id"].tolist() == ["1", "3"]
    assert result.unreadable["line"].tolist() == [3]


def test_quotes_and_carriage_returns_in_names_are_characters_like_others() -> None:
    names = ['say "hi"', 'odd " quote', "a\rb", "last"]
    records = [f"{at}|{name}|alice|{LIFE}|x" for at, name in enumerate(names, 1)]
    log = LogFile(name="x", data="\n".join([HEADER, *records, ""]).encode())
    assert SacctReader().read(log, ReadOptions()).frame["job_name"].tolist() == names

"""This module holds every reader to the same contract, and the recognition of formats to its promise."""

import gzip
import io
import random
import tarfile
from pathlib import Path

import pytest

from predictor.data.schema import empty_table
from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile, open_logs
from predictor.data.sources.registry import find_reader, readers, recognise
from predictor.errors import ArgumentError, EmptyInputError, FormatError

DATA = Path(__file__).parents[4] / "data"
NAMES = sorted(readers())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"", b"\n \n"])
def test_an_empty_file_is_an_empty_input(name: str, data: bytes) -> None:
    with pytest.raises(EmptyInputError, match="empty"):
        find_reader(name).read(LogFile(name="log", data=data), ReadOptions())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [random.Random(7).randbytes(5000), b"hello world\n", b"a,b,c\n1,2,3\n"])  # noqa: S311
def test_anything_else_is_a_format_error_and_never_recognised(name: str, data: bytes) -> None:
    log = LogFile(name="log", data=data)
    assert not find_reader(name).recognises(log)
    with pytest.raises(FormatError) as caught:
        find_reader(name).read(log, ReadOptions())
    assert str(caught.value)


@pytest.mark.parametrize(
    ("name", "want"),
    [("sacct_2205.psv", "sacct"), ("sacct_2411_all.psv", "sacct"), ("sacct_2205.json", "sacct-json"),
     ("sacct_2605.json", "sacct-json"), ("jobcomp_2205.jsonl", "jobcomp")],
)  # fmt: skip
def test_formats_are_recognised_by_content_whatever_the_name(name: str, want: str) -> None:
    log = LogFile(name="misleading.swf", data=(DATA / name).read_bytes())
    assert recognise(log).name == want


def test_an_unknown_file_is_refused_with_what_was_found_and_what_is_known() -> None:
    with pytest.raises(FormatError) as caught:
        recognise(LogFile(name="x.txt", data=b"once upon a time\n"))
    for part in ("once upon a time", "sacct", "--format", "--map"):
        assert part in str(caught.value)
    with pytest.raises(FormatError, match="binary"):
        recognise(LogFile(name="x", data=b"\x00\x01\x02" * 100))
    with pytest.raises(ArgumentError, match="known are auto"):
        find_reader("excel")


def test_a_reader_that_loses_rows_is_caught() -> None:
    with pytest.raises(ValueError, match="loses rows"):
        ReadResult(frame=empty_table(), rows_read=1, unreadable=unreadable_rows([], [], []))


def test_archives_and_compression_are_opened(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in (("a.log", b"one\n"), ("folder/b.log.gz", gzip.compress(b"two\n"))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path = tmp_path / "logs.tgz"
    path.write_bytes(buffer.getvalue())
    assert [(log.name, log.data) for log in open_logs(path)] == [
        ("logs.tgz:a.log", b"one\n"), ("logs.tgz:b.log.gz", b"two\n"),
    ]  # fmt: skip
    assert open_logs(io.BytesIO(b"three"), "stream")[0].text() == "three"


def test_damaged_archives_and_absent_files_are_clear_errors(tmp_path: Path) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(FormatError, match="damaged"):
        open_logs(path)
    with pytest.raises(FormatError, match="check the path"):
        open_logs(tmp_path / "absent.log")
    with pytest.raises(EmptyInputError):
        open_logs(io.BytesIO(b""))


def test_text_that_is_no_utf8_keeps_its_characters() -> None:
    assert LogFile(name="x", data="Müller".encode("latin-1")).text() == "Müller"
    assert LogFile(name="x", data="\ufeffMüller".encode()).text() == "Müller"

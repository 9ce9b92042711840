"""This module tests the sacct form of a synthetic log, and that the committed sample is reproducible."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from predictor.cli import main
from predictor.data.sacct_writer import SACCT_FIELDS, sacct_lines, write_sacct
from predictor.data.schema_docs import schema_page
from predictor.data.sources.base import ReadOptions
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.sacct import SacctReader
from predictor.data.synthetic import SyntheticLog, WorkloadSpec, generate

TRAINING_DATA = Path(__file__).parents[4] / "training_data"
SAMPLE_OPTIONS = ["--jobs", "11600", "--days", "70", "--users", "40", "--seed", "20260105"]


@pytest.fixture(scope="module")
def log() -> SyntheticLog:
    return generate(WorkloadSpec(jobs=3000, days=14.0, mean_wait_s=5000.0, random_state=11))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_command_in_the_readme_reproduces_the_sample(tmp_path: Path) -> None:
    """The content is compared, because compression libraries differ in how they pack the same bytes."""
    again = tmp_path / "jobs.psv.gz"
    assert main(["generate", *SAMPLE_OPTIONS, "--sacct", str(again)]) == 0
    sample = TRAINING_DATA / "sample" / "jobs.psv.gz"
    assert digest(gzip.decompress(again.read_bytes())) == digest(gzip.decompress(sample.read_bytes()))
    assert " ".join(SAMPLE_OPTIONS) in (TRAINING_DATA / "README.md").read_text()


def test_the_sample_is_small_and_its_card_names_its_digest() -> None:
    data = (TRAINING_DATA / "sample" / "jobs.psv.gz").read_bytes()
    assert len(data) < 700_000
    assert digest(data) in (TRAINING_DATA / "cards" / "synthetic_sample.md").read_text()


def test_compressed_bytes_do_not_depend_on_time_or_name(log: SyntheticLog, tmp_path: Path) -> None:
    write_sacct(log.frame, tmp_path / "a.psv.gz")
    write_sacct(log.frame, tmp_path / "b.psv.gz")
    assert (tmp_path / "a.psv.gz").read_bytes() == (tmp_path / "b.psv.gz").read_bytes()
    assert (tmp_path / "a.psv.gz").read_bytes()[4:8] == bytes(4)  # the time stamp of the gzip header


def test_every_line_has_as_many_fields_as_the_header(log: SyntheticLog) -> None:
    assert {line.count("|") for line in sacct_lines(log.frame)} == {len(SACCT_FIELDS) - 1}


def test_the_reader_gives_back_what_the_writer_wrote(log: SyntheticLog) -> None:
    data = "\n".join(sacct_lines(log.frame)).encode()
    result = SacctReader().read(LogFile(name="jobs.psv", data=data), ReadOptions())
    assert len(result.unreadable) == 0
    kept = [
        "job_id", "attempt", "user", "account", "queue", "qos", "job_name", "submit_line", "cluster",
        "array_job_id", "array_task_index", "requested_gpus", "gpu_type", "requested_nodes", "requested_cpus",
        "requested_memory_mib", "walltime_s", "submitted_at", "started_at", "ended_at", "elapsed_s", "state",
        "node_list", "allocated_nodes", "allocated_cpus", "allocated_gpus", "peak_host_memory_mib",
    ]  # fmt: skip
    pd.testing.assert_frame_equal(result.frame[kept], log.frame[kept])


@pytest.mark.parametrize(
    ("state", "want"),
    [
        ("CANCELLED", "CANCELLED by 1"),
        ("TIMEOUT", "TIMEOUT"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY|0:125"),
        ("RUNNING", "|Unknown|"),
        ("PENDING", "|Unknown|Unknown|0|"),
    ],
)
def test_states_are_spelt_as_sacct_spells_them(state: str, want: str) -> None:
    log = generate(WorkloadSpec(jobs=5000, days=5.0, mean_wait_s=20_000.0, random_state=1))
    rows = log.frame[log.frame["state"] == state].head(1)
    assert len(rows) == 1
    assert want in list(sacct_lines(rows))[1]


def test_the_schema_page_is_up_to_date() -> None:
    assert (TRAINING_DATA / "schema.md").read_text() == schema_page()


def test_training_data_holds_no_python() -> None:
    assert not list(TRAINING_DATA.rglob("*.py"))


def test_the_truth_file_matches_the_log_row_for_row(tmp_path: Path) -> None:
    out, truth = tmp_path / "jobs.parquet", tmp_path / "truth.parquet"
    options = ["--jobs", "300", "--days", "7", "--no-censoring", "--out", str(out), "--truth", str(truth)]
    assert main(["generate", *options]) == 0
    frame, known = pd.read_parquet(out), pd.read_parquet(truth)
    assert len(frame) == len(known) == 300
    assert (frame["elapsed_s"] == np.maximum(np.ceil(known["duration_s"]), 1.0)).all()
    assert (known["q10_s"] < known["q90_s"]).all()


def test_generate_without_output_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--jobs", "10"]) == 2
    assert "--out" in capsys.readouterr().err


def test_generate_tells_all_outputs_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent"
    assert main(["generate", "--out", str(absent / "a.parquet"), "--sacct", str(absent / "b.psv")]) == 2
    message = capsys.readouterr().err
    assert "a.parquet" in message
    assert "b.psv" in message


def test_generate_prints_a_summary_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "jobs.psv"
    assert main(["generate", "--jobs", "50", "--days", "3", "--sacct", str(target), "--json"]) == 0
    assert '"jobs": 50' in capsys.readouterr().out

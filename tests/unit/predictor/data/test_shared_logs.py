"""This module reads real logs, where they are at hand, and checks that not one record gets lost."""

import os
from pathlib import Path

import pytest

from predictor.data.sources.base import ReadOptions
from predictor.data.sources.logfile import LogFile, open_logs
from predictor.data.sources.registry import recognise
from predictor.data.validate import validate
from predictor.errors import FormatError

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[4].parent / "shared" / "data"))
WANT = {
    "drac_graham_jobs.csv.gz": ("drac", 157_182),
    "drac_cedar_jobs.csv.gz": ("drac", 103_207),
    "philly_vc.csv.gz": ("philly", 74_167),
    "RICC-2010-2.swf.gz": ("swf", 447_794),
    "ANL-Intrepid-2009-1.swf.gz": ("swf", 68_936),
    "LLNL-Atlas-2006-2.1-cln.swf.gz": ("swf", 43_778),
    "KTH-SP2-1996.swf.gz": ("swf", 28_481),
    "mlperf_runs.csv.gz": ("mlperf", 22_121),
    "alibaba_disaggregated_DLRM_trace.csv.gz": ("dlrm", 23_871),
    "lingjun_crux.csv.gz": ("crux", 2_498),
    "mit_supercloud_9628.csv.gz": ("slurmdbd", 9_628),
    "kabre_sacct.csv.gz": ("sacct", 30_376),
    "metacentrum_wagap-2013.ext.swf.gz": ("swf", 17_900),
    "sacct-output-v2.txt": ("sacct", 878),
    "sample_eagle_data.csv": ("eagle", 1_000),
    "xdmod_sacct_parsable2.tgz": ("sacct", 15_990),
}
FILES = sorted(path for folder in ("jobs", "formats") for path in (SHARED / folder).glob("*"))
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not FILES, reason=f"no logs in {SHARED}/jobs; set PREDICTOR_SHARED_DATA"),
]


def known(logs: list[LogFile]) -> list[LogFile]:
    """Return the logs of an archive that are job logs; it holds lists of names too."""
    good = []
    for log in logs:
        try:
            recognise(log)
        except FormatError:
            assert len(logs) > 1
        else:
            good.append(log)
    return good


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_record_of_a_real_log_is_accounted_for(path: Path) -> None:
    want_format, want_rows = WANT[path.name]
    read = 0
    for log in known(open_logs(path)):
        reader = recognise(log)
        assert reader.name == want_format
        result = reader.read(log, ReadOptions())
        checked = validate(result.frame)
        parts = len(checked.clean) + len(checked.quarantined) + sum(checked.drop_counts.values())
        parts += sum(result.merged.values()) + sum(result.dropped.values()) + len(result.unreadable)
        assert parts == result.rows_read
        assert len(checked.clean) > 0
        read += result.rows_read
    assert read == want_rows


def test_graphics_jobs_and_limits_of_the_drac_logs_are_plausible() -> None:
    (log,) = open_logs(SHARED / "jobs" / "drac_cedar_jobs.csv.gz")
    frame = recognise(log).read(log, ReadOptions()).frame
    assert 0.05 < (frame["requested_gpus"] > 0).mean() < 0.5
    assert frame["walltime_s"].notna().all()
    assert (frame["elapsed_s"] <= frame["walltime_s"] * 1.1).mean() > 0.97

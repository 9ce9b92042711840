"""This module holds the join of samples onto jobs to its rules."""

import time

import numpy as np
import pandas as pd
import pytest

from predictor.data.schema import conform
from predictor.data.sources.gpu_metrics.join import Joined, JoinOptions, join_samples
from predictor.data.sources.gpu_metrics.samples import SampleKind
from predictor.errors import ArgumentError, SchemaError

START = 1_767_225_600.0


def jobs(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    """Return jobs of (id, hosts, start, end, GPUs); times in seconds after START."""
    moments = ([START + row[2] for row in rows], [START + row[3] for row in rows])
    times = [pd.to_datetime(np.array(moment), unit="s", utc=True) for moment in moments]
    return conform(pd.DataFrame({
        "job_id": [row[0] for row in rows], "attempt": 0.0, "node_list": [row[1] for row in rows],
        "submitted_at": times[0].astype("datetime64[us, UTC]"), "allocated_gpus": [row[4] for row in rows],
        "started_at": times[0].astype("datetime64[us, UTC]"), "state": "COMPLETED",
        "ended_at": times[1].astype("datetime64[us, UTC]"),
    }))  # fmt: skip


def samples(host: str, gpu: str, used: list[float], *, first: float = 0.0, step: float = 10.0,
            kind: str = "used", shared: bool = False, job_id: str = "") -> pd.DataFrame:  # fmt: skip
    """Return samples of one GPU, one every ``step`` seconds."""
    return pd.DataFrame({
        "host": host, "gpu": gpu, "uuid": f"GPU-{host}-{gpu}", "job_id": job_id, "kind": kind,
        "moment_s": START + first + step * np.arange(len(used)), "used_mib": used, "interval_s": step,
        "shared": shared,
    })  # fmt: skip


def joined(table: pd.DataFrame, *parts: pd.DataFrame, assignment: pd.DataFrame | None = None,
           options: JoinOptions | None = None) -> Joined:  # fmt: skip
    whole = pd.concat(parts, ignore_index=True)
    result = join_samples(whole, table, assignment=assignment, options=options)
    assert sum(result.sample_counts.values()) == len(whole)
    assert sum(result.job_counts.values()) == len(table)
    return result


def test_the_peak_is_the_maximum_over_time_then_over_gpus_and_each_gpu_is_kept() -> None:
    result = joined(
        jobs(("1", "n[1-2]", 0, 100, 3)), samples("n1", "0", [1.0] * 5 + [700.0] + [2.0] * 5),
        samples("n1", "1", [300.0] * 11), samples("n2.site.org", "0", [500.0] * 11),
    )  # fmt: skip
    assert result.peak_mib.tolist() == [700]
    assert sorted(result.per_gpu["peak_mib"]) == [300, 500, 700]
    assert result.per_gpu["samples"].tolist() == [8, 8, 8]  # one interval is cut off at both ends
    assert result.job_counts == {"measured": 1}


def test_a_clock_that_is_one_interval_wrong_credits_nobody_with_a_neighbours_memory() -> None:
    table = jobs(("small", "n1", 0, 100, 1), ("large", "n1", 100, 200, 1))
    truth = [10.0] * 10 + [900.0] * 10
    for skew in (-10.0, -5.0, 0.0, 5.0, 9.9):
        result = joined(table, samples("n1", "0", truth, first=skew))
        assert result.peak_mib.tolist() == [10, 900]


def test_a_gpu_with_too_few_samples_leaves_the_job_without_a_peak() -> None:
    table = jobs(("1", "n1", 0, 100, 2))
    full, short = samples("n1", "0", [5.0] * 11), samples("n1", "1", [9.0] * 3)
    result = joined(table, full, short)
    assert np.isnan(result.peak_mib).all()
    assert result.job_counts == {"too-few-samples": 1}
    assert joined(table, full, short, options=JoinOptions(least_samples=2)).peak_mib.tolist() == [9]


def test_a_host_that_two_jobs_shared_needs_an_assignment_of_gpus() -> None:
    table = jobs(("1", "n1", 0, 100, 1), ("2", "n1", 50, 200, 1), ("3", "n1", 250, 400, 1))
    parts = samples("n1", "0", [100.0] * 41), samples("n1", "1", [200.0] * 41)
    without = joined(table, *parts)
    assert without.job_counts == {"host-shared-and-gpus-unknown": 2, "measured": 1}
    assert without.peak_mib[2] == 200
    owned = pd.DataFrame({"job_id": ["1", "2"], "host": "n1", "gpu": ["0", "GPU-n1-1"]})
    known = joined(table, *parts, assignment=owned)
    assert known.peak_mib.tolist() == [100, 200, 200]


def test_jobs_without_gpus_share_a_host_with_nobody() -> None:
    table = jobs(("cpu", "n1", 0, 100, 0), ("gpu", "n1", 0, 100, 1))
    result = joined(table, samples("n1", "0", [7.0] * 11))
    assert result.job_counts == {"no-gpus": 1, "measured": 1}
    assert result.peak_mib[1] == 7


def test_slices_parts_of_gpus_and_other_kinds_are_left_out_and_counted() -> None:
    table = jobs(("1", "n1", 0, 100, 1), ("2", "n2", 0, 100, 0.5), ("3", "n3", 0, 100, 1))
    result = joined(
        table, samples("n1", "0", [1.0] * 11, shared=True), samples("n2", "0", [2.0] * 11),
        samples("n3", "0", [3.0] * 11, kind="allocated"),
    )  # fmt: skip
    assert np.isnan(result.peak_mib).all()
    assert result.job_counts == {"no-samples": 2, "shared-gpu": 1}
    assert result.sample_counts == {"mig-or-shared": 11, "no-job-at-that-time": 11, "other-kind": 11}


def test_a_job_of_which_one_host_was_not_measured_has_no_peak() -> None:
    result = joined(jobs(("1", "n[1-2]", 0, 100, 2)), samples("n1", "0", [5.0] * 11))
    assert result.job_counts == {"some-hosts-without-samples": 1}


def test_samples_that_name_their_job_need_no_host_and_no_time() -> None:
    table = jobs(("1", "n1", 0, 100, 1), ("2", "n1", 0, 100, 1))
    peak = samples("", "", [4096.0], kind="allocated", job_id="2").assign(moment_s=np.nan)
    lost = samples("", "", [1.0], kind="allocated", job_id="99").assign(moment_s=np.nan)
    result = joined(table, peak, lost, options=JoinOptions(kind=SampleKind.ALLOCATED))
    assert result.peak_mib[1] == 4096
    assert result.sample_counts == {"used": 1, "unknown-job": 1}


def test_a_result_does_not_depend_on_the_order_of_samples() -> None:
    table = jobs(*[(str(n), f"n{n % 7}", 100.0 * n, 100.0 * n + 90, 1) for n in range(50)])
    rng = np.random.default_rng(3)
    whole = pd.concat([samples(f"n{host}", "0", list(rng.uniform(1, 9, 600))) for host in range(7)],
                      ignore_index=True)  # fmt: skip
    first = join_samples(whole, table)
    again = join_samples(whole.sample(frac=1.0, random_state=5).reset_index(drop=True), table)
    np.testing.assert_array_equal(first.peak_mib, again.peak_mib)
    for n in range(50):  # the plain definition
        inside = whole[(whole["host"] == f"n{n % 7}") & whole["moment_s"].between(
            START + 100 * n + 10, START + 100 * n + 79)]  # fmt: skip
        assert first.peak_mib[n] == pytest.approx(inside["used_mib"].max(), nan_ok=True)


def test_the_time_of_a_join_grows_about_linearly() -> None:
    def needed_s(count: int) -> float:
        table = jobs(*[(str(n), f"n{n % 20}", 60.0 * n, 60.0 * n + 55, 1) for n in range(count)])
        whole = pd.concat([samples(f"n{host}", "0", [1.0] * (6 * count)) for host in range(20)],
                          ignore_index=True)  # fmt: skip
        begin = time.process_time()
        join_samples(whole, table)
        return time.process_time() - begin

    needed_s(50)
    assert needed_s(2000) < 40 * needed_s(200)  # a quadratic join would need 100 times as long


def test_wrong_rules_and_assignments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="least_samples=0"):
        JoinOptions(least_samples=0)
    with pytest.raises(SchemaError, match="no column 'gpu'"):
        joined(jobs(("1", "n1", 0, 9, 1)), samples("n1", "0", [1.0]),
               assignment=pd.DataFrame({"job_id": ["1"], "host": ["n1"]}))  # fmt: skip

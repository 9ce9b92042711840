"""This module holds the simulator to published figures of a public log (KTH-SP2, 28,481 jobs, 100 nodes).

EASY: mean wait 6835 s, mean bounded slowdown 92.7; EASY++: 62.9; clairvoyant EASY-SJBF: 49.9 (Gaussier,
Glesser, Reis, Trystram, Improving backfilling by using machine learning to predict running times, 2015).
"""

import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from predictor.data.clusters.example_files import load_cluster
from predictor.data.sources.base import ReadOptions
from predictor.data.sources.logfile import open_logs
from predictor.data.sources.registry import recognise
from predictor.scheduling.cluster_pools import cluster_pools
from predictor.simulation.engine import simulate
from predictor.simulation.policies import Contender, arrivals_for, contenders
from predictor.simulation.report import PolicyScores, score
from predictor.simulation.trace import Trace, build_trace

SHARED = Path(os.environ.get("PREDICTOR_SHARED_DATA", Path(__file__).parents[4].parent / "shared" / "data"))
LOG = SHARED / "jobs" / "KTH-SP2-1996.swf.gz"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not LOG.is_file(), reason=f"no {LOG.name} in {SHARED}/jobs; set PREDICTOR_SHARED_DATA"
    ),
]
ONE_PERCENT = 0.01


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Return all jobs of the log."""
    frames = [recognise(log).read(log, ReadOptions()).frame for log in open_logs(LOG)]
    return build_trace(pd.concat(frames, ignore_index=True), units="cpus")


def scores_of(contender: Contender, trace: Trace) -> PolicyScores:
    pools = cluster_pools(load_cluster("kth-sp2"))
    return score(simulate(trace, pools, contender.policy, arrivals_for(contender, trace, None)))


def test_every_job_of_the_log_is_played(trace: Trace) -> None:
    assert len(trace) == 28_481


def test_easy_has_the_published_wait_and_slowdown(trace: Trace) -> None:
    scores = scores_of(contenders("easy")[0], trace)
    assert scores.jobs == len(trace)
    assert scores.mean_wait_s == pytest.approx(6835, rel=ONE_PERCENT)
    assert scores.mean_bounded_slowdown == pytest.approx(92.7, rel=ONE_PERCENT)
    assert scores.p99_wait_s == pytest.approx(75_872)
    assert scores.max_wait_s == pytest.approx(262_194)


def test_easy_pp_has_the_published_slowdown(trace: Trace) -> None:
    scores = scores_of(contenders("easy-pp")[0], trace)
    assert scores.mean_bounded_slowdown == pytest.approx(62.9, rel=ONE_PERCENT)
    assert scores.mean_wait_s == pytest.approx(5655, rel=ONE_PERCENT)


def test_clairvoyant_easy_sjbf_has_the_published_slowdown(trace: Trace) -> None:
    clairvoyant = replace(contenders("easy-pp")[0], knows="oracle")
    assert scores_of(clairvoyant, trace).mean_bounded_slowdown == pytest.approx(49.9, rel=ONE_PERCENT)

"""Slices of test jobs: groups that belong together part the jobs without rest or overlap."""

import numpy as np
import numpy.typing as npt
import pytest

from predictor.data.synthetic import WorkloadSpec, generate
from predictor.evaluation.slices import VOLUME_NAMES, Slice, slices_of
from predictor.features.assemble import FeatureTable, log_features
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary


@pytest.fixture(scope="module")
def log() -> tuple[FeatureTable, npt.NDArray[np.object_]]:
    frame = generate(WorkloadSpec(jobs=1200, days=20.0, users=15, random_state=3)).frame
    features = log_features(frame, Vocabulary.learn(request_columns(frame)))
    return features, frame["state"].to_numpy(dtype=object)


@pytest.fixture(scope="module")
def slices(log: tuple[FeatureTable, npt.NDArray[np.object_]]) -> list[Slice]:
    features, state = log
    median_s = np.exp(np.random.default_rng(0).normal(7.0, 1.0, len(features)))
    return slices_of(features, median_s, state)


@pytest.mark.parametrize("prefix", ["user_", "forecast_duration_decile_", "state_", ("gpu_", "cpu_")])
def test_slices_of_one_kind_are_a_partition(slices: list[Slice], prefix: str | tuple[str, ...]) -> None:
    members = [part.rows for part in slices if part.name.startswith(prefix)]
    assert len(members) >= 2
    np.testing.assert_array_equal(np.sum(members, axis=0), 1)


def test_there_are_no_slices_beside_those_of_the_four_kinds(slices: list[Slice]) -> None:
    known = ("user_", "forecast_duration_decile_", "state_", "gpu_jobs", "cpu_jobs")
    assert all(part.name.startswith(known) for part in slices)
    assert len({part.name for part in slices}) == len(slices)
    assert all(part.rows.any() for part in slices)


def test_deciles_are_equal_in_size_and_ascend_in_the_forecast() -> None:
    frame = generate(WorkloadSpec(jobs=100, days=5.0, users=5, random_state=1)).frame.head(100)
    features = log_features(frame, Vocabulary.learn(request_columns(frame)))
    median_s = np.random.default_rng(2).permutation(np.arange(1.0, 101.0))
    found = slices_of(features, median_s, frame["state"].to_numpy(dtype=object))
    deciles = [part for part in found if part.name.startswith("forecast_duration_decile_")]
    assert [part.name for part in deciles] == [f"forecast_duration_decile_{place}" for place in range(1, 11)]
    for place, part in enumerate(deciles):
        assert sorted(median_s[part.rows]) == list(np.arange(10.0 * place + 1.0, 10.0 * place + 11.0))


def test_an_unseen_user_is_one_without_a_finished_job(
    log: tuple[FeatureTable, npt.NDArray[np.object_]], slices: list[Slice]
) -> None:
    features, _ = log
    unseen = next(part for part in slices if part.name == "user_unseen")
    np.testing.assert_array_equal(unseen.rows, features.support[:, 0] == 0)
    users = set(features.identity)
    first = {who: list(features.identity).index(who) for who in users}
    assert all(unseen.rows[row] for row in first.values())


@pytest.mark.parametrize(
    ("finished", "want"),
    [(0, "user_unseen"), (1, "user_1_to_9_jobs"), (9, "user_1_to_9_jobs"), (10, "user_10_to_99_jobs"),
     (99, "user_10_to_99_jobs"), (100, "user_100_jobs_or_more"), (5000, "user_100_jobs_or_more")],
)  # fmt: skip
def test_user_volume_counts_finished_jobs(
    log: tuple[FeatureTable, npt.NDArray[np.object_]], finished: int, want: str
) -> None:
    one = log[0].take(np.array([0]))
    one.support[:, 0] = finished
    found = slices_of(one, np.array([60.0]), np.array(["COMPLETED"], dtype=object))
    assert want in {part.name for part in found}
    assert len({part.name for part in found} & set(VOLUME_NAMES)) == 1


def test_only_slices_of_the_final_state_are_cut_by_the_outcome(slices: list[Slice]) -> None:
    """No forecast can be calibrated inside of them, so nothing may judge by their coverage."""
    assert {part.name for part in slices if part.by_outcome} == {
        part.name for part in slices if part.name.startswith("state_")
    }


def test_a_job_that_says_nothing_of_gpus_counts_as_a_cpu_job(
    log: tuple[FeatureTable, npt.NDArray[np.object_]],
) -> None:
    one = log[0].take(np.array([0]))
    one.gpus[:] = np.nan
    names = {part.name for part in slices_of(one, np.array([60.0]), np.array(["FAILED"], dtype=object))}
    assert "cpu_jobs" in names
    assert "gpu_jobs" not in names

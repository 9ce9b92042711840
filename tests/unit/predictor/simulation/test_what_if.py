"""This module tests that a snapshot of a live queue is played on as its policy would."""

import pytest

from predictor.contracts.events import JobSubmitted
from predictor.errors import EmptyInputError, FormatError
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.presets import preset
from predictor.scheduling.snapshot import snapshot
from predictor.simulation.what_if import play_on

FOREVER_S = 1e9


def queue_of(*jobs: tuple[str, float, float, int]) -> Coordinator:
    """Return a live queue of (id, submitted, median, width)."""
    coordinator = Coordinator(preset("fifo"), (Pool(name="cpu", total=4),))
    for job_id, at_s, median_s, width in jobs:
        coordinator.apply(
            JobSubmitted(
                now_s=at_s, job_id=job_id, width=width, limit_s=FOREVER_S, quantiles_s=(median_s,) * 23
            )
        )
    return coordinator


def test_waiting_jobs_start_when_the_medians_of_those_before_them_are_over() -> None:
    coordinator = queue_of(("a", 0, 100, 4), ("b", 10, 50, 4), ("c", 20, 5, 4))
    result = play_on(snapshot(coordinator), None)
    assert dict(zip(result.trace.job_ids, result.start_s.tolist(), strict=True)) == {
        "a": 0,
        "b": pytest.approx(100),
        "c": pytest.approx(150),
    }
    assert (coordinator.running, coordinator.waiting) == (1, 2)


def test_another_policy_holds_from_the_moment_of_the_snapshot() -> None:
    coordinator = queue_of(("a", 0, 100, 4), ("b", 10, 50, 4), ("c", 20, 5, 4))
    result = play_on(snapshot(coordinator), preset("ours"))
    starts = dict(zip(result.trace.job_ids, result.start_s.tolist(), strict=True))
    assert starts["c"] == pytest.approx(100)
    assert starts["b"] == pytest.approx(105)


def test_an_empty_queue_and_a_document_of_another_kind_are_refused() -> None:
    with pytest.raises(EmptyInputError, match="nothing waits"):
        play_on(snapshot(queue_of()), None)
    with pytest.raises(FormatError, match="not a snapshot"):
        play_on({}, None)

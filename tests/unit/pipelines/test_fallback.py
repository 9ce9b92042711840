"""The committed fallback bundle can be served by the code beside it."""

from pathlib import Path

import pytest

from predictor.contracts.request import JobRequest
from predictor.forecasting.bundle import read_bundle
from predictor.forecasting.live import LiveForecaster

FALLBACK = Path(__file__).resolve().parents[3] / "models" / "fallback"


def test_the_committed_fallback_answers_and_says_that_it_knows_nobody() -> None:
    bundle = read_bundle(FALLBACK)
    assert bundle.info.version == "fallback"
    answer = LiveForecaster(bundle).predict(
        [JobRequest(submitted_s=1.8e9, user="ann", requested_gpus=4.0, walltime_s=7200.0)]
    )[0]
    assert answer.fallback == "no-history-of-this-user"
    assert 1.0 <= answer.quantiles_s["q50"] <= answer.quantiles_s["q95"] <= 7200.0


def test_the_fallback_is_small() -> None:
    assert sum(path.stat().st_size for path in FALLBACK.iterdir()) < 600_000


@pytest.mark.parametrize("name", ["card.md", "manifest.json"])
def test_the_fallback_carries_its_papers(name: str) -> None:
    assert (FALLBACK / name).is_file()

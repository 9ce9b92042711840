"""This module holds the trained forecaster to its promises: finite, above weights, rising, calibrated."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.memory import MemoryObservation, MemoryRequest, PeakKind, Regime, Stratum
from predictor.contracts.request import JobRequest
from predictor.contracts.workload import (
    Checkpointing,
    LossKernel,
    Method,
    Recipe,
    TrainingSpec,
    TransformerSpec,
)
from predictor.errors import ArgumentError, BundleCorruptError, EmptyInputError
from predictor.forecasting.memory.bundle import read_memory_bundle, write_memory_bundle
from predictor.forecasting.memory.forecaster import MemoryForecaster, MemorySettings
from predictor.forecasting.memory.jobs import job_request
from predictor.forecasting.memory.rescale import with_batch, with_sequence
from tests.unit.predictor.forecasting.memory.simulated import FAST_SETTINGS, simulate, vision_request


@pytest.fixture(scope="module")
def trained() -> MemoryForecaster:
    """Return a forecaster trained on vision models and a few language models."""
    runs = simulate(80, 0)
    for layers in (8, 16, 24):
        for batch in (1, 4):
            request = language_request(layers=layers, batch=batch)
            runs.append(MemoryObservation(request=request, peak_mib=4000.0 + 300.0 * layers * batch))
    return MemoryForecaster.fit(runs, settings=FAST_SETTINGS)


def language_request(
    *, layers: int = 16, hidden: int = 1024, batch: int = 2, length: int = 1024, zero_stage: int = 0,
    method: Method = Method.FULL, recipe: Recipe = Recipe.PURE_BF16, data: int = 1,
    loss: LossKernel = LossKernel.PLAIN, checkpointing: Checkpointing = Checkpointing.NONE,
) -> MemoryRequest:  # fmt: skip
    """Return a request of a small transformer."""
    model = TransformerSpec(
        layers=layers, hidden=hidden, heads=8, kv_heads=8, ffn=4 * hidden, vocabulary=32_000
    )
    run = TrainingSpec(
        method=method, recipe=recipe, micro_batch=batch, sequence_length=length, zero_stage=zero_stage,
        data=data, loss=loss, checkpointing=checkpointing,
    )  # fmt: skip
    return MemoryRequest(model=model, run=run)


REQUESTS = st.builds(
    language_request, layers=st.integers(1, 96), hidden=st.sampled_from([64, 1024, 8192]),
    batch=st.integers(1, 5000), length=st.integers(1, 300_000), zero_stage=st.integers(0, 3),
    method=st.sampled_from(list(Method)), recipe=st.sampled_from(list(Recipe)),
    data=st.sampled_from([1, 2, 64]), loss=st.sampled_from(list(LossKernel)),
    checkpointing=st.sampled_from(list(Checkpointing)),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(request=REQUESTS, risk=st.floats(0.001, 0.5))
def test_forecasts_are_finite_above_the_weights_and_below_their_bound(
    trained: MemoryForecaster, request: MemoryRequest, risk: float
) -> None:
    answer = trained.predict([request], risk=risk, devices={"a100": 81_920.0})[0]
    assert math.isfinite(answer.p50_mib)
    assert math.isfinite(answer.upper_mib)
    assert 0.0 < answer.floor_mib * (1 - 1e-9) <= answer.p50_mib
    assert answer.p50_mib <= answer.upper_mib * (1 + 1e-9)
    assert 0.0 < answer.devices[0].oom_probability < 1.0


@settings(max_examples=30, deadline=None)
@given(
    request=REQUESTS, batches=st.lists(st.integers(1, 40_000), min_size=2, max_size=4),
    lengths=st.lists(st.integers(1, 2_000_000), min_size=2, max_size=4),
)  # fmt: skip
def test_the_forecast_of_a_transformer_never_falls_with_batch_or_length(
    trained: MemoryForecaster, request: MemoryRequest, batches: list[int], lengths: list[int]
) -> None:
    for asked in (
        [with_batch(request, batch) for batch in sorted(batches)],
        [with_sequence(request, length) for length in sorted(lengths)],
    ):
        values = np.array([answer.p50_mib for answer in trained.predict(asked)])
        assert np.all(np.diff(values) >= -1e-6 * values[:-1])


@settings(max_examples=30, deadline=None)
@given(
    parameters=st.floats(1e3, 1e11), activations=st.floats(1.0, 1e10),
    batches=st.lists(st.integers(1, 100_000), min_size=2, max_size=5), seen=st.booleans(),
)  # fmt: skip
def test_the_forecast_of_a_counted_model_never_falls_with_the_batch(
    trained: MemoryForecaster, parameters: float, activations: float, batches: list[int], seen: bool
) -> None:
    asked = [
        vision_request(parameters, activations, batch, "net3" if seen else "new", "kin1")
        for batch in sorted(batches)
    ]
    answers = trained.predict(asked)
    values = np.array([answer.p50_mib for answer in answers])
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) >= -1e-6 * values[:-1])
    assert all(answer.p50_mib >= answer.floor_mib * (1 - 1e-9) for answer in answers)


def test_models_never_seen_stay_below_the_bound_about_as_often_as_chosen() -> None:
    trained = MemoryForecaster.fit(
        simulate(240, 1), settings=replace(FAST_SETTINGS, risk=0.1, train_poor=False)
    )
    fresh = simulate(400, 2)
    requests = [replace(one.request, signature=None) for one in fresh]
    answers = trained.predict(requests, risk=0.1)
    above = np.mean([one.peak_mib > answer.upper_mib for one, answer in zip(fresh, answers, strict=True)])
    assert 0.1 - 0.06 < above < 0.1 + 0.06  # 400 groups: three standard errors are 0.045
    error = [abs(answer.p50_mib / one.peak_mib - 1) for one, answer in zip(fresh, answers, strict=True)]
    assert np.median(error) < 0.12  # the errors that were drawn have a median of 0.067


def test_a_job_that_ran_is_forecast_from_its_history_and_a_stranger_is_not(trained: MemoryForecaster) -> None:
    known = simulate(80, 0)[6]
    answer = trained.predict([known.request])[0]
    assert (answer.regime, answer.stratum) == (Regime.SEEN_SIGNATURE, Stratum.SEEN_SIGNATURE)
    assert answer.p50_mib == pytest.approx(known.peak_mib)
    stranger = trained.predict([vision_request(1e7, 1e7, 8, "new", "nobody")])[0]
    assert (stranger.regime, stranger.stratum) == (Regime.FULL_SPEC, Stratum.NEW)


def test_everything_may_be_missing(trained: MemoryForecaster) -> None:
    cold, poor = trained.predict(
        [MemoryRequest(), job_request(JobRequest(submitted_s=0.0, user="ada", job_name="train"))]
    )
    assert (cold.regime, poor.regime) == (Regime.COLD, Regime.POOR_SPEC)
    assert 0 < cold.p50_mib <= cold.upper_mib < math.inf
    assert cold.analytical_mib is None


def test_a_named_model_in_a_job_gets_a_full_spec() -> None:
    job = JobRequest(submitted_s=0.0, user="ada", requested_gpus=2.0)
    request = job_request(job, {"model_family": "llama-3-8b", "batch_size": 8.0, "sequence_length": 2048.0})
    assert request.has_spec
    assert request.batch == 4.0


def test_an_out_of_memory_raises_the_next_bound_of_the_job_and_the_calibration_of_its_stratum() -> None:
    trained = MemoryForecaster.fit(simulate(60, 3), settings=FAST_SETTINGS)
    request = vision_request(2e7, 2e6, 8, "fresh", "kin1")
    before = trained.predict([request])[0]
    asked = trained.risks[before.stratum].asked
    trained.observe(MemoryObservation(request=request, peak_mib=before.upper_mib * 1.5, is_oom=True))
    after = trained.predict([request])[0]
    assert trained.risks[before.stratum].asked < asked
    assert after.p50_mib >= before.upper_mib * 1.5
    assert after.upper_mib > before.upper_mib


def test_an_out_of_memory_on_a_card_below_the_bound_is_no_miss_of_the_bound() -> None:
    trained = MemoryForecaster.fit(simulate(60, 3), settings=FAST_SETTINGS)
    request = vision_request(2e7, 2e6, 8, "fresh", "kin1")
    before = trained.predict([request])[0]
    asked = {name: risk.asked for name, risk in trained.risks.items()}
    small = before.upper_mib / 2
    trained.observe(MemoryObservation(request=request, peak_mib=small / 2, is_oom=True, capacity_mib=small))
    assert {name: risk.asked for name, risk in trained.risks.items()} == asked


def test_out_of_memory_rows_do_not_change_what_is_regressed_on() -> None:
    runs = simulate(60, 4)
    poison = [replace(one, peak_mib=1.0, is_oom=True) for one in runs[:20]]
    settings = replace(FAST_SETTINGS, keep_history=False, train_poor=False)
    request = [vision_request(2e7, 2e6, 8, "fresh", "kin1")]
    clean = MemoryForecaster.fit(runs, settings=settings).predict(request)
    assert MemoryForecaster.fit([*runs, *poison], settings=settings).predict(request) == clean
    with pytest.raises(EmptyInputError, match="no run has a peak"):
        MemoryForecaster.fit(poison, settings=settings)


def test_a_bundle_forecasts_bit_for_bit_and_an_altered_one_is_refused(
    trained: MemoryForecaster, tmp_path: Path
) -> None:
    info = write_memory_bundle(tmp_path / "b", trained, version="v1", card="# card", metadata={"rows": 1})
    bundle = read_memory_bundle(tmp_path / "b", expected_digest=info.digest)
    asked = [one.request for one in simulate(4, 9)] + [language_request(), MemoryRequest()]
    assert bundle.model.predict(asked) == trained.predict(asked)
    (tmp_path / "b" / "online.json").write_text("{}")
    with pytest.raises(BundleCorruptError, match="altered"):
        read_memory_bundle(tmp_path / "b")


def test_a_bundle_of_the_previous_layout_is_refused_with_what_to_do(
    trained: MemoryForecaster, tmp_path: Path
) -> None:
    write_memory_bundle(tmp_path / "b", trained, version="v1", card="# card", metadata={})
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    (tmp_path / "b" / "manifest.json").write_text(json.dumps(manifest | {"protocol": 2}))
    with pytest.raises(BundleCorruptError, match="protocol 2, this code reads 3; retrain"):
        read_memory_bundle(tmp_path / "b")


def test_training_twice_gives_the_same_forecasts() -> None:
    runs, request = simulate(50, 5), [vision_request(2e7, 2e6, 8, "fresh", "kin1")]
    first, second = (MemoryForecaster.fit(runs, settings=FAST_SETTINGS).predict(request) for _ in range(2))
    assert first == second


def test_host_memory_is_forecast_by_the_same_machinery_without_specs() -> None:
    random = np.random.default_rng(0)
    runs = []
    for at in range(120):
        size = float(random.choice([1e3, 8e3]))
        request = MemoryRequest(
            words={"user": f"u{at % 4}"}, numbers={"log_requested_memory_mib": math.log(size)}
        )
        runs.append(MemoryObservation(request=request, peak_mib=size * float(random.uniform(0.4, 0.6))))
    trained = MemoryForecaster.fit(runs, kind=PeakKind.HOST, settings=MemorySettings())
    low, high = trained.predict(
        [MemoryRequest(numbers={"log_requested_memory_mib": math.log(size)}) for size in (1e3, 8e3)]
    )
    assert low.p50_mib == pytest.approx(500, rel=0.25)
    assert high.p50_mib == pytest.approx(4000, rel=0.25)


def test_a_risk_that_is_no_probability_is_refused(trained: MemoryForecaster) -> None:
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        trained.predict([MemoryRequest()], risk=0.0)
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        MemorySettings(risk=1.0)

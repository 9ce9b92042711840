"""This module tests that what a submission leaves to guess widens the bound of its memory forecast."""

import math

import numpy as np
import pytest

from predictor.contracts.memory import MemoryObservation, MemoryRequest
from predictor.contracts.workload import TrainingSpec, TransformerSpec
from predictor.forecasting.memory.forecaster import MemoryForecaster
from predictor.forecasting.memory.jobs import row_request
from predictor.forecasting.memory.prior import prior_forecast

FULL = (
    "train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --bf16 --optim adamw_torch --lora_r 16 "
    "--per_device_train_batch_size 4 --max_seq_length 2048 --gradient_checkpointing True"
)
SHAPE = TransformerSpec(layers=24, hidden=2048, heads=16, kv_heads=16, ffn=5504, vocabulary=32000)


def _asked(command: str) -> MemoryRequest:
    return row_request({"submit_line": command, "requested_gpus": 1, "gpu_type": "a100"})


@pytest.mark.parametrize(
    ("said", "unsaid"),
    [
        ("--per_device_train_batch_size 4", ""),
        ("--max_seq_length 2048", ""),
        ("meta-llama/Meta-Llama-3-8B", "someone/strange-8b"),
    ],
)
def test_what_is_not_said_widens_the_bound_of_the_formula(said: str, unsaid: str) -> None:
    sure, unsure = (
        prior_forecast(_asked(text), risk=0.05, devices={}) for text in (FULL, FULL.replace(said, unsaid))
    )
    assert unsure.upper_mib / unsure.p50_mib > 1.05 * sure.upper_mib / sure.p50_mib


def test_the_smallest_risk_that_can_be_written_has_a_bound() -> None:
    found = prior_forecast(_asked(FULL), risk=5e-324, devices={})
    assert np.isfinite(found.upper_mib)
    assert found.upper_mib > prior_forecast(_asked(FULL), risk=1e-6, devices={}).upper_mib


def test_the_same_specs_without_guesses_are_not_widened() -> None:
    assert _asked(FULL).has_spec
    assert _asked(FULL).without_spec().guess_log == 0.0


def _observations(count: int, guess_log: float) -> list[MemoryObservation]:
    rng = np.random.default_rng(0)
    found = []
    for at in range(count):
        run = TrainingSpec(micro_batch=int(rng.integers(1, 9)), sequence_length=1024)
        off = rng.normal(0.0, 0.1)
        request = MemoryRequest(model=SHAPE, run=run, family=f"f{at}", guess_log=guess_log)
        found.append(MemoryObservation(request=request, peak_mib=20_000 * run.micro_batch * math.exp(off)))
    return found


def test_a_trained_bound_widens_for_guesses_and_holds_without_widening_for_those_it_learned_from() -> None:
    run = TrainingSpec(micro_batch=4, sequence_length=1024)
    asked = [MemoryRequest(model=SHAPE, run=run, guess_log=guess) for guess in (0.0, 0.5, 1.0)]
    model = MemoryForecaster.fit(_observations(80, 0.0))
    slack = [math.log(one.upper_mib / one.p50_mib) for one in model.predict(asked)]
    assert slack[0] < slack[1] < slack[2]
    assert slack[2] > 0.8
    # errors of runs whose guesses were as uncertain are in the calibration already
    used_to = MemoryForecaster.fit(_observations(80, 1.0)).predict([asked[2]])[0]
    assert math.log(used_to.upper_mib / used_to.p50_mib) < 0.5


def test_a_sequence_that_is_not_said_is_no_longer_than_the_model_takes() -> None:
    for family, longest in (("bert", 512), ("gpt2", 1024), ("llama-3-8b", 2048)):
        run = row_request({"model_family": family, "requested_gpus": 1}).run
        assert isinstance(run, TrainingSpec)
        assert run.sequence_length == longest

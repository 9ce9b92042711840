"""This module checks that a replayed step stands in for all but the overhead of the estimate."""

from dataclasses import replace

import numpy as np
import pytest

from predictor.contracts.memory import MemoryRequest
from predictor.forecasting.memory.physics import PARTS, Physics, physics_inputs
from tests.unit.predictor.forecasting.memory.simulated import vision_request

KINDS = ("replayed", "workspace")


def replayed(batch: int) -> MemoryRequest:
    return replace(
        vision_request(1e8, 1e6, batch, "net", "kin"),
        held_mib={"replayed": 300.0}, stored_mib={"replayed": 10.0, "workspace": 4.0},
    )  # fmt: skip


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_a_replay_adds_what_is_held_and_what_each_sample_stores_to_the_overhead(batch: int) -> None:
    inputs = physics_inputs([replayed(batch)], KINDS)
    [phases] = inputs.at(inputs.batch)
    assert phases[0, len(PARTS) :].tolist() == [300.0 + 10.0 * batch, 4.0 * batch]
    assert not phases[:, 1 : len(PARTS)].any()
    overhead = phases[0, 0]
    peak = float(np.exp(Physics.plain(KINDS).log_mib(inputs)[0]))
    assert peak == pytest.approx(overhead + 300.0 + 14.0 * batch)


def test_a_request_without_its_spec_has_no_replay_either() -> None:
    bare = replayed(8).without_spec()
    assert not bare.held_mib
    assert not bare.stored_mib

"""Settings of a policy are changed on the command line as people write numbers."""

import math

import pytest

from predictor.errors import ArgumentError
from predictor.scheduling.named_policy import named_policy


@pytest.mark.parametrize(
    ("text", "want"), [("3600", 3600.0), ("3600.", 3600.0), (".5", 0.5), ("1e5", 1e5), ("inf", math.inf)]
)
def test_a_number_is_taken_as_it_is_written(text: str, want: float) -> None:
    assert named_policy(f"ours:order.guard_s={text}").order.guard_s == want


def test_what_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="guard_s='soon'"):
        named_policy("ours:order.guard_s=soon")


def test_a_setting_below_one_that_is_no_table_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="name is no table"):
        named_policy("ours:name.guard_s=1")

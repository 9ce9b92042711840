"""This module checks what a recorded peak may teach."""

import numpy as np
import pytest

from predictor.contracts.memory import PeakKind
from predictor.errors import ArgumentError
from predictor.forecasting.memory.labels import label_peaks

PEAK = np.array([1000.0, 7745.0, np.nan, 81_000.0])
OOM = np.array([False, True, True, False])


def test_a_peak_before_an_out_of_memory_is_a_lower_bound_and_never_a_target() -> None:
    labels = label_peaks(PeakKind.USED, PEAK, is_oom=OOM, capacity_mib=81_920.0)
    assert labels.observed.tolist() == [True, False, False, False]
    assert labels.at_least_mib.tolist() == [1000.0, 81_920.0, 81_920.0, 0.0]


def test_what_the_message_says_it_tried_is_a_sharper_bound_than_the_capacity() -> None:
    tried = np.array([np.nan, 9000.0, 30_000.0, np.nan])
    labels = label_peaks(PeakKind.ALLOCATED, PEAK, is_oom=OOM, tried_mib=tried)
    assert labels.at_least_mib.tolist() == [1000.0, 9000.0, 30_000.0, 81_000.0]


def test_allocated_bytes_bound_used_bytes_from_below_but_not_the_other_way_round() -> None:
    no = np.zeros(4, dtype=bool)
    used = label_peaks(PeakKind.USED, PEAK, is_oom=no, recorded=PeakKind.ALLOCATED)
    assert not used.observed.any()
    assert used.at_least_mib[0] == 1000.0
    allocated = label_peaks(PeakKind.ALLOCATED, PEAK, is_oom=no, recorded=PeakKind.USED)
    assert not allocated.observed.any()
    assert not allocated.at_least_mib.any()


def test_host_and_device_memory_are_never_mixed() -> None:
    with pytest.raises(ArgumentError, match="teaches nothing"):
        label_peaks(PeakKind.HOST, PEAK, is_oom=OOM, recorded=PeakKind.USED)

"""This module checks every spelling of values that Slurm has used."""

import math

import numpy as np
import pandas as pd
import pytest

from predictor.data.sources.slurm_fields import (
    attempts,
    parse_gres_gpus,
    parse_limit_s,
    parse_tres,
    requested_memory_mib,
    split_ids,
)
from predictor.data.sources.slurm_states import translate_numbers, translate_words
from predictor.errors import ArgumentError
from predictor.units import parse_clock_s, parse_size_mib


def texts(*values: str | None) -> "pd.Series[str]":
    return pd.Series(list(values), dtype="str")


@pytest.mark.parametrize(
    ("text", "want_s"),
    [("1-02:03:04", 93784.0), ("00:05:16", 316.0), ("01:07.402", 67.402), ("125-00:00:00", 10_800_000.0)],
)
def test_clocks_have_days_or_milliseconds(text: str, want_s: float) -> None:
    assert parse_clock_s(text) == want_s


@pytest.mark.parametrize("text", ["Partition_Limit", "UNLIMITED", "INVALID"])
def test_limits_that_are_no_time_are_missing(text: str) -> None:
    assert math.isnan(parse_limit_s(text))


@pytest.mark.parametrize(
    ("text", "want_mib"),
    [("48000Mn", 96000.0), ("4Gn", 8192.0), ("100Mc", 400.0), ("62.50G", 64000.0), ("512", 512.0),
     ("1T", 1048576.0), ("2147486448Mn", 2800.0 * 4), ("0", math.nan), ("0n", math.nan), ("?", math.nan)],
)  # fmt: skip
def test_requested_memory_is_per_node_per_cpu_or_total(text: str, want_mib: float) -> None:
    got = requested_memory_mib(texts(text), pd.Series([2.0]), pd.Series([4.0]))
    np.testing.assert_equal(got.iloc[0], want_mib)


def test_sizes_without_suffix_take_the_stated_unit() -> None:
    assert parse_size_mib("114944K") == 112.25
    assert parse_size_mib("2048") == 2048.0
    assert parse_size_mib("2097152", bare_unit="B") == 2.0
    with pytest.raises(ArgumentError):
        parse_size_mib("much")


def test_gpus_of_a_tres_list_count_once() -> None:
    tres = parse_tres(texts(
        "billing=12,cpu=12,gres/gpu=2,gres/gpu:a100=2,mem=31000M,node=1", "cpu=4,gres/gpu:h100=4,mem=62.50G",
        "gres/gpu:A100=1,gres/gpu:h100=2", "billing=1,cpu=1", None,
    ))  # fmt: skip
    np.testing.assert_array_equal(tres.gpus, [2, 4, 3, np.nan, np.nan])
    assert tres.gpu_type.iloc[:3].tolist() == ["a100", "h100", "a100+h100"]
    assert tres.listed.tolist() == [True, True, True, True, False]
    assert tres.memory_mib.iloc[1] == 64000.0


def test_older_gres_texts_are_per_node() -> None:
    assert parse_gres_gpus("gpu:2") == 2.0
    assert parse_gres_gpus("PER_NODE:gpu:a100:4(S:0-1),craynetwork:1") == 4.0
    assert parse_gres_gpus("gres:gpu:1") == 1.0
    assert parse_gres_gpus("gpu") == 1.0
    assert parse_gres_gpus("craynetwork:1") == 0.0


def test_ids_tell_arrays_parts_and_steps() -> None:
    ids = split_ids(texts("123", "123_4", "123_[5-9%2]", "123+1", "123_4.batch", "123.extern", "123.0"))
    assert ids.job_id.tolist() == ["123", "123_4", "123_[5-9%2]", "123+1", "123_4", "123", "123"]
    assert ids.step.fillna("-").tolist() == ["-", "-", "-", "-", "batch", "extern", "0"]
    assert ids.array_job_id.fillna("-").tolist() == ["-", "123", "123", "-", "123", "-", "-"]
    np.testing.assert_array_equal(ids.array_task_index, [np.nan, 4, np.nan, np.nan, 4, np.nan, np.nan])


def test_runs_of_one_id_are_numbered_by_start_and_copies_share_a_number() -> None:
    day = pd.to_datetime(pd.Series(["2026-01-03", "2026-01-01", None, "2026-01-01", "2026-01-05"]), utc=True)
    submitted = pd.Series([pd.Timestamp("2026-01-01", tz="UTC")] * 5)
    assert attempts(texts("a", "a", "a", "a", "b"), submitted, day).tolist() == [1.0, 0.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("word", "want"),
    [("CANCELLED by 380693", "CANCELLED"), ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
     ("OUT_OF_ME+", "OUT_OF_MEMORY"), ("PREEMPTED", "PREEMPTED"), ("NODE_FAIL", "NODE_FAIL"),
     ("BOOT_FAIL", "NODE_FAIL"), ("DEADLINE", "TIMEOUT"), ("RUNNING,COMPLETING", "RUNNING"),
     ("REQUEUED", "PREEMPTED"), ("SUSPENDED", "RUNNING"), ("WEIRD", "WEIRD")],
)  # fmt: skip
def test_state_words_are_translated_and_unknown_ones_stay(word: str, want: str) -> None:
    assert translate_words(texts(word)).iloc[0] == want


def test_state_numbers_are_those_of_the_database() -> None:
    got = translate_numbers(pd.Series([0.0, 1.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 11.0, 77.0]))
    assert got.tolist() == [
        "PENDING", "RUNNING", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
        "OUT_OF_MEMORY", "77",
    ]  # fmt: skip

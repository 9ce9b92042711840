"""This module gives the peaks that Slurm records on step rows to the rows of their jobs."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.data.faults import Mask
from predictor.data.sources.raw import RawRecords, extract, map_distinct
from predictor.data.sources.slurm_fields import JobIds
from predictor.errors import ArgumentError
from predictor.units import parse_size_mib


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPeaks:
    """Peaks over the steps of each job, aligned with all rows of the log; NaN where no step tells.

    Attributes:
        orphans: shape (n,), True for step rows whose job has no row in the log.
    """

    peak_host_memory_mib: "pd.Series[float]"
    peak_vram_mib: "pd.Series[float]"
    gpu_utilisation_ratio: "pd.Series[float]"
    orphans: Mask


def merge_steps(raw: RawRecords, ids: JobIds) -> StepPeaks:
    """Find each step's job row and take the maxima; the ``.extern`` step, which runs nothing, is left out.

    A step belongs to the last row of its job before it, because sacct prints the steps of a requeued
    attempt behind that attempt; where there is none before it, to the first one after it.
    """
    is_step = ids.step.notna()
    row = pd.Series(np.arange(len(raw), dtype=np.float64))
    by_job = row.where(~is_step).groupby(ids.job_id)
    owner = by_job.ffill().fillna(by_job.bfill())
    orphans = (is_step & owner.isna()).to_numpy(dtype=np.bool_)
    counted = ids.step.ne("extern") | ~is_step
    return StepPeaks(
        peak_host_memory_mib=_maximum(_sizes(raw.text("maxrss")).fillna(_usage(raw, "mem")), owner, counted),
        peak_vram_mib=_maximum(_usage(raw, "gres/gpumem"), owner, counted),
        gpu_utilisation_ratio=_maximum(_utilisation(raw), owner, counted & is_step),
        orphans=orphans,
    )


def _maximum(
    values: "pd.Series[float]", owner: "pd.Series[float]", counted: "pd.Series[bool]"
) -> "pd.Series[float]":
    used = values.notna() & owner.notna() & counted
    peaks = values[used].groupby(owner[used].astype("int64")).max()
    return peaks.reindex(range(len(values))).astype("float64")


def _usage(raw: RawRecords, resource: str) -> "pd.Series[float]":
    found = extract(raw.text("tresusageinmax"), rf"(?:^|,){resource}=(?P<found>[^,]*)")
    return _sizes(found)


def _utilisation(raw: RawRecords) -> "pd.Series[float]":
    found = extract(raw.text("tresusageinave"), r"(?:^|,)gres/gpuutil=(?P<found>\d+(?:\.\d+)?)")
    return (pd.to_numeric(found).astype("float64") / 100.0).clip(upper=1.0)


def _sizes(texts: "pd.Series[str]") -> "pd.Series[float]":
    """Parse peaks, which are bytes where they have no suffix (``--noconvert``); odd texts are NaN."""

    def parse(text: str) -> float:
        try:
            return parse_size_mib(text, bare_unit="B")
        except ArgumentError:
            return float("nan")

    return map_distinct(texts, parse)

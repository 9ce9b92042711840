"""This module defines a table of GPU memory samples and what its readers are given and return."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import pandas as pd

from predictor.data.sources.logfile import LogFile
from predictor.errors import ArgumentError

MIB = 2.0**20
SAMPLE_COLUMNS = ("host", "gpu", "uuid", "job_id", "moment_s", "used_mib", "kind", "interval_s", "shared")
LARGEST_MIB = 2.0**22  # 4 TiB on one GPU: no such GPU, but a wrong unit
_JOB_FILE = re.compile(r"slurm-(\d+(?:_\d+)?)")


class SampleKind(StrEnum):
    """What a sample counts; the three differ by a third and more and are never mixed in one column."""

    ALLOCATED = "allocated"  # tensors, as torch.cuda.max_memory_allocated
    RESERVED = "reserved"  # blocks that the framework's allocator holds
    USED = "used"  # what the driver sees


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOptions:
    """What the caller knows about a log of metrics that the log does not say.

    Attributes:
        zone: zone of times without offset.
        host, job_id: for logs of one host or one job that do not name it.
        interval_s: sampling interval; None = the median distance of the samples of a GPU.
    """

    zone: str = "UTC"
    host: str = ""
    job_id: str = ""
    interval_s: float | None = None

    def __post_init__(self) -> None:
        if self.interval_s is not None and not 0 < self.interval_s < np.inf:
            raise ArgumentError(f"interval_s={self.interval_s:g}: give seconds above 0, or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRead:
    """Samples of one log and an account of what was read.

    Attributes:
        samples: columns ``SAMPLE_COLUMNS``. host, gpu (index), uuid, job_id are texts, empty if unknown;
            moment_s is NaN for a peak over the whole run.
        read: values seen. dropped: values not used, per reason; ``read == len(samples) + sum(dropped)``.
        notes: what is worth knowing about the values that were used, per code.
        lower_bounds: out-of-memory messages: columns ``job_id``, ``host``, ``gpu``, ``lower_bound_mib``.
    """

    samples: pd.DataFrame
    read: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    lower_bounds: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=["job_id", "host", "gpu", "lower_bound_mib"])
    )


class MetricReader(Protocol):
    """A format of GPU metrics."""

    @property
    def name(self) -> str:
        """Name of the format, as ``--format`` takes it."""
        ...

    def recognises(self, log: LogFile) -> bool:
        """Whether the content looks like this format."""
        ...

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all samples of a log.

        Raises:
            FormatError: the log is not of this format.
        """
        ...


def finish(
    frame: pd.DataFrame, log: LogFile, options: MetricOptions, *, timed: bool = True,
    dropped: Mapping[str, int] | None = None, notes: Mapping[str, int] | None = None,
) -> MetricRead:  # fmt: skip
    """Complete the columns of a reader's frame, drop values that cannot be and count them by reason.

    Args:
        frame: at least ``used_mib``, and ``moment_s`` where samples are timed; NaN = unreadable.
        dropped: values that the reader itself left out.
    """
    frame = frame.reset_index(drop=True)
    counts = dict(dropped or {})
    read = len(frame) + sum(counts.values())
    for name, value in (("host", options.host), ("gpu", ""), ("uuid", ""), ("job_id", job_of(log, options))):
        texts = frame[name].astype("str") if name in frame else pd.Series("", index=frame.index, dtype="str")
        frame[name] = texts.fillna("").str.strip().replace("", value)
    for name in ("moment_s", "used_mib"):
        if name not in frame:
            frame[name] = np.nan
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype("float64")
    if "kind" not in frame:
        frame["kind"] = str(SampleKind.USED)
    if "shared" not in frame:
        frame["shared"] = False
    used = frame["used_mib"]
    bad = {
        "memory-unreadable": used.isna() | np.isinf(used),
        "memory-negative": used < 0,
        "memory-beyond-any-gpu": used > LARGEST_MIB,
        "time-unreadable": frame["moment_s"].isna() & timed,
    }
    good = pd.Series(True, index=frame.index)
    for reason, marks in bad.items():
        fresh = marks & good
        if fresh.any():
            counts[reason] = int(fresh.sum())
        good &= ~marks
    frame = frame[good].reset_index(drop=True)
    frame["interval_s"] = _intervals(frame, options)
    return MetricRead(
        samples=frame[list(SAMPLE_COLUMNS)], read=read, dropped=counts,
        notes={code: count for code, count in (notes or {}).items() if count},
    )  # fmt: skip


def job_of(log: LogFile, options: MetricOptions) -> str:
    """Return the job that a whole log belongs to: as given, or out of a name such as ``slurm-123.out``."""
    if options.job_id:
        return options.job_id
    found = _JOB_FILE.search(log.name)
    return found[1] if found else ""


def _intervals(frame: pd.DataFrame, options: MetricOptions) -> "pd.Series[float]":
    """Return the sampling interval of each sample's GPU: the median distance in time."""
    if options.interval_s is not None:
        return pd.Series(options.interval_s, index=frame.index, dtype="float64")
    ordered = frame.sort_values(["host", "gpu", "uuid", "kind", "moment_s"], kind="stable")
    keys = [ordered[name] for name in ("host", "gpu", "uuid", "kind")]
    steps = ordered.groupby(keys, sort=False)["moment_s"].diff()
    medians = steps.where(steps > 0).groupby(keys, sort=False).transform("median")
    return medians.reindex(frame.index).astype("float64")

"""This module fills the measured GPU memory of a job table from logs of metrics."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from predictor.data.sources.gpu_metrics.join import Joined, JoinOptions, join_samples
from predictor.data.sources.gpu_metrics.registry import read_metrics
from predictor.data.sources.gpu_metrics.samples import MetricOptions
from predictor.data.sources.logfile import open_logs
from predictor.data.table import read_table, write_parquet, write_table
from predictor.errors import FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFile:
    """Account of one log: values read, samples kept, and the rest by reason."""

    name: str
    format: str
    read: int
    kept: int
    dropped: Mapping[str, int]
    notes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """Account of a whole ingest.

    Attributes:
        samples, jobs: counts by what became of them.
        filled: jobs that had no peak and have one now. kept_older: jobs whose peak was there before.
        lower_bounds: jobs with an out-of-memory message, which gives a lower bound.
    """

    files: Sequence[MetricsFile]
    samples: Mapping[str, int]
    jobs: Mapping[str, int]
    filled: int
    kept_older: int
    lower_bounds: int
    skipped: Sequence[str]


def ingest_metrics(
    files: Sequence[Path], jobs_path: Path, out: Path, *, format_name: str, options: MetricOptions,
    rules: JoinOptions, assignment: Path | None = None, peaks: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> MetricsReport:  # fmt: skip
    """Read logs, join them onto a job table and write the table with ``peak_vram_mib`` filled.

    Peaks that the table has already are kept. ``peaks`` takes one row per job and GPU, and the lower
    bounds of out-of-memory messages.

    Raises:
        FormatError: none of the files is a log of GPU metrics.
    """
    jobs = read_table(jobs_path)
    accounts, tables, bounds, skipped = [], [], [], []
    for path in files:
        for log in open_logs(path):
            try:
                name, result = read_metrics(log, format_name, options)
            except FormatError as error:
                skipped.append(str(error))
                continue
            accounts.append(MetricsFile(name=log.name, format=name, read=result.read, dropped=result.dropped,
                                        kept=len(result.samples), notes=result.notes))  # fmt: skip
            tables.append(result.samples)
            bounds.append(result.lower_bounds)
        progress(path.name)
    if not tables:
        raise FormatError("no file holds GPU metrics; nothing was written", faults=skipped)
    samples = pd.concat(tables, ignore_index=True)
    owned = None if assignment is None else _read_assignment(assignment)
    joined = join_samples(samples, jobs, assignment=owned, options=rules)
    lower = pd.concat(bounds, ignore_index=True)
    measured = ~np.isnan(joined.peak_mib)
    had = jobs["peak_vram_mib"].notna().to_numpy()
    jobs["peak_vram_mib"] = jobs["peak_vram_mib"].where(had, joined.peak_mib)
    write_table(jobs, out, {"peak_vram_kind": str(rules.kind)})
    if peaks is not None:
        write_parquet(_with_bounds(joined, lower), peaks, {"kind": str(rules.kind)})
    return MetricsReport(
        files=accounts, samples=joined.sample_counts, jobs=joined.job_counts, skipped=skipped,
        filled=int((measured & ~had).sum()), kept_older=int((measured & had).sum()),
        lower_bounds=int(lower["job_id"].nunique()),
    )  # fmt: skip


def total(files: Sequence[MetricsFile], what: str) -> dict[str, int]:
    """Return the counts of all files together: ``dropped`` or ``notes``."""
    counts: Counter[str] = Counter()
    for account in files:
        counts.update(getattr(account, what))
    return dict(counts)


def _with_bounds(joined: Joined, lower: pd.DataFrame) -> pd.DataFrame:
    """Return peaks of GPUs and lower bounds in one table; a bound has the kind ``lower-bound``."""
    peaks = joined.per_gpu.drop(columns=["row"]).assign(lower_bound_mib=np.nan)
    if lower.empty:
        return peaks
    bounds = lower.assign(kind="lower-bound", attempt=np.nan, peak_mib=np.nan, samples=0, interval_s=np.nan)
    bounds = bounds[peaks.columns]
    return bounds if peaks.empty else pd.concat([peaks, bounds], ignore_index=True)


def _read_assignment(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype="str", keep_default_na=False)
    except (OSError, ValueError) as error:
        raise FormatError(
            f"cannot read '{path}' as a table of job_id, host, gpu: {str(error).splitlines()[0]}"
        ) from error

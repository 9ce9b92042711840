"""This module joins GPU memory samples onto jobs: by job, or by host, GPU and time."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.hostlist import expand_hosts
from predictor.data.schema import seconds
from predictor.data.sources.gpu_metrics.samples import SampleKind
from predictor.data.table import ended_at_s
from predictor.errors import ArgumentError, SchemaError

_MS = 1000
_HOST_STRIDE = 10**14  # milliseconds; larger than any moment, so that host and moment make one sorted key
WITHOUT_HOST_AND_JOB = "without-host-and-job"
PEAK_COLUMNS = ("row", "job_id", "attempt", "host", "gpu", "kind", "peak_mib", "samples", "interval_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """Rules of the join.

    Attributes:
        kind: what the peaks shall count; samples of other kinds are left out and counted.
        least_samples: timed samples that each GPU of a job must have.
        skew_intervals: sampling intervals that are cut off at both ends of a job, as clocks differ.
    """

    kind: SampleKind = SampleKind.USED
    least_samples: int = 3
    skew_intervals: float = 1.0

    def __post_init__(self) -> None:
        if self.least_samples < 1 or not 0 <= self.skew_intervals <= 10:
            raise ArgumentError(
                f"least_samples={self.least_samples} must be 1 or more, "
                f"skew_intervals={self.skew_intervals} from 0 to 10"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Peaks of jobs and an account of every sample and of every job.

    Attributes:
        peak_mib: shape (jobs,), the largest peak over the GPUs of each job, NaN where there is none.
        per_gpu: one row per job and GPU, columns ``PEAK_COLUMNS``; ``row`` numbers the jobs.
        sample_counts: samples by what became of them; they add up to all samples.
        job_counts: jobs by what became of them; they add up to all jobs.
    """

    peak_mib: npt.NDArray[np.float64]
    per_gpu: pd.DataFrame
    sample_counts: Mapping[str, int]
    job_counts: Mapping[str, int]


def join_samples(
    samples: pd.DataFrame, jobs: pd.DataFrame, *, assignment: pd.DataFrame | None = None,
    options: JoinOptions | None = None,
) -> Joined:  # fmt: skip
    """Join samples onto a canonical job table.

    A sample that names its job belongs to it. Any other belongs to the job that ran on its host and GPU at
    its moment; one sampling interval is cut off at both ends of a job, so that a wrong clock does not credit
    the memory of a neighbour. Which GPUs of a host a job had is taken from ``assignment``; without it a job
    is joined only while it is the only one with GPUs on that host. A job's peak is the maximum over time,
    then over its GPUs. GPUs in MIG mode and jobs with parts of a GPU are left out: their samples count
    others' memory too.

    Args:
        assignment: columns ``job_id``, ``host``, ``gpu`` (index or UUID), as a scheduler's job details tell.

    Notes:
        Near-linear: samples are sorted once by host and moment, each job takes a slice of them.
    """
    options = options or JoinOptions()
    owned = _owned(assignment)
    fate = np.full(len(samples), "no-job-at-that-time", dtype=object)
    fate[(samples["kind"] != options.kind).to_numpy()] = "other-kind"
    shared = samples["shared"].to_numpy(dtype=np.bool_)
    fate[shared & (fate != "other-kind")] = "mig-or-shared"
    usable = fate == "no-job-at-that-time"
    nameless = samples["host"].eq("").to_numpy() & samples["job_id"].eq("").to_numpy()
    fate[usable & nameless] = WITHOUT_HOST_AND_JOB
    row, sample, why = _by_interval(samples, jobs, usable, owned, options)
    named_row, named_sample = _by_name(samples, jobs, usable)
    rows, taken = np.concatenate([named_row, row]), np.concatenate([named_sample, sample])
    fate[usable & samples["job_id"].ne("").to_numpy()] = "unknown-job"
    fate[taken] = "used"
    timed = samples["moment_s"].notna().to_numpy()
    per_gpu = _peaks(samples, rows, taken, jobs, timed)
    enough = per_gpu["samples"].to_numpy() >= np.where(per_gpu["timed"], options.least_samples, 1)
    job_fate = why
    found = np.zeros(len(jobs), dtype=np.bool_)
    found[per_gpu["row"].to_numpy(dtype=np.intp)] = True
    job_fate[found] = "too-few-samples"
    # one GPU with too few samples makes the job's peak unsure: another GPU may have been the fullest
    short = np.zeros(len(jobs), dtype=np.bool_)
    short[per_gpu["row"].to_numpy(dtype=np.intp)[~enough]] = True
    job_fate[found & ~short] = "measured"
    per_gpu = per_gpu[~short[per_gpu["row"].to_numpy(dtype=np.intp)]].reset_index(drop=True)
    peak_mib = np.full(len(jobs), np.nan)
    best = per_gpu.groupby("row")["peak_mib"].max()
    peak_mib[best.index.to_numpy(dtype=np.intp)] = best.to_numpy()
    fate[taken[short[rows]]] = "too-few-of-its-job"
    return Joined(
        peak_mib=peak_mib, per_gpu=per_gpu[list(PEAK_COLUMNS)],
        sample_counts=_count(fate), job_counts=_count(job_fate),
    )  # fmt: skip


def _owned(assignment: pd.DataFrame | None) -> pd.DataFrame:
    if assignment is None:
        return pd.DataFrame({"job_id": [], "host": [], "gpu": []}, dtype="str")
    missing = [name for name in ("job_id", "host", "gpu") if name not in assignment]
    if missing:
        raise SchemaError(
            "the assignment of GPUs cannot be used", faults=[f"no column '{name}'" for name in missing]
        )
    return assignment[["job_id", "host", "gpu"]].astype("str").drop_duplicates()


def _by_name(
    samples: pd.DataFrame, jobs: pd.DataFrame, usable: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return job row and sample of samples that name their job; of several attempts the last one counts."""
    named = np.flatnonzero(usable & samples["job_id"].ne("").to_numpy())
    last = pd.Series(np.arange(len(jobs)), index=jobs["job_id"].astype("str"))
    last = last[~last.index.duplicated(keep="last")]
    rows = samples["job_id"].iloc[named].map(last).to_numpy(dtype=np.float64)
    known = ~np.isnan(rows)
    return rows[known].astype(np.intp), named[known]


def _by_interval(
    samples: pd.DataFrame,
    jobs: pd.DataFrame,
    usable: npt.NDArray[np.bool_],
    owned: pd.DataFrame,
    options: JoinOptions,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.object_]]:
    """Return job row and sample of samples that host and time place, and why jobs got none."""
    why = np.full(len(jobs), "no-samples", dtype=object)
    gpus = jobs["allocated_gpus"].fillna(jobs["requested_gpus"]).to_numpy(dtype=np.float64)
    start, end = seconds(jobs["started_at"]), ended_at_s(jobs)
    why[np.isnan(start) | np.isnan(end)] = "no-times"
    why[jobs["node_list"].isna().to_numpy()] = "no-nodes"
    why[(gpus > 0) & (gpus != np.floor(gpus))] = "shared-gpu"
    why[~(gpus > 0)] = "no-gpus"  # also where the count is unknown
    stays = _stays(jobs, np.flatnonzero(why == "no-samples"), start, end)
    placed = samples.loc[
        usable & samples["job_id"].eq("").to_numpy() & samples["moment_s"].notna().to_numpy()
    ]
    empty = np.empty(0, dtype=np.intp)
    if placed.empty or stays.empty:
        return empty, empty, why
    hosts = pd.Index(placed["host"].map(_short).unique())
    code = hosts.get_indexer(pd.Index(stays["host"]))
    unseen = stays["row"].to_numpy()[code < 0]
    stays, code = stays[code >= 0].reset_index(drop=True), code[code >= 0]
    host = hosts.get_indexer(pd.Index(placed["host"].map(_short)))
    key = host * _HOST_STRIDE + np.round(placed["moment_s"].to_numpy() * _MS).astype(np.int64)
    order = np.argsort(key, kind="stable")
    interval = placed["interval_s"].median()
    skew = 0.0 if np.isnan(interval) else float(interval) * options.skew_intervals
    first = np.ceil((stays["start"].to_numpy() + skew) * _MS).astype(np.int64)
    last = np.floor((stays["end"].to_numpy() - skew) * _MS).astype(np.int64)
    low = np.searchsorted(key[order], code * _HOST_STRIDE + first)
    high = np.searchsorted(key[order], code * _HOST_STRIDE + last)
    length = np.maximum(high - low, 0)
    stay = np.repeat(np.arange(len(stays)), length)
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    sample = placed.index.to_numpy()[order][np.repeat(low, length) + within]
    rows = stays["row"].to_numpy()[stay]
    mine = _is_own(samples, jobs, rows, sample, owned, stays["alone"].to_numpy()[stay])
    crowded = np.setdiff1d(stays["row"].to_numpy()[~stays["alone"].to_numpy()], rows[mine])
    why[crowded] = "host-shared-and-gpus-unknown"
    partly = np.union1d(unseen, stays["row"].to_numpy()[~np.isin(np.arange(len(stays)), stay[mine])])
    keep = mine & ~np.isin(rows, partly)  # a job of which one host was not measured has no known peak
    why[np.setdiff1d(np.intersect1d(partly, rows[mine]), crowded)] = "some-hosts-without-samples"
    return rows[keep].astype(np.intp), sample[keep].astype(np.intp), why


def _stays(
    jobs: pd.DataFrame,
    rows: npt.NDArray[np.intp],
    start: npt.NDArray[np.float64],
    end: npt.NDArray[np.float64],
) -> pd.DataFrame:
    """Return one row per job and host, and whether the job was alone there with GPUs all the time."""
    lists = [_hosts(text) for text in jobs["node_list"].iloc[rows]]
    counts = [len(names) for names in lists]
    row = np.repeat(rows, counts)
    stays = pd.DataFrame({
        "row": row, "host": [name for names in lists for name in names], "start": start[row], "end": end[row]
    })  # fmt: skip
    stays = stays.sort_values(["host", "start"], kind="stable").reset_index(drop=True)
    by_host = stays.groupby("host", sort=False)
    before = by_host["end"].cummax().groupby(stays["host"], sort=False).shift()
    after = by_host["start"].shift(-1)
    stays["alone"] = ~((stays["start"] < before) | (after < stays["end"]))
    return stays


def _hosts(text: str) -> list[str]:
    try:
        return [_short(name) for name in expand_hosts(text)]
    except ArgumentError:
        return [_short(text)]


def _short(host: str) -> str:
    """Return a host without its domain; schedulers and monitors differ in that. Addresses stay whole."""
    return host if host.replace(".", "").isdigit() else host.split(".", 1)[0].lower()


def _is_own(
    samples: pd.DataFrame, jobs: pd.DataFrame, rows: npt.NDArray[np.intp], sample: npt.NDArray[np.intp],
    owned: pd.DataFrame, alone: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Whether each sample is of a GPU of its job: as assigned, or any GPU of a host it had for itself."""
    if owned.empty:
        return alone
    jobs_ids = jobs["job_id"].astype("str").to_numpy()[rows]
    host = samples["host"].map(_short).to_numpy()[sample]
    known = np.isin(jobs_ids, owned["job_id"].to_numpy())
    pairs = pd.MultiIndex.from_arrays([owned["job_id"], owned["host"].map(_short), owned["gpu"]])
    hit = np.zeros(len(rows), dtype=np.bool_)
    for name in ("gpu", "uuid"):
        named = samples[name].astype("str").to_numpy()[sample]
        hit |= pd.MultiIndex.from_arrays([jobs_ids, host, named]).isin(pairs)
    return np.asarray(np.where(known, hit, alone), dtype=np.bool_)


def _peaks(
    samples: pd.DataFrame, rows: npt.NDArray[np.intp], taken: npt.NDArray[np.intp], jobs: pd.DataFrame,
    timed: npt.NDArray[np.bool_],
) -> pd.DataFrame:  # fmt: skip
    """Return the peak of each GPU of each job."""
    used = samples.iloc[taken]
    gpu = used["gpu"].where(used["gpu"].ne(""), used["uuid"])
    table = pd.DataFrame({
        "row": rows, "host": used["host"].to_numpy(), "gpu": gpu.to_numpy(), "kind": used["kind"].to_numpy(),
        "peak_mib": used["used_mib"].to_numpy(), "interval_s": used["interval_s"].to_numpy(),
        "timed": timed[taken], "samples": 1,
    })  # fmt: skip
    peaks = table.groupby(["row", "host", "gpu", "kind"], sort=True, as_index=False).agg(
        peak_mib=("peak_mib", "max"), samples=("samples", "sum"), interval_s=("interval_s", "median"),
        timed=("timed", "all"),
    )  # fmt: skip
    peaks["job_id"] = jobs["job_id"].astype("str").to_numpy()[peaks["row"].to_numpy(dtype=np.intp)]
    peaks["attempt"] = jobs["attempt"].to_numpy()[peaks["row"].to_numpy(dtype=np.intp)]
    return peaks


def _count(fates: npt.NDArray[np.object_]) -> dict[str, int]:
    return {str(fate): int(count) for fate, count in pd.Series(fates, dtype="str").value_counts().items()}

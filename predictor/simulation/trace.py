"""This module turns a canonical job table into jobs to be played: what is asked for, and how long it runs.

No row vanishes silently: what cannot be played is counted by reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.events import CHECKPOINT_KINDS
from predictor.contracts.job import JobState
from predictor.data.schema import seconds
from predictor.errors import ArgumentError, EmptyInputError
from predictor.scheduling.capacity import Pool

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
UNITS = ("cpus", "gpus")
_UNENDED = (JobState.PENDING.value, JobState.RUNNING.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """n jobs in the order of their submission.

    Attributes:
        job_ids: n different texts. rows: shape (n,), row of each job in the table it came from.
        submitted_s: shape (n,), UTC epoch seconds.
        work_s: shape (n,), how long each job runs when nothing interrupts it, its limit included.
        limit_s: shape (n,), ``inf`` = none.
        width: shape (n,), units held at once.
        timed_out: shape (n,), True where the limit ends the job.
        user, workload_class, gpu_type, region, checkpoint: n texts, "" = unknown (``checkpoint``: none).
        deadline_s: shape (n,), NaN = none. preemptible: shape (n,), 1 yes, 0 no, -1 as its class says.
        checkpoint_interval_s, restart_cost_s: shape (n,).
        left_out: how many rows of the table are not played, by reason.
    """

    job_ids: tuple[str, ...]
    rows: IntArray
    submitted_s: FloatArray
    work_s: FloatArray
    limit_s: FloatArray
    width: IntArray
    timed_out: npt.NDArray[np.bool_]
    user: tuple[str, ...]
    workload_class: tuple[str, ...]
    gpu_type: tuple[str, ...]
    region: tuple[str, ...]
    checkpoint: tuple[str, ...]
    deadline_s: FloatArray
    preemptible: IntArray
    checkpoint_interval_s: FloatArray
    restart_cost_s: FloatArray
    left_out: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def unit_seconds(self) -> float:
        """Work of all jobs, units times seconds."""
        return float(self.work_s @ self.width)

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last submission."""
        return float(self.submitted_s[-1] - self.submitted_s[0])

    def offered_load(self, units: int) -> float:
        """Return the work that arrives, as a part of what so many units can do meanwhile.

        NaN where all jobs arrive at once, as of a single one.
        """
        return self.unit_seconds / (units * self.span_s) if self.span_s > 0 else float("nan")

    def take(self, which: slice) -> "Trace":
        """Return some of the jobs that follow one another."""
        columns = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(
            self, **{name: column[which] for name, column in columns.items() if name != "left_out"}
        )

    def at_load(self, load: float, units: int) -> "Trace":
        """Return the same jobs arriving faster or slower, so that the offered load is as given.

        Raises:
            ArgumentError: the load is not above 0, or all jobs arrive at once.
        """
        if not load > 0 or not self.span_s > 0:
            raise ArgumentError(
                f"load={load}: give a number above 0, such as 0.9, for jobs that arrive apart"
            )
        first = self.submitted_s[0]
        gaps = self.submitted_s - first
        return replace(self, submitted_s=first + gaps * (self.offered_load(units) / load))

    def units_for(self, load: float) -> int:
        """Return the fewest units on which the offered load is at most as given and every job fits."""
        wanted = self.unit_seconds / (load * self.span_s) if self.span_s > 0 else 0.0
        return int(max(np.ceil(wanted), self.width.max()))


def build_trace(
    frame: pd.DataFrame,
    *,
    units: str,
    queue: str = "",
    from_s: float = -np.inf,
    to_s: float = np.inf,
    kill_at_limit: bool = False,
) -> Trace:
    """Return the jobs of a canonical table that had ended when it was written.

    A job that still waited or ran is left out: how long it runs is not known, and the time it has had so far
    would make the schedule too short.

    Args:
        frame: canonical job table.
        units: ``gpus`` or ``cpus``, what a job's width counts; allocated ones where none were requested.
        queue: only the jobs of this queue, "" = of all.
        from_s, to_s: only jobs submitted from here, and before there.
        kill_at_limit: end every job at its limit; else a job that outlived its limit in the log is taken
            to have had that longer limit, as the site let it run.

    Raises:
        ArgumentError: the units are not known.
        EmptyInputError: no job is left.
    """
    if units not in UNITS:
        raise ArgumentError(f"units={units!r} is not one of {', '.join(UNITS)}")
    submitted_s = seconds(frame["submitted_at"])
    elapsed_s = frame["elapsed_s"].to_numpy(dtype=np.float64)
    width = frame[f"requested_{units}"].fillna(0.0).to_numpy(dtype=np.float64)
    if units == "cpus":
        width = np.where(width > 0, width, frame["allocated_cpus"].fillna(0.0).to_numpy(dtype=np.float64))
    left = np.ones(len(frame), dtype=bool)
    left_out: dict[str, int] = {}
    for reason, keep in (
        ("of another queue", (frame["queue"] == queue).fillna(False).to_numpy(dtype=bool) | (queue == "")),
        ("outside the time span", (submitted_s >= from_s) & (submitted_s < to_s)),
        (f"without {units}", width > 0),
        ("had not ended", ~frame["state"].isin(_UNENDED).to_numpy(dtype=bool)),
        ("never ran", elapsed_s > 0),
    ):
        gone = int((left & ~keep).sum())
        if gone:
            left_out[reason] = gone
        left &= keep
    rows = np.flatnonzero(left)
    if not len(rows):
        raise EmptyInputError(
            f"no job of {len(frame)} can be played: {left_out}; check queue, times and units"
        )
    rows = rows[np.argsort(submitted_s[rows], kind="stable")]
    chosen = frame.iloc[rows]
    limit_s = chosen["walltime_s"].to_numpy(dtype=np.float64)
    limit_s = np.where(limit_s > 0, limit_s, np.inf)
    work_s = elapsed_s[rows]
    if kill_at_limit:
        work_s = np.minimum(work_s, limit_s)
    limit_s = np.maximum(limit_s, work_s)
    preemptible = chosen["preemptible"].astype("Float64").fillna(-1.0).to_numpy(dtype=np.float64)
    kinds = _texts(chosen["checkpoint_kind"])
    return Trace(
        job_ids=tuple(map(str, rows.tolist())),  # ids of the table may be used again
        rows=rows.astype(np.int64),
        submitted_s=submitted_s[rows],
        work_s=work_s,
        limit_s=limit_s,
        width=np.ceil(width[rows]).astype(np.int64),
        timed_out=work_s >= limit_s,
        user=_texts(chosen["user"]),
        workload_class=_texts(chosen["workload_class"]),
        gpu_type=_texts(chosen["gpu_type"]),
        region=_texts(chosen["data_region"]),
        checkpoint=tuple(kind if kind in CHECKPOINT_KINDS else "none" for kind in kinds),
        deadline_s=seconds(chosen["deadline_at"]),
        preemptible=preemptible.astype(np.int64),
        checkpoint_interval_s=chosen["checkpoint_interval_s"].fillna(0.0).to_numpy(dtype=np.float64),
        restart_cost_s=np.zeros(len(rows)),
        left_out=left_out,
    )


def known_to(trace: Trace, pools: Sequence[Pool]) -> Trace:
    """Return the same jobs without wishes for device types and regions that no pool of the cluster has."""
    types, regions = {pool.gpu_type for pool in pools}, {pool.region for pool in pools}
    return replace(
        trace,
        gpu_type=tuple(wish if wish in types else "" for wish in trace.gpu_type),
        region=tuple(wish if wish in regions else "" for wish in trace.region),
    )


def _texts(column: "pd.Series[str]") -> tuple[str, ...]:
    return tuple(str(value) for value in column.fillna("").tolist())

"""This module turns the fields that Slurm reports, under sacct's names, into canonical columns."""

import numpy as np
import pandas as pd

from predictor.data.faults import Mask
from predictor.data.sources.raw import RawRecords, extract
from predictor.data.sources.slurm_fields import (
    NOT_ALLOCATED,
    JobIds,
    attempts,
    parse_gres_gpus,
    parse_limit_s,
    parse_tres,
    requested_memory_mib,
)
from predictor.data.sources.slurm_states import translate_words
from predictor.units import parse_clock_s

USED_FIELDS = frozenset(
    (
        "jobid", "jobidraw", "cluster", "user", "uid", "account", "partition", "qos", "jobname", "submitline",
        "workdir", "constraints", "reservation", "state", "exitcode", "submit", "eligible", "start", "end",
        "elapsed", "elapsedraw", "timelimit", "timelimitraw", "reqtres", "alloctres", "reqgres", "reqmem",
        "reqcpus", "reqnodes", "alloccpus", "allocnodes", "ncpus", "nnodes", "nodelist",
        "maxrss", "tresusageinmax", "tresusageinave",
    )
)  # fmt: skip


def slurm_columns(raw: RawRecords, ids: JobIds) -> dict[str, object]:
    """Return the canonical columns that are in the records; fields that are absent read as missing.

    The field names are sacct's, in lower case; the readers of Slurm's other outputs rename theirs to these.
    """
    state = translate_words(raw.text("state"))
    elapsed_s = raw.number("elapsedraw").fillna(raw.parsed("elapsed", parse_clock_s))
    submitted, started, ended = raw.life(("submit", "start", "end"), elapsed_s)
    asked, given = parse_tres(raw.text("reqtres")), parse_tres(raw.text("alloctres"))
    given_cpus = given.cpus.fillna(raw.number("alloccpus")).fillna(raw.number("ncpus"))
    given_nodes = raw.number("allocnodes").fillna(raw.number("nnodes")).fillna(given.nodes)
    nodes = raw.parsed("reqnodes", _first_count).fillna(raw.number("nnodes")).fillna(asked.nodes)
    cpus = asked.cpus.fillna(raw.number("reqcpus")).fillna(raw.number("ncpus"))
    elapsed_s = elapsed_s.fillna((ended - started).dt.total_seconds())
    waiting = (state == "PENDING").to_numpy() | _never_started(raw, state, elapsed_s)
    started = started.mask(waiting)
    elapsed_s = elapsed_s.mask(started.isna() & ~(elapsed_s > 0))
    run = started.notna()
    columns: dict[str, object] = {
        "job_id": ids.job_id,
        "attempt": attempts(ids.job_id.where(ids.step.isna()), submitted, started, raw.text("cluster")),
        "user": raw.first_text("user", "uid"),
        "account": raw.text("account"),
        "queue": raw.text("partition"),
        "job_name": raw.text("jobname"),
        "submit_line": raw.text("submitline"),
        "work_dir": raw.text("workdir"),
        "array_job_id": ids.array_job_id,
        "array_task_index": ids.array_task_index,
        "requested_gpus": _requested_gpus(raw, asked.gpus, given.gpus, asked.listed | given.listed, nodes),
        "gpu_type": asked.gpu_type.fillna(given.gpu_type),
        "requested_nodes": nodes,
        "requested_cpus": cpus,
        "requested_memory_mib": asked.memory_mib.fillna(
            requested_memory_mib(raw.text("reqmem"), given_nodes.fillna(nodes), given_cpus.fillna(cpus))
        ),
        "walltime_s": _walltime_s(raw),
        "qos": raw.text("qos"),
        "constraints": raw.text("constraints"),
        "reservation": raw.text("reservation"),
        "submitted_at": submitted,
        "eligible_at": raw.time("eligible"),
        "started_at": started,
        "node_list": raw.text("nodelist", NOT_ALLOCATED),
        "allocated_nodes": given_nodes.where(run),
        "allocated_cpus": given_cpus.where(run),
        "allocated_gpus": given.gpus.mask(given.listed & given.gpus.isna(), 0.0).where(run),
        "ended_at": ended.mask(state.isin(("PENDING", "RUNNING")).to_numpy()),
        "elapsed_s": elapsed_s,
        "state": state,
        "exit_code": pd.to_numeric(extract(raw.text("exitcode"), r"^(?P<found>\d+)")).astype("float64"),
    }
    if "cluster" in raw:
        columns["cluster"] = raw.text("cluster")
    return columns


def _never_started(raw: RawRecords, state: "pd.Series[str]", elapsed_s: "pd.Series[float]") -> Mask:
    """Mark jobs cancelled while pending: older Slurm writes the time of the cancelling as their start."""
    nothing = pd.Series(False, index=state.index)
    for field in ("alloccpus", "allocnodes"):
        nothing |= raw.number(field) == 0
    if "nodelist" in raw:
        nothing |= raw.table["nodelist"].isin(NOT_ALLOCATED)
    return (nothing & state.isin(("CANCELLED", "FAILED", "TIMEOUT")) & (elapsed_s == 0)).to_numpy(
        dtype=np.bool_
    )


def _walltime_s(raw: RawRecords) -> "pd.Series[float]":
    minutes = raw.parsed(
        "timelimitraw", lambda text: float(text) if text[:1].isdigit() else parse_limit_s(text)
    )
    return (minutes * 60.0).fillna(raw.parsed("timelimit", parse_limit_s))


def _requested_gpus(
    raw: RawRecords,
    asked: "pd.Series[float]",
    given: "pd.Series[float]",
    listed: "pd.Series[bool]",
    nodes: "pd.Series[float]",
) -> "pd.Series[float]":
    """Take the request; where it names none, what was allocated (ReqTRES of older Slurm lacks GPUs)."""
    gpus = asked.fillna(given)
    if "reqgres" in raw:
        gpus = gpus.fillna(raw.parsed("reqgres", parse_gres_gpus) * nodes.fillna(1.0))
    return gpus.mask(gpus.isna() & listed, 0.0)


def _first_count(text: str) -> float:
    """Read a count or the lower end of a range such as ``2-4``."""
    return float(text.split("-", 1)[0])

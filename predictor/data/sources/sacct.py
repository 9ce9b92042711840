"""This module reads what Slurm's ``sacct --parsable2`` and ``--parsable`` print."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.data.faults import Mask
from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords
from predictor.data.sources.sacct_layout import (
    KNOWN_FIELDS,
    Layout,
    guess_layout,
    layout_of_fields,
    parse_header,
)
from predictor.data.sources.sacct_records import Records, cut_records
from predictor.data.sources.sacct_steps import merge_steps
from predictor.data.sources.slurm_fields import (
    NOT_ALLOCATED,
    JobIds,
    attempts,
    parse_gres_gpus,
    parse_limit_s,
    parse_tres,
    requested_memory_mib,
    split_ids,
)
from predictor.data.sources.slurm_states import translate_words
from predictor.errors import EmptyInputError, FormatError
from predictor.units import parse_clock_s

FOUND_SHOWN = 120  # characters of the first line that an error message shows


@dataclass(frozen=True, slots=True, kw_only=True)
class SacctReader:
    """Reader of sacct's parsable output, with any fields in any order, with or without header.

    Notes:
        Step rows (``123.batch``) give their peak memory to the job's row and vanish (``merged``). Logs
        without job ids get ``row-N``. Without header, the fields come from the options or from one of the
        known layouts. Times without offset are of the zone of the options.
    """

    name: str = "sacct"

    def recognises(self, log: LogFile) -> bool:
        """Whether the first line is a header of sacct or a record of a known layout."""
        line = log.head().lstrip("\r\n").split("\n", 1)[0]
        layout = parse_header(line)
        if layout is not None:
            return layout.delimiter != "," and bool({"state", "jobid", "jobidraw"} & set(layout.fields))
        return guess_layout(line) is not None

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        lines = log.text().split("\n")
        if lines[-1] == "":
            lines.pop()
        if lines[0].endswith("\r"):
            lines = [line.removesuffix("\r") for line in lines]
        first = next(at for at, line in enumerate(lines) if line.strip())
        layout, has_header = _layout(lines[first], log.name, options)
        records = cut_records(lines[first + has_header :], layout, first_line=first + has_header + 1)
        if not records.rows and not records.bad_lines:
            raise EmptyInputError(f"'{log.name}' has a header but no record; widen sacct's -S and -E")
        if not records.rows:
            raise FormatError(
                f"no record of '{log.name}' has the {len(layout.fields)} fields of its header; "
                f"first: '{records.bad_texts[0][:FOUND_SHOWN]}'; give the right --delimiter or --fields"
            )
        return _convert(records, layout, log, options)


def _layout(line: str, name: str, options: ReadOptions) -> tuple[Layout, bool]:
    header = parse_header(line, options.delimiter)
    if header is not None:
        return header, True
    if options.fields:
        return layout_of_fields(options.fields, options.delimiter or "|", line), False
    guessed = guess_layout(line, options.delimiter)
    if guessed is not None:
        return guessed, False
    raise FormatError(
        f"'{name}' begins with neither a sacct header nor a record of a known layout; found "
        f"'{line[:FOUND_SHOWN]}'; allowed are fields such as {', '.join(sorted(KNOWN_FIELDS)[:8])}, ...; "
        f"print the log with --parsable2 and a header, or name its fields with --fields and --delimiter"
    )


def _convert(records: Records, layout: Layout, log: LogFile, options: ReadOptions) -> ReadResult:
    table = pd.DataFrame(records.rows, columns=list(dict.fromkeys(layout.fields)), dtype="str")
    raw = RawRecords(table, records.lines, options)
    raw.note("rejoined-record", records.rejoined)
    ids = split_ids(_ids(raw))
    steps = merge_steps(raw, ids)
    raw.fault("step-without-job", "the log has no row for the job of this step", steps.orphans)
    jobs = ids.step.isna().to_numpy(dtype=np.bool_)
    columns = _columns(raw, ids)
    columns["peak_host_memory_mib"] = steps.peak_host_memory_mib
    columns["peak_vram_mib"] = steps.peak_vram_mib
    columns["gpu_utilisation_ratio"] = steps.gpu_utilisation_ratio
    bad = unreadable_rows(
        records.bad_lines, ["fields-do-not-fit"] * len(records.bad_lines), records.bad_texts
    )
    faulty_steps = raw.faults.faulty & ~jobs
    return raw.finish(
        columns,
        source="sacct",
        stem=log.stem,
        rows_read=len(raw) + len(bad),
        unreadable=bad,
        merged={"step": int((~jobs & ~faulty_steps).sum())},
        keep=jobs | faulty_steps,
    )


def _ids(raw: RawRecords) -> "pd.Series[str]":
    if "jobid" not in raw and "jobidraw" not in raw:
        raw.note("job-id-made-up", len(raw))
        return pd.Series(np.char.add("row-", raw.lines.astype("U")), dtype="str")
    return raw.first_text("jobid", "jobidraw")


def _columns(raw: RawRecords, ids: JobIds) -> dict[str, object]:
    state = translate_words(raw.text("state"))
    submitted, started, ended = raw.time("submit"), raw.time("start"), raw.time("end")
    asked, given = parse_tres(raw.text("reqtres")), parse_tres(raw.text("alloctres"))
    given_cpus = given.cpus.fillna(raw.number("alloccpus")).fillna(raw.number("ncpus"))
    given_nodes = raw.number("allocnodes").fillna(raw.number("nnodes")).fillna(given.nodes)
    nodes = raw.parsed("reqnodes", _first_count).fillna(raw.number("nnodes")).fillna(asked.nodes)
    cpus = asked.cpus.fillna(raw.number("reqcpus")).fillna(raw.number("ncpus"))
    elapsed_s = raw.number("elapsedraw").fillna(raw.parsed("elapsed", parse_clock_s))
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
        "exit_code": pd.to_numeric(raw.text("exitcode").str.extract(r"^(\d+)")[0]).astype("float64"),
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

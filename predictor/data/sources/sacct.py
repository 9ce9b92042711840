"""This module reads what Slurm's ``sacct --parsable2`` and ``--parsable`` print."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

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
from predictor.data.sources.slurm_columns import USED_FIELDS, slurm_columns
from predictor.data.sources.slurm_fields import split_ids
from predictor.errors import EmptyInputError, FormatError

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
    takes: frozenset[str] = frozenset({"delimiter", "fields"})

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
        if not records and not records.bad_lines:
            raise EmptyInputError(f"'{log.name}' has a header but no record; widen sacct's -S and -E")
        if not records:
            raise FormatError(
                f"no record of '{log.name}' has the {len(layout.fields)} fields of its header; "
                f"first: '{records.bad_texts[0][:FOUND_SHOWN]}'; give the right --delimiter or --fields"
            )
        return _convert(records, options)


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


def _convert(records: Records, options: ReadOptions) -> ReadResult:
    table = records.table(USED_FIELDS)
    raw = RawRecords(table.drop(columns="line"), table["line"].tolist(), options)
    raw.note("rejoined-record", len(records.odd))
    ids = split_ids(_ids(raw))
    steps = merge_steps(raw, ids)
    raw.fault("step-without-job", "the log has no row for the job of this step", steps.orphans)
    jobs = ids.step.isna().to_numpy(dtype=np.bool_)
    columns = slurm_columns(raw, ids)
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

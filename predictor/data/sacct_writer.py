"""This module writes a canonical job table in the form that ``sacct --parsable2 -D`` prints."""

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from predictor.contracts.job import JobState

SACCT_FIELDS = (
    "JobID", "JobName", "User", "Account", "Partition", "QOS", "State", "ExitCode", "Submit", "Eligible",
    "Start", "End", "ElapsedRaw", "TimelimitRaw", "ReqCPUS", "ReqMem", "ReqNodes", "ReqTRES", "AllocTRES",
    "NodeList", "NNodes", "MaxRSS", "Comment", "SubmitLine", "Cluster",
)  # fmt: skip
COMMENT_COLUMNS = (
    "framework", "task", "model_family", "parameter_count", "precision", "batch_size", "sequence_length",
    "image_size", "epochs",
)  # fmt: skip
_FIRST_UID = 1000
_KILLED = frozenset({JobState.TIMEOUT, JobState.CANCELLED, JobState.PREEMPTED, JobState.NODE_FAIL})


def write_sacct(frame: pd.DataFrame, path: Path) -> None:
    """Write the table as a sacct log; a path that ends in ``.gz`` is compressed, the same bytes each time.

    Args:
        frame: canonical job table with every value of the sacct fields free of ``|`` and newlines.
        path: file to write.
    """
    data = "".join(f"{line}\n" for line in sacct_lines(frame)).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=9, mtime=0)
    path.write_bytes(data)


def sacct_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the header, then each attempt's row and, where the attempt ran, its ``.batch`` step.

    Notes:
        As in a real log: times are UTC without a zone, peak memory is on the step row only, a running
        job's end is ``Unknown``, a job that never started has the start ``None`` (cancelled) or
        ``Unknown`` (pending), ``ReqMem`` counts all nodes, and the memory, exit code and TRES keys
        have the spelling of Slurm 22.05. Columns that sacct has no field for are left out; the
        workload description travels as JSON in ``Comment``.
    """
    yield "|".join(SACCT_FIELDS)
    columns = {name: frame[name].tolist() for name in frame.columns if not name.endswith("_at")}
    for name in ("submitted_at", "eligible_at", "started_at", "ended_at"):
        columns[name] = frame[name].dt.strftime("%Y-%m-%dT%H:%M:%S").tolist()
    for values in zip(*columns.values(), strict=True):
        attempt = _Attempt(dict(zip(columns, values, strict=True)))
        yield "|".join(attempt.job_row())
        if attempt.ran:
            yield "|".join(attempt.batch_row())


class _Attempt:
    """One attempt on its way into text; a missing value is the empty text."""

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values
        self.state = JobState(str(values["state"]))
        self.ran = _known(values["started_at"])

    def job_row(self) -> tuple[str, ...]:
        memory = _memory(self._number("requested_memory_mib"))
        tres = self._tres(billing=True, memory=memory)
        limit_s = self._number("walltime_s")
        return (
            self._text("job_id"), self._text("job_name"), self._text("user"), self._text("account"),
            self._text("queue"), self._text("qos"), self._state(), self._exit_code(),
            self._text("submitted_at"), self._text("eligible_at"), self._start(), self._end(),
            self._elapsed(),
            "UNLIMITED" if math.isnan(limit_s) else f"{limit_s / 60:.0f}", self._whole("requested_cpus"),
            memory, self._whole("requested_nodes"), tres, tres if self.ran else "",
            self._text("node_list") or "None assigned", self._whole("requested_nodes"), "", self._comment(),
            self._text("submit_line"), self._text("cluster"),
        )  # fmt: skip

    def batch_row(self) -> tuple[str, ...]:
        peak_mib = self._number("peak_host_memory_mib")
        killed = self.state in _KILLED
        state = JobState.CANCELLED.value if killed else self.state.value
        nodes = self._whole("requested_nodes")
        return (
            f"{self._text('job_id')}.batch", "batch", "", self._text("account"), "", "", state,
            "0:15" if killed else self._exit_code(), self._start(), self._start(), self._start(), self._end(),
            self._elapsed(), "", self._whole("requested_cpus"), "", nodes, "",
            self._tres(billing=False, memory=_memory(self._number("requested_memory_mib"))),
            self._text("node_list"), nodes, _memory(peak_mib),
            "", "", self._text("cluster"),
        )  # fmt: skip

    def _text(self, name: str) -> str:
        value = self._values.get(name)
        return str(value) if _known(value) else ""

    def _number(self, name: str) -> float:
        value = self._values.get(name)
        return float(value) if isinstance(value, (int, float)) else math.nan

    def _whole(self, name: str) -> str:
        value = self._number(name)
        return "" if math.isnan(value) else f"{value:.0f}"

    def _state(self) -> str:
        if self.state is not JobState.CANCELLED:
            return self.state.value
        number = "".join(letter for letter in self._text("user") if letter.isdigit())
        return f"CANCELLED by {_FIRST_UID + int(number or 0)}"

    def _exit_code(self) -> str:
        code = "0" if self.state is JobState.OUT_OF_MEMORY else self._whole("exit_code") or "0"
        return f"{code}:125" if self.state is JobState.OUT_OF_MEMORY else f"{code}:0"

    def _start(self) -> str:
        if self.ran:
            return self._text("started_at")
        return "Unknown" if self.state is JobState.PENDING else "None"

    def _end(self) -> str:
        return self._text("ended_at") or "Unknown"

    def _elapsed(self) -> str:
        return self._whole("elapsed_s") or "0"

    def _tres(self, *, billing: bool, memory: str) -> str:
        cpus, gpus = self._whole("requested_cpus"), self._number("requested_gpus")
        parts = [f"billing={cpus}"] if billing else []
        parts.append(f"cpu={cpus}")
        if gpus > 0:
            kind = self._text("gpu_type")
            parts += [f"gres/gpu:{kind}={gpus:.0f}"] if kind else []
            parts.append(f"gres/gpu={gpus:.0f}")
        return ",".join([*parts, f"mem={memory}", f"node={self._whole('requested_nodes')}"])

    def _comment(self) -> str:
        known = {name: self._values[name] for name in COMMENT_COLUMNS if _known(self._values.get(name))}
        if not known:
            return ""
        plain = {name: int(value) if isinstance(value, float) else value for name, value in known.items()}
        return json.dumps(plain, separators=(",", ":"))


def _known(value: object) -> bool:
    return value is not None and value is not pd.NaT and not (isinstance(value, float) and math.isnan(value))


def _memory(memory_mib: float) -> str:
    if math.isnan(memory_mib):
        return ""
    for unit, size_mib in (("G", 1024.0), ("M", 1.0)):
        if memory_mib % size_mib == 0:
            return f"{memory_mib / size_mib:.0f}{unit}"
    return f"{memory_mib * 1024:.0f}K"

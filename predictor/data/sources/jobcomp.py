"""This module reads what Slurm's ``jobcomp/elasticsearch`` plug-in writes, one JSON document per line."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from predictor.data.sources.base import ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords, text_table
from predictor.data.sources.slurm_columns import slurm_columns
from predictor.data.sources.slurm_fields import split_ids
from predictor.errors import FormatError

_NO_VALUE = 4294967294
_NAMES = {
    "cluster": "cluster", "user": "username", "uid": "user_id", "account": "account",
    "partition": "partition",
    "qos": "qos", "jobname": "job_name", "workdir": "work_dir", "state": "state", "submit": "@submit",
    "eligible": "@eligible", "start": "@start", "end": "@end", "elapsedraw": "elapsed", "nodelist": "nodes",
    "alloccpus": "total_cpus", "allocnodes": "total_nodes", "exitcode": "exit_code", "reqtres": "tres_req",
    "alloctres": "tres_alloc", "reservation": "reservation_name", "dependency": "orig_dependency",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobcompReader:
    """Reader of job completion documents, bare or as exported from an index (inside ``_source``)."""

    name: str = "jobcomp"
    takes: frozenset[str] = frozenset()

    def recognises(self, log: LogFile) -> bool:
        """Whether the first line is a document of the plug-in."""
        line = log.head().lstrip().split("\n", 1)[0]
        return line.startswith("{") and '"jobid"' in line and '"@submit"' in line

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        rows: list[tuple[int, dict[str, str]]] = []
        bad: list[tuple[int, str]] = []
        for at, line in enumerate(log.text().split("\n"), 1):
            if not line.strip():
                continue
            document = _document(line)
            if document is None:
                bad.append((at, line))
            else:
                rows.append((at, _fields(document)))
        if not rows:
            raise FormatError(
                f"no line of '{log.name}' is a document of jobcomp/elasticsearch; "
                f"found '{bad[0][1][:120]}'; choose another --format"
            )
        raw = RawRecords(text_table([row for _, row in rows]), [at for at, _ in rows], options)
        columns = slurm_columns(raw, split_ids(raw.text("jobid")))
        columns["script_hash"] = raw.text("scripthash")
        columns["dependency"] = raw.text("dependency")
        lost = unreadable_rows(
            [at for at, _ in bad], ["not-a-document"] * len(bad), [text for _, text in bad]
        )
        return raw.finish(columns, source="jobcomp", rows_read=len(rows) + len(bad), unreadable=lost)


def _document(line: str) -> Mapping[str, object] | None:
    try:
        document = json.loads(line)
    except ValueError:
        return None
    if isinstance(document, dict) and isinstance(document.get("_source"), dict):
        document = document["_source"]
    return document if isinstance(document, dict) and "jobid" in document else None


def _fields(document: Mapping[str, object]) -> dict[str, str]:
    fields = {name: _text(document.get(key)) for name, key in _NAMES.items()}
    fields["jobid"] = _job_id(document)
    limit_s = document.get("time_limit")  # seconds, where sacct has minutes
    if isinstance(limit_s, int | float) and limit_s < _NO_VALUE:
        fields["timelimitraw"] = str(limit_s / 60.0)
    else:
        fields["timelimitraw"] = ""
    script = document.get("script")
    fields["scripthash"] = (
        hashlib.sha256(script.encode("utf-8", "replace")).hexdigest()
        if isinstance(script, str) and script
        else ""
    )
    return fields


def _job_id(document: Mapping[str, object]) -> str:
    if document.get("array_job_id"):
        return f"{document['array_job_id']}_{document.get('array_task_id', 0)}"
    if document.get("het_job_id"):
        return f"{document['het_job_id']}+{document.get('het_job_offset', 0)}"
    return _text(document["jobid"])


def _text(value: object) -> str:
    return "" if value is None else str(value)

"""This module turns log files into one canonical job table and accounts for every record."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from predictor.data.faults import count_rows
from predictor.data.pseudonyms import Pseudonyms, hide_names
from predictor.data.schema import empty_table
from predictor.data.sources.base import Reader, ReadOptions, ReadResult, unreadable_rows
from predictor.data.sources.logfile import LogFile, open_logs
from predictor.data.sources.pai import PaiReader, is_companion, table_of
from predictor.data.sources.registry import AUTO, find_reader, mapped_reader, recognise
from predictor.data.table import SCHEMA_VERSION, write_parquet, write_table
from predictor.data.validate import validate
from predictor.errors import ArgumentError, EmptyInputError, FormatError, InputError

_OPTIONS = {"delimiter": "--delimiter", "fields": "--fields", "column_map": "--map"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccount:
    """What became of the records of one log.

    ``read == merged + dropped + quarantined + kept`` holds; unreadable records count as quarantined.
    """

    name: str
    format: str
    read: int
    kept: int
    merged: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    unreadable: int = 0
    quarantined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What an ingest did.

    Attributes:
        table: the canonical table written.
        quarantine: the table of refused records, None where there are none.
        files: one account per log, archive members included.
        skipped: members of archives that are no job logs, with the reason.
        sources: SHA-256 of each file that was read, by path.
    """

    table: Path
    quarantine: Path | None
    files: Sequence[FileAccount]
    skipped: Sequence[str]
    sources: Mapping[str, str]

    @property
    def kept(self) -> int:
        """Count of rows in the table."""
        return sum(account.kept for account in self.files)

    @property
    def quarantined(self) -> int:
        """Count of records in the quarantine."""
        return sum(account.quarantined + account.unreadable for account in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    log: LogFile
    reader: Reader
    result: ReadResult


def ingest(
    paths: Sequence[Path],
    out: Path,
    *,
    format_name: str = AUTO,
    options: ReadOptions | None = None,
    names: Pseudonyms | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> IngestReport:
    """Read logs, validate their rows, and write the good ones to ``out``, sorted by time of submission.

    Refused records go to ``OUT.quarantine.parquet`` with their reasons; nothing is lost.

    Args:
        names: put tokens in place of the names of users and accounts; None = keep names. Records that could
            not be read are then refused without their text.
        progress: called with a file's name when it has been read.

    Raises:
        InputError: one or more files cannot be used; the faults of all files are listed.
    """
    if not paths:
        raise EmptyInputError("no file was given; name at least one log")
    if any(path.resolve() == out.resolve() for path in paths):
        raise ArgumentError(f"--out '{out}' is one of the logs; choose another name for the table")
    options = options or ReadOptions()
    reader = None if format_name == AUTO else find_reader(format_name)
    reads, skipped, sources = _read_all(paths, reader, options, progress)
    _refuse_ignored(options, [read.reader for read in reads])
    frame = pd.concat([read.result.frame for read in reads], ignore_index=True)
    if names is not None:
        frame = hide_names(frame, names)
        for read in reads:
            read.result.unreadable["text"] = "not kept, for it may hold names"
    origin = pd.Series(
        [at for at, read in enumerate(reads) for _ in range(len(read.result.frame))], dtype="int64"
    )
    files, clean, refused = _validate(reads, frame, origin)
    write_table(clean, out, _metadata(files, sources))
    quarantine = out.with_name(f"{out.stem}.quarantine.parquet")
    if len(refused):
        write_parquet(refused, quarantine, {"schema_version": SCHEMA_VERSION})
    else:
        quarantine.unlink(missing_ok=True)
    return IngestReport(
        table=out,
        quarantine=quarantine if len(refused) else None,
        files=files,
        skipped=skipped,
        sources=sources,
    )


def _refuse_ignored(options: ReadOptions, used: Sequence[Reader]) -> None:
    """Refuse what is said of the logs that none of their formats takes."""
    given = {
        "delimiter": options.delimiter is not None, "fields": bool(options.fields),
        "column_map": options.column_map is not None,
    }  # fmt: skip
    formats = ", ".join(sorted({reader.name for reader in used}))
    faults = [
        f"{_OPTIONS[name]}: no log is of a format that takes it (found: {formats}); leave it out"
        for name, is_given in given.items()
        if is_given and not any(name in reader.takes for reader in used)
    ]
    if faults:
        raise ArgumentError("options would change nothing; nothing was written", faults=faults)


def _read_all(
    paths: Sequence[Path], reader: Reader | None, options: ReadOptions, progress: Callable[[str], None]
) -> tuple[list[_Read], list[str], dict[str, str]]:
    opened: list[list[LogFile]] = []
    faults: list[InputError] = []
    sources: dict[str, str] = {}
    for path in paths:
        try:
            opened.append(open_logs(path))
            sources[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        except InputError as error:
            faults.append(error)
    if options.column_map is None:
        options = replace(options, companions=_companions(opened, reader))
    reads: list[_Read] = []
    skipped: list[str] = []
    for logs in opened:
        good, bad = _read_logs(logs, reader, options)
        reads += good
        if good and len(logs) > 1:
            skipped += [error.message for error in bad]
        else:
            faults += bad
        progress(logs[0].name.split(":", 1)[0])
    if len(faults) == 1:
        raise faults[0]
    if faults:
        kind = EmptyInputError if all(isinstance(error, EmptyInputError) for error in faults) else FormatError
        told = [str(error) for error in faults]
        raise kind(f"{len(faults)} files cannot be read; nothing was written", faults=told)
    return reads, skipped, sources


def _companions(opened: Sequence[Sequence[LogFile]], reader: Reader | None) -> tuple[LogFile, ...]:
    """Return the tables that belong to another one, if that one is there too."""
    if reader is not None and not isinstance(reader, PaiReader):
        return ()
    logs = [log for logs in opened for log in logs]
    if not any(table_of(log) == "task" for log in logs):
        return ()
    return tuple(log for log in logs if is_companion(log))


def _read_logs(
    logs: Sequence[LogFile], reader: Reader | None, options: ReadOptions
) -> tuple[list[_Read], list[InputError]]:
    good: list[_Read] = []
    bad: list[InputError] = []
    for log in logs:
        try:
            chosen = reader or (recognise if options.column_map is None else mapped_reader)(log)
            if any(log is companion for companion in options.companions):
                result = _joined(log)
            else:
                result = chosen.read(log, options)
            good.append(_Read(log=log, reader=chosen, result=result))
        except InputError as error:
            bad.append(error)
    return good, bad


def _joined(log: LogFile) -> ReadResult:
    """Account for the records of a table that went into the rows of another one."""
    count = sum(1 for line in log.text().split("\n") if line.strip())
    return ReadResult(
        frame=empty_table(), rows_read=count, merged={"joined": count}, unreadable=unreadable_rows([], [], [])
    )


def _validate(
    reads: Sequence[_Read], frame: pd.DataFrame, origin: "pd.Series[int]"
) -> tuple[list[FileAccount], pd.DataFrame, pd.DataFrame]:
    """Validate all files' rows together, since copies of a job may lie in several files."""
    checked = validate(frame)
    files = []
    for at, read in enumerate(reads):
        result = read.result
        mine = (origin == at).to_numpy()
        reasons = Counter(result.unreadable["reason"].str.split(";").explode().dropna().to_list())
        reasons.update(count_rows(checked.faults, mine))
        files.append(
            FileAccount(
                name=read.log.name, format=read.reader.name, read=result.rows_read,
                kept=int(checked.is_clean[mine].sum()), merged=result.merged,
                dropped=dict(Counter(result.dropped) + Counter(count_rows(checked.drops, mine))),
                unreadable=len(result.unreadable), quarantined=int(checked.is_faulty[mine].sum()),
                reasons=dict(reasons),
                notes=dict(Counter(result.notes) + Counter(count_rows(checked.notes, mine))),
            )
        )  # fmt: skip
    clean = checked.clean.sort_values("submitted_at", kind="stable", ignore_index=True)
    return files, clean, _refused(reads, checked.quarantined)


def _refused(reads: Sequence[_Read], quarantined: pd.DataFrame) -> pd.DataFrame:
    """Join the rows that failed validation and the records that could not be read into one table."""
    parts = [quarantined.assign(line=pd.array([None] * len(quarantined), dtype="Int64"))]
    for read in reads:
        lost = read.result.unreadable
        if len(lost):
            empty = empty_table().reindex(lost.index)
            parts.append(
                empty.assign(
                    source=read.reader.name, line=lost["line"].astype("Int64"), fault_codes=lost["reason"],
                    fault_text="the record could not be read: " + lost["text"],
                )
            )  # fmt: skip
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def _metadata(files: Sequence[FileAccount], sources: Mapping[str, str]) -> dict[str, str]:
    totals = {
        "read": sum(account.read for account in files),
        "kept": sum(account.kept for account in files),
        "quarantined": sum(account.quarantined + account.unreadable for account in files),
    }
    return {
        "sources": json.dumps(dict(sources), sort_keys=True),
        "row_counts": json.dumps(totals, sort_keys=True),
    }

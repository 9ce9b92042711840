"""This module adds new logs to the canonical job table; what was added once is not read again."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import pandas as pd

from pipelines.ingest import ingest
from pipelines.outcomes import outcome_table
from pipelines.settings import DataSettings, SourceSettings
from predictor.contracts.job import JobState
from predictor.data.runs import IDENTITY, run_numbers
from predictor.data.schema import conform
from predictor.data.sources.base import ReadOptions
from predictor.data.sources.column_map import read_column_map
from predictor.data.table import read_metadata, read_table, write_table
from predictor.errors import EmptyInputError

_LIVE = (JobState.PENDING.value, JobState.RUNNING.value)
_OUTCOMES = SourceSettings(files=("-",), format="parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was added.

    Attributes:
        new_files: logs that were read, in order.
        quarantined: count of refused records.
        quarantines: tables of those records with their reasons.
        unmatched: patterns of configured sources that no file matches.
    """

    table: Path
    new_files: tuple[str, ...] = ()
    quarantined: int = 0
    quarantines: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()


def collect(settings: DataSettings, *, progress: Callable[[str], None] = lambda _: None) -> Collected:
    """Read all configured logs whose content is new and merge their jobs into the table.

    The table is written once, at the end, whole; without new content it is not touched. It remembers the
    digest of each log, so that rotated or repeated files add nothing.

    Raises:
        EmptyInputError: there is no table and no log to make one of.
        InputError: a log cannot be used; nothing was written.
    """
    known: dict[str, str] = {}
    table: pd.DataFrame | None = None
    if settings.table.exists():
        table = read_table(settings.table)
        known = json.loads(read_metadata(settings.table).get("sources", "{}"))
    unmatched = tuple(
        pattern for source in settings.sources for pattern in source.files
        if _is_pattern(pattern) and not expand([pattern])
    )  # fmt: skip
    seen = set(known.values())
    added: dict[str, str] = {}
    quarantined: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for source, path, is_outcomes in _logs(settings):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest in seen or not path.stat().st_size:
                continue
            progress(path.name)
            log, damaged = path, 0
            if is_outcomes:
                log = Path(folder) / f"{digest}.outcomes.parquet"
                lines = outcome_table(path, log)
                damaged = len(lines.damaged)
                if not lines.rows:
                    continue
            place = settings.table.parent / "quarantine" / f"{path.stem}-{digest[:8]}.parquet"
            part, refused = _read(source, log, Path(folder) / f"{digest}.parquet", place)
            if part is not None:
                table = part if table is None else merge(table, part)
            seen.add(digest)
            added[str(path)] = digest
            if refused:
                quarantined[str(place)] = refused
            if damaged:
                quarantined[f"{path} (lines that are no JSON)"] = damaged
    if table is None:
        raise EmptyInputError(
            f"there is no job table '{settings.table}' and no log to make one of; "
            f"name logs under [[data.sources]], or make the table with 'predictor ingest'",
            faults=[f"no file matches '{pattern}'" for pattern in unmatched],
        )
    if added:
        table = table.sort_values("submitted_at", kind="stable", ignore_index=True)
        write_table(table, settings.table, _metadata(known | added, len(table), quarantined))
    return Collected(
        table=settings.table, new_files=tuple(added), quarantined=sum(quarantined.values()),
        quarantines=tuple(quarantined), unmatched=unmatched,
    )  # fmt: skip


def merge(table: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the rows of a newer part.

    Of two rows for one attempt the newer wins, but a job that is over does not come back to life. Columns
    that the winner leaves open keep what the other row said, as the service knows less than the scheduler.
    """
    both = pd.concat([table, part], ignore_index=True)
    over = (~both["state"].isin(_LIVE)).astype("int8")
    both = both.loc[over.sort_values(kind="stable").index]
    keys = [both[name].fillna("") if name == "cluster" else both[name] for name in IDENTITY]
    keys.append(run_numbers(both).rename("run"))
    repeated = pd.concat(keys, axis=1).duplicated(keep=False)
    if not repeated.any():
        return conform(both)
    joined = both[repeated].groupby([key[repeated] for key in keys], sort=False).last()
    return conform(pd.concat([both[~repeated], joined], ignore_index=True))


def _logs(settings: DataSettings) -> Iterator[tuple[SourceSettings, Path, bool]]:
    for source in settings.sources:
        for path in expand(source.files):
            yield source, path, False
    for path in expand(settings.outcomes):
        yield _OUTCOMES, path, True


def expand(patterns: Sequence[str]) -> list[Path]:
    """Return the files that the patterns name; a plain name that is absent stays, to be told as a fault.

    Raises:
        EmptyInputError: plain names of files that are absent; all are listed.
    """
    found: list[Path] = []
    faults: list[str] = []
    for pattern in patterns:
        if _is_pattern(pattern):
            found += [Path(name) for name in sorted(glob(pattern, recursive=True))]  # noqa: PTH207  (absolute)
        elif Path(pattern).is_file():
            found.append(Path(pattern))
        else:
            faults.append(f"'{pattern}' does not exist")
    if faults:
        raise EmptyInputError("configured logs are absent; correct [data] or use a pattern", faults=faults)
    return [path for path in dict.fromkeys(found) if path.is_file()]


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _read(source: SourceSettings, log: Path, out: Path, quarantine: Path) -> tuple[pd.DataFrame | None, int]:
    options = ReadOptions(
        zone=source.tz,
        column_map=None if source.map is None else read_column_map(source.map),
        cluster=source.cluster,
    )
    report = ingest([log], out, format_name=source.format, options=options)
    if report.quarantine is not None:
        quarantine.parent.mkdir(parents=True, exist_ok=True)
        quarantine.write_bytes(report.quarantine.read_bytes())
    return (read_table(out) if report.kept else None), report.quarantined


def _metadata(sources: Mapping[str, str], kept: int, quarantined: Mapping[str, int]) -> dict[str, str]:
    counts = {"kept": kept, "quarantined": sum(quarantined.values())}
    return {"sources": json.dumps(dict(sources), sort_keys=True), "row_counts": json.dumps(counts)}

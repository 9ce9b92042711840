"""This module reads and writes canonical job tables as Parquet, and gives them an identity."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from predictor.data.schema import JOB_TABLE, ColumnType, conform, seconds
from predictor.errors import ArgumentError, EmptyInputError, FormatError

SCHEMA_VERSION = "1"
_PREFIX = b"predictor."


def read_table(path: Path) -> pd.DataFrame:
    """Read a canonical job table.

    Raises:
        FormatError: the file is absent or no Parquet file.
        EmptyInputError: the table has no rows.
        SchemaError: it is a Parquet file, but not a canonical job table; all faults are listed.
    """
    try:
        frame = pq.read_table(path, partitioning=None).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise FormatError(
            f"cannot read '{path}' as a job table ({str(error).splitlines()[0]}); "
            f"make one with 'predictor ingest LOGS --out {path.stem}.parquet'"
        ) from error
    if not len(frame):
        raise EmptyInputError(f"the job table '{path}' has no rows; ingest logs with at least one good job")
    return conform(frame)


def write_table(frame: pd.DataFrame, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a canonical job table; the file appears at once and whole, or not at all.

    Raises:
        SchemaError: the frame is not a canonical job table.
    """
    write_parquet(conform(frame), path, {"schema_version": SCHEMA_VERSION, **(metadata or {})})


def write_parquet(frame: pd.DataFrame, path: Path, metadata: Mapping[str, str]) -> None:
    """Write any frame as Parquet with key-value metadata, atomically.

    Raises:
        ArgumentError: the place cannot be written to.
    """
    table = pa.table({str(name): _to_arrow(frame[name]) for name in frame.columns})
    extra = {_PREFIX + key.encode(): value.encode() for key, value in metadata.items()}
    table = table.replace_schema_metadata(extra)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            pq.write_table(table, temporary, compression="zstd")
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise ArgumentError(f"cannot write '{path}': {error.strerror}; choose another place") from error


def _to_arrow(values: "pd.Series[Any]") -> pa.Array:
    """Convert a column; times go through UTC without zone, as pyarrow's own way is deprecated by pandas."""
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        naive = values.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[us]")
        return pa.array(naive.to_numpy(), type=pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.array(values, from_pandas=True)


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata that :func:`write_table` put beside the rows."""
    stored = pq.read_schema(path).metadata or {}
    return {
        key.removeprefix(_PREFIX).decode(): value.decode()
        for key, value in stored.items()
        if key.startswith(_PREFIX)
    }


def fingerprint(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a table's content: columns, values and the order of rows; no file metadata.

    Two tables have equal fingerprints if and only if a model trained on one would see the other.
    """
    table = conform(frame)
    digest = hashlib.sha256(SCHEMA_VERSION.encode())
    for column in JOB_TABLE:
        digest.update(column.name.encode())
        values = table[column.name]
        if column.type is ColumnType.TIME:
            values = values.dt.tz_convert(None)
        digest.update(pd.util.hash_pandas_object(values, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def ended_at_s(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Return the end of each attempt in epoch seconds, NaN for those that never ended or still run.

    The recorded end, or else start plus elapsed, or else submission plus elapsed (logs without starts).
    """
    elapsed_s = frame["elapsed_s"].to_numpy(dtype=np.float64)
    end_s = seconds(frame["ended_at"])
    for moment in ("started_at", "submitted_at"):
        end_s = np.where(np.isnan(end_s), seconds(frame[moment]) + elapsed_s, end_s)
    end_s[frame["state"].isin(("PENDING", "RUNNING")).to_numpy()] = np.nan
    return end_s

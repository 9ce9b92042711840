"""This module is the one place that says what the canonical job table holds.

One row is one attempt of one job. Times are UTC, quantities carry their unit in the name. ``known_at``
says at which moment of a job's life a column is known; features may use SUBMIT columns only.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.errors import SchemaError


class KnownAt(StrEnum):
    """The moment of a job's life at which a column's value is known."""

    SUBMIT = "submit"
    START = "start"
    END = "end"


class ColumnType(StrEnum):
    """The four column types of the table, each with one pandas dtype."""

    TEXT = "str"
    NUMBER = "float64"
    TIME = "datetime64[us, UTC]"
    FLAG = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the canonical job table."""

    name: str
    type: ColumnType
    known_at: KnownAt
    meaning: str
    unit: str = ""
    nullable: bool = True
    minimum: float | None = None
    maximum: float | None = None


def _text(name: str, meaning: str, known_at: KnownAt = KnownAt.SUBMIT, *, nullable: bool = True) -> Column:
    return Column(name=name, type=ColumnType.TEXT, known_at=known_at, meaning=meaning, nullable=nullable)


def _number(
    name: str,
    unit: str,
    meaning: str,
    known_at: KnownAt = KnownAt.SUBMIT,
    *,
    minimum: float | None = 0.0,
    maximum: float | None = None,
    nullable: bool = True,
) -> Column:
    return Column(
        name=name, type=ColumnType.NUMBER, known_at=known_at, meaning=meaning, unit=unit,
        nullable=nullable, minimum=minimum, maximum=maximum,
    )  # fmt: skip


def _time(name: str, meaning: str, known_at: KnownAt, *, nullable: bool = True) -> Column:
    return Column(
        name=name, type=ColumnType.TIME, known_at=known_at, meaning=meaning, unit="UTC", nullable=nullable
    )


def _flag(name: str, meaning: str) -> Column:
    return Column(name=name, type=ColumnType.FLAG, known_at=KnownAt.SUBMIT, meaning=meaning)


JOB_TABLE: tuple[Column, ...] = (
    # identity
    _text("job_id", "identifier within the cluster; array tasks as 123_4, parts as 123+0", nullable=False),
    _number("attempt", "count", "0 for the first run of the id, 1 for that after a requeue", nullable=False),
    _text("cluster", "cluster that the job was submitted to"),
    _text("user", "who submitted it (name, number or keyed hash)"),
    _text("account", "account, project, group or team that pays"),
    _text("queue", "partition, queue or virtual cluster"),
    _text("job_name", "name given by the user"),
    _text("submit_line", "command line of the submission"),
    _text("script_hash", "hash of the batch script"),
    _text("work_dir", "working directory"),
    _text("array_job_id", "identifier shared by all tasks of one array"),
    _number("array_task_index", "index", "index of the task in its array"),
    # request
    _number("requested_gpus", "GPUs", "GPUs over all nodes; 0 = a CPU job; fractions allowed"),
    _text("gpu_type", "requested GPU type, lower case, as the site names it"),
    _number("requested_nodes", "nodes", "nodes requested"),
    _number("requested_cpus", "cores", "CPU cores over all nodes"),
    _number("requested_memory_mib", "MiB", "host memory over all nodes"),
    _number("walltime_s", "s", "requested walltime, which the site enforces; missing = unlimited"),
    _text("qos", "quality of service"),
    _text("dependency", "dependency expression"),
    _text("constraints", "requested node features"),
    _text("reservation", "reservation asked for"),
    # workload description
    _text("framework", "pytorch, tensorflow, jax, ..."),
    _text("task", "what is done: benchmark, training type, inference, ..."),
    _text("model_family", "model or model family"),
    _number("parameter_count", "parameters", "model parameters"),
    _text("precision", "numeric precision recipe"),
    _text("optimizer", "optimizer"),
    _number("batch_size", "samples", "global batch size"),
    _number("sequence_length", "tokens", "maximum sequence length"),
    _number("image_size", "pixels", "edge of the input image"),
    _text("parallelism", "parallelism strategy"),
    _flag("gradient_checkpointing", "activation recomputation is on"),
    _number("lora_rank", "rank", "LoRA rank"),
    _number("steps", "steps", "training steps asked for"),
    _number("epochs", "epochs", "epochs asked for"),
    # policy
    _text("workload_class", "emergency, production, experiment, background, or a site's own"),
    _time("deadline_at", "when the result is needed", KnownAt.SUBMIT),
    _flag("preemptible", "may be evicted"),
    _text("checkpoint_kind", "none, application, system"),
    _number("checkpoint_interval_s", "s", "seconds between checkpoints"),
    _text("data_region", "where the input data lies"),
    # life
    _time("submitted_at", "when the attempt entered the queue", KnownAt.SUBMIT, nullable=False),
    _time("eligible_at", "when its dependencies and holds were gone", KnownAt.START),
    _time("started_at", "when it began to run", KnownAt.START),
    _text("node_list", "nodes it ran on", KnownAt.START),
    _number("allocated_nodes", "nodes", "nodes it ran on", KnownAt.START),
    _number("allocated_cpus", "cores", "CPU cores it ran on", KnownAt.START),
    _number("allocated_gpus", "GPUs", "GPUs it ran on", KnownAt.START),
    # outcome
    _time("ended_at", "when it ended; missing while it runs", KnownAt.END),
    _number("elapsed_s", "s", "seconds it ran (for a running job: until the log was written)", KnownAt.END),
    _text("state", "a JobState", KnownAt.END, nullable=False),
    _number("exit_code", "code", "exit status of the batch script", KnownAt.END, minimum=None),
    _number("peak_host_memory_mib", "MiB", "peak resident memory over the steps", KnownAt.END),
    _number("peak_vram_mib", "MiB", "peak GPU memory per GPU", KnownAt.END),
    _number("gpu_utilisation_ratio", "ratio", "mean GPU utilisation", KnownAt.END, maximum=1.0),
    # provenance
    _text("source", "format of the log the row came from", KnownAt.END),
)  # fmt: skip

COLUMNS: dict[str, Column] = {column.name: column for column in JOB_TABLE}
REQUIRED_COLUMNS: tuple[str, ...] = tuple(column.name for column in JOB_TABLE if not column.nullable)


def empty_column(rows: int, kind: ColumnType = ColumnType.TEXT) -> "pd.Series[Any]":
    """Return a column of missing values with the dtype of the schema (which sets the element type)."""
    return pd.Series([None] * rows, dtype=object).astype(kind.value)


def empty_table() -> pd.DataFrame:
    """Return a canonical table without rows."""
    return pd.DataFrame({column.name: empty_column(0, column.type) for column in JOB_TABLE})


def conform(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with all canonical columns, in order and with the dtypes of the schema.

    Missing nullable columns are added as missing values; no value is changed. The rows are numbered anew.

    Raises:
        SchemaError: names every unknown column, every absent required one and every column whose
            values cannot be of the schema's type, all at once.
    """
    faults = [f"unknown column '{name}'" for name in frame.columns if name not in COLUMNS]
    faults += [
        f"required column '{name}' is absent" for name in REQUIRED_COLUMNS if name not in frame.columns
    ]
    series: dict[str, object] = {}
    for column in JOB_TABLE:
        if column.name not in frame.columns:
            series[column.name] = empty_column(len(frame), column.type)
            continue
        try:
            series[column.name] = _as_type(frame[column.name], column.type)
        except (TypeError, ValueError) as error:
            faults.append(f"column '{column.name}' must be {column.type.value}: {error}")
    if faults:
        raise SchemaError(
            f"the table does not conform to the canonical job table ({len(faults)} faults)", faults=faults
        )
    return pd.DataFrame(series)


def _as_type(values: "pd.Series[Any]", kind: ColumnType) -> "pd.Series[Any]":
    values = values.reset_index(drop=True)
    if kind is ColumnType.TIME and values.notna().any() and not pd.api.types.is_datetime64_any_dtype(values):
        raise TypeError(f"its type is {values.dtype}; parse the times first")
    if kind is ColumnType.TIME and pd.api.types.is_datetime64_dtype(values):
        raise TypeError("its times have no zone; localise them first")
    if values.dtype == object or values.notna().any():
        return values.astype(kind.value)
    return empty_column(len(values), kind)


def seconds(times: "pd.Series[pd.Timestamp]") -> npt.NDArray[np.float64]:
    """Return UTC epoch seconds as float64, NaN where the time is missing."""
    micros = times.astype("datetime64[us, UTC]")
    values = micros.astype("int64").to_numpy().astype(np.float64) / 1e6
    values[micros.isna().to_numpy()] = np.nan
    return values

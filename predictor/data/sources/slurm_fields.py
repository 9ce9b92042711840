"""This module parses what Slurm writes: clocks, limits, memory requests, TRES lists and job ids."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from predictor.units import parse_clock_s, parse_size_mib

UNLIMITED = ("Partition_Limit", "UNLIMITED", "INVALID", "NOT_SET", "INFINITE")
NOT_ALLOCATED = ("", "None assigned", "None", "(null)", "Unknown")
_PER_CPU_FLAG = 0x80000000  # older slurmdbd marks memory per CPU with this bit and writes it into ReqMem
_REQUESTED_MEMORY = re.compile(r"(?P<size>\d+(?:\.\d+)?[KMGTP]?)(?P<per>[nc]?)", re.IGNORECASE)


def parse_limit_s(text: str) -> float:
    """Parse a time limit clock into seconds; ``UNLIMITED`` and ``Partition_Limit`` are NaN.

    Raises:
        ArgumentError: the text is no clock.
    """
    return float("nan") if text in UNLIMITED else parse_clock_s(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tres:
    """Trackable resources of rows; NaN where the list does not name the resource.

    Attributes:
        listed: whether there was a list at all; where it is and names no GPU, the job has none.
        gpus: over all nodes; ``gres/gpu`` and ``gres/gpu:type`` tell of the same GPUs and count once.
        gpu_type: lower case, missing where no type is named; several joined by ``+``.
    """

    listed: "pd.Series[bool]"
    cpus: "pd.Series[float]"
    nodes: "pd.Series[float]"
    memory_mib: "pd.Series[float]"
    gpus: "pd.Series[float]"
    gpu_type: "pd.Series[str]"


@dataclass(frozen=True, slots=True)
class _TresRow:
    cpus: float
    nodes: float
    memory_mib: float
    gpus: float
    gpu_type: str | None


def parse_tres(texts: "pd.Series[str]") -> Tres:
    """Parse lists such as ``billing=12,cpu=12,gres/gpu=2,gres/gpu:a100=2,mem=62.50G,node=1``.

    Numeric keys of the database (1 = cpu, 2 = memory in MB, 4 = node) are understood as well; GPUs then
    need the id that the site gave them, see :mod:`predictor.data.sources.slurmdbd`.
    """
    codes, distinct = pd.factorize(texts)
    nothing = _TresRow(np.nan, np.nan, np.nan, np.nan, None)
    rows = [*(_parse_tres_row(str(text)) for text in distinct), nothing]
    chosen = pd.Series(codes)

    def spread(values: list[float]) -> "pd.Series[float]":
        return pd.Series(np.array(values, dtype=np.float64)[codes])

    types = pd.array([row.gpu_type for row in rows], dtype="str")
    return Tres(
        listed=chosen >= 0,
        cpus=spread([row.cpus for row in rows]),
        nodes=spread([row.nodes for row in rows]),
        memory_mib=spread([row.memory_mib for row in rows]),
        gpus=spread([row.gpus for row in rows]),
        gpu_type=pd.Series(types.take(codes)),
    )


def _parse_tres_row(text: str) -> _TresRow:
    values = {"cpu": np.nan, "node": np.nan, "mem": np.nan, "gres/gpu": np.nan}
    typed: dict[str, float] = {}
    for item in text.split(","):
        key, _, value = item.partition("=")
        key = key.strip().lower()
        if key.startswith("gres/gpu:"):
            kind = key.removeprefix("gres/gpu:")
            typed[kind] = typed.get(kind, 0.0) + _number(value)
        elif key == "mem":
            values["mem"] = parse_size_mib(value) if re.match(r"\d", value) else np.nan
        elif key in values:
            values[key] = _number(value)
    gpus = values["gres/gpu"]
    if np.isnan(gpus) and typed:
        gpus = sum(typed.values())
    return _TresRow(values["cpu"], values["node"], values["mem"], gpus, "+".join(sorted(typed)) or None)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def parse_gres_gpus(text: str) -> float:
    """Count the GPUs per node in ``gpu:2``, ``gpu:a100:2`` or ``PER_NODE:gpu:a100:2(S:0)``; 0 for none.

    Examples:
        >>> parse_gres_gpus("PER_NODE:gpu:a100:4(S:0-1),craynetwork:1")
        4.0
    """
    total = 0.0
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = item.strip().removeprefix("PER_NODE:").removeprefix("gres:").replace("/", ":").split(":")
        if parts[0] == "gres":
            parts = parts[1:]
        if parts and parts[0] == "gpu":
            total += float(parts[-1]) if parts[-1].isdigit() else 1.0
    return total


def requested_memory_mib(
    texts: "pd.Series[str]", nodes: "pd.Series[float]", cpus: "pd.Series[float]"
) -> "pd.Series[float]":
    """Parse ReqMem into MiB over all nodes: ``48000Mn`` is per node, ``100Mc`` per CPU, ``16G`` the total.

    Texts that are no memory request give NaN; so do zeros, which ask for the default.
    """
    codes, distinct = pd.factorize(texts)
    sizes, per_node, per_cpu = (np.full(len(distinct) + 1, np.nan) for _ in range(3))
    for at, text in enumerate(distinct):
        match = _REQUESTED_MEMORY.fullmatch(str(text))
        if match is None:
            continue
        size, per = parse_size_mib(match["size"]), match["per"].lower()
        if size >= _PER_CPU_FLAG:
            size, per = size - _PER_CPU_FLAG, "c"
        sizes[at], per_node[at], per_cpu[at] = size, per == "n", per == "c"
    factor = np.where(
        per_node[codes] == 1, nodes.fillna(1.0), np.where(per_cpu[codes] == 1, cpus.fillna(1.0), 1.0)
    )
    total = pd.Series(sizes[codes] * factor)
    return total.where(total > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIds:
    """Job ids taken apart.

    ``123`` is a job, ``123_4`` a task of array 123, ``123_[5-9%2]`` its tasks that are still pending,
    ``123+1`` a part of the heterogeneous job 123; ``.batch``, ``.extern`` and ``.0`` name steps.
    """

    job_id: "pd.Series[str]"
    step: "pd.Series[str]"
    array_job_id: "pd.Series[str]"
    array_task_index: "pd.Series[float]"


def split_ids(ids: "pd.Series[str]") -> JobIds:
    """Take job ids apart; ``step`` is missing for rows that are jobs."""
    dotted = ids.str.contains(".", regex=False).fillna(False)
    pieces = ids[dotted].str.extract(r"^(?P<base>[^.]*)\.(?P<step>.*)$")  # slow: only where needed
    base = pieces["base"].reindex(ids.index).fillna(ids)
    tasks = base[base.str.contains("_", regex=False).fillna(False)]
    array = tasks.str.extract(r"^(?P<job>\d+)_(?:(?P<task>\d+)|\[)").reindex(ids.index)
    return JobIds(
        job_id=base.astype("str"),
        step=pieces["step"].reindex(ids.index).astype("str"),
        array_job_id=array["job"].astype("str"),
        array_task_index=pd.to_numeric(array["task"]).astype("float64"),
    )


def attempts(
    job_id: "pd.Series[str]",
    submitted: "pd.Series[pd.Timestamp]",
    started: "pd.Series[pd.Timestamp]",
    cluster: "pd.Series[str] | None" = None,
) -> "pd.Series[float]":
    """Number the runs of each id in order of start; a run that has not started comes last.

    Rows with equal id and equal times are copies of one run and get one number.
    """
    keys = pd.DataFrame({"id": job_id, "cluster": "" if cluster is None else cluster.fillna("")})
    numbers = pd.Series(0.0, index=job_id.index)
    repeated = keys.duplicated(keep=False) & job_id.notna()
    if not repeated.any():
        return numbers
    some = keys[repeated].copy()
    far = pd.Timestamp("2200-01-01", tz="UTC")
    some["start"], some["submit"] = started[repeated].fillna(far), submitted[repeated].fillna(far)
    runs = some.drop_duplicates().sort_values(["cluster", "id", "start", "submit"])
    runs["attempt"] = runs.groupby(["cluster", "id"]).cumcount().astype("float64")
    numbers[repeated] = some.merge(runs, how="left")["attempt"].to_numpy()
    return numbers

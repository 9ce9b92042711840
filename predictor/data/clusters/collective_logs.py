"""This module reads measured times of collectives: tables of nccl-tests, and CSV of profilers.

Both become one frame: operation, workers, per_node, message_bytes, time_s.
"""

import re
from pathlib import Path

import pandas as pd

from predictor.errors import FormatError

COLUMNS = ("operation", "workers", "per_node", "message_bytes", "time_s")
_OPERATIONS = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "send_recv",
    "sendrecv",
    "alltoall",
)
_PLAIN = {"sendrecv": "send_recv", "alltoall": "all_to_all"}
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+(\d+)")
_MS = 1e-3
_US = 1e-6


def read_collectives(path: Path) -> pd.DataFrame:
    """Read a file of either kind.

    Raises:
        FormatError: it is neither, or holds no measurement.
    """
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            return _profiler_csv(path)
        return parse_nccl_tests(path.read_text(encoding="utf-8"), where=str(path))
    except (OSError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise FormatError(f"'{path}' cannot be read: {error}") from error


def _profiler_csv(path: Path) -> pd.DataFrame:
    """Read the CSV of a collective profiler: ``time_stats.OP.median`` in ms, sizes in bytes."""
    table = pd.read_csv(path)
    needed = {"collective", "num_workers", "devices_per_node", "size"}
    missing = sorted(needed - set(table.columns))
    if missing:
        raise FormatError(f"'{path}' lacks the columns {', '.join(missing)}; give times of collectives")
    parts = []
    for operation, rows in table.groupby("collective"):
        time = f"time_stats.{operation}.median"
        if time not in rows:
            raise FormatError(f"'{path}' lacks the column {time}")
        parts.append(pd.DataFrame({
            "operation": str(operation), "workers": rows["num_workers"],
            "per_node": rows["devices_per_node"], "message_bytes": rows["size"].astype(float),
            "time_s": rows[time].astype(float) * _MS,
        }))  # fmt: skip
    found = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
    return found[found["time_s"] > 0].reset_index(drop=True)


def parse_nccl_tests(text: str, *, where: str = "output") -> pd.DataFrame:
    """Return the out-of-place times of the output of an ``*_perf`` program of nccl-tests.

    Args:
        where: names the text in errors.

    Raises:
        FormatError: it has no line of results, or a damaged one.
    """
    ranks = _RANK.findall(text)
    workers, hosts = len(ranks), {host for _, host, _ in ranks}
    lines = [line.split() for line in text.splitlines()]
    heads = [fields[1:] for fields in lines if fields[:2] == ["#", "size"]]
    if not heads or not {"time", "algbw", "busbw"} <= set(heads[0]) or workers < 2:
        raise FormatError(
            f"{where} has {len(heads)} tables and {workers} ranks; pass the whole output of a program of "
            "nccl-tests on two GPUs or more, such as all_reduce_perf"
        )
    columns = heads[0]
    numbers = [columns.index(name) for name in ("size", "time", "algbw", "busbw")]
    results = [fields for fields in lines if len(fields) >= len(columns) and fields[0].isdigit()]
    try:
        table = [[float(fields[at]) for at in numbers] for fields in results]
    except ValueError as error:
        raise FormatError(f"{where} has a damaged line of results: {error}") from error
    rows = [(size, time * _US) for size, time, _, _ in table if time > 0]
    if not rows:
        raise FormatError(f"{where} has no line of results")
    lowered = text.lower()
    operation = next((name for name in _OPERATIONS if f"{name}_perf" in lowered), None)
    if operation is None:
        _, _, algorithm, bus = max(table)
        reduces = "redop" in columns and results[0][columns.index("redop")] != "none"
        operation = _told_by_factor(bus / max(algorithm, 1e-9), workers, reduces=reduces)
    return pd.DataFrame({
        "operation": _PLAIN.get(operation, operation), "workers": workers,
        "per_node": max(1, workers // len(hosts)),
        "message_bytes": [size for size, _ in rows], "time_s": [time for _, time in rows],
    })  # fmt: skip


def _told_by_factor(factor: float, workers: int, *, reduces: bool) -> str:
    """Return the operation of an output that does not name it, by what bus bandwidth is of the other.

    It is 2 (K-1)/K for an all-reduce, and (K-1)/K for its halves and the all-to-all.
    """
    share = (workers - 1) / workers
    if reduces:
        return "all_reduce" if factor > 1.5 * share else "reduce_scatter"
    return "all_gather" if factor < (1.0 + share) / 2.0 else "send_recv"

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
        FormatError: it names no operation, or has no line of results.
    """
    lowered = text.lower()
    operation = next((name for name in _OPERATIONS if f"{name}_perf" in lowered), None)
    if operation is None:
        raise FormatError(
            f"{where} names no program of nccl-tests, such as all_reduce_perf; keep its first lines"
        )
    ranks = _RANK.findall(text)
    hosts = {host for _, host, _ in ranks}
    workers = len(ranks)
    rows = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].isdigit():
            continue
        # size count type redop [root] time algbw busbw #wrong ...: the time is the first decimal number
        times = [float(field) for field in fields[4:] if re.fullmatch(r"\d+(\.\d+)?", field) and "." in field]
        if times and times[0] > 0:
            rows.append((float(fields[0]), times[0] * _US))
    if not rows or workers < 2:
        raise FormatError(f"{where} has {len(rows)} results for {workers} ranks; needed are both")
    return pd.DataFrame({
        "operation": _PLAIN.get(operation, operation), "workers": workers,
        "per_node": max(1, workers // len(hosts)),
        "message_bytes": [size for size, _ in rows], "time_s": [time for _, time in rows],
    })  # fmt: skip

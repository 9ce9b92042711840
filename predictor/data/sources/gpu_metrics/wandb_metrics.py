"""This module reads exports of Weights & Biases' system metrics."""

import re

import pandas as pd

from predictor.data.sources.gpu_metrics.samples import MIB, MetricOptions, MetricRead, finish
from predictor.data.sources.gpu_metrics.tabular import read_csv, read_lines
from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError

_BYTES = re.compile(
    r"(?:system\.)?gpu\.(?P<process>process\.)?(?P<gpu>\d+)\.memoryallocatedbytes", re.IGNORECASE
)
_PERCENT = re.compile(r"(?:system\.)?gpu\.(?:process\.)?\d+\.memoryallocated", re.IGNORECASE)


class WandbMetrics:
    """Rows of ``_timestamp`` and ``system.gpu.0.memoryAllocatedBytes``, as CSV or one JSON object per line.

    The bytes are those that the driver sees, whatever the name says. Percentages are of no use without the
    size of the card; values of the process are used where those of the card are absent.
    """

    name = "wandb"

    def recognises(self, log: LogFile) -> bool:
        """Whether its name of GPU memory stands in it."""
        return bool(re.search(r"gpu\.(process\.)?\d+\.memoryAllocated", log.head(), re.IGNORECASE))

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all samples.

        Raises:
            FormatError: there are no times, or only percentages.
        """
        bad = 0
        if log.head(64).lstrip().startswith(("{", "[")):
            rows, bad = read_lines(log)
            table = pd.DataFrame(rows, dtype=object)
            table.columns = [str(name).lower() for name in table.columns]
        else:
            table = read_csv(log)
        time = next((name for name in ("_timestamp", "timestamp") if name in table), None)
        columns = {name: found for name in table.columns if (found := _BYTES.fullmatch(name))}
        if time is None or not columns:
            raise FormatError(
                f"'{log.name}' needs _timestamp and gpu.N.memoryAllocatedBytes; percentages of an "
                "unknown card say nothing"
            )
        cards = {found["gpu"] for found in columns.values() if not found["process"]}
        moments = pd.to_numeric(table[time], errors="coerce")
        frames, left = [], 0
        for name, found in columns.items():
            values = pd.to_numeric(table[name], errors="coerce")
            present = values.notna()
            if found["process"] and found["gpu"] in cards:
                left += int(present.sum())
                continue
            frames.append(pd.DataFrame({"moment_s": moments[present], "used_mib": values[present] / MIB,
                                        "gpu": found["gpu"]}))  # fmt: skip
        percentages = [name for name in table.columns if _PERCENT.fullmatch(name)]
        dropped = {"process-of-known-card": left, "line-unreadable": bad,
                   "percentage": int(table[percentages].notna().sum().sum())}  # fmt: skip
        return finish(pd.concat(frames), log, options,
                      dropped={reason: count for reason, count in dropped.items() if count})  # fmt: skip

"""This module reads exports of MLflow's system metrics."""

import pandas as pd

from predictor.data.sources.gpu_metrics.samples import MIB, MetricOptions, MetricRead, finish
from predictor.data.sources.gpu_metrics.tabular import header_of, read_csv, read_lines
from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError

_KEY = r"(?:system/)?(?:(?P<host>[^/]+)/)?gpu_(?P<gpu>\d+)_memory_usage_megabytes"


class MlflowMetrics:
    """Histories of ``system/gpu_0_memory_usage_megabytes``: rows of key, value, timestamp and run.

    The values are MB (1e6 bytes), averaged over the sampling window: peaks are under-estimated, which
    the note ``averaged-over-window`` counts.
    """

    name = "mlflow"

    def recognises(self, log: LogFile) -> bool:
        """Whether MLflow's name of GPU memory stands in it."""
        return "_memory_usage_megabytes" in log.head()

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all samples of a CSV or JSON export.

        Raises:
            FormatError: key, value or timestamp are absent.
        """
        bad = 0
        if {"key", "value", "timestamp"} <= set(header_of(log)):
            table = read_csv(log)
        else:
            rows, bad = read_lines(log)
            table = pd.DataFrame(rows, dtype=object).astype("str") if rows else pd.DataFrame()
            if not {"key", "value", "timestamp"} <= set(table.columns):
                raise FormatError(f"'{log.name}' needs key, value and timestamp; export get_metric_history")
        parts = table["key"].str.extract(f"^{_KEY}$")
        ours = parts["gpu"].notna()
        table, parts = table[ours], parts[ours]
        moments = pd.to_numeric(table["timestamp"], errors="coerce")
        empty = pd.Series("", index=table.index, dtype="str")
        host = table["host"] if "host" in table else parts["host"].fillna("")
        job = next((table[name] for name in ("job_id", "slurm_job_id") if name in table), empty)
        frame = pd.DataFrame({
            "moment_s": moments / 1e3, "used_mib": pd.to_numeric(table["value"], errors="coerce") * 1e6 / MIB,
            "gpu": parts["gpu"], "host": host, "job_id": job,
        })  # fmt: skip
        dropped = {"other-metric": int((~ours).sum()), "line-unreadable": bad}
        return finish(
            frame, log, options, dropped={reason: count for reason, count in dropped.items() if count},
            notes={"averaged-over-window": len(frame)},
        )  # fmt: skip

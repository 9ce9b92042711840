"""This module reads logs of ``nvidia-smi --query-gpu=... --format=csv [-l SECONDS]``."""

import pandas as pd

from predictor.data.sources.gpu_metrics.samples import MetricOptions, MetricRead, finish
from predictor.data.sources.gpu_metrics.tabular import header_of, read_csv
from predictor.data.sources.gpu_metrics.units import column_mib, column_moments
from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError


class NvidiaSmi:
    """``timestamp``, ``memory.used``, and ``index`` or ``uuid`` are needed; ``mig.mode.current`` is used."""

    name = "nvidia-smi"

    def recognises(self, log: LogFile) -> bool:
        """Whether the first line has nvidia-smi's name of used memory."""
        names = header_of(log)
        return any(name.startswith("memory.used") for name in names) and "timestamp" in names

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all samples; memory carries its unit in the value or in the header, or is MiB.

        Raises:
            FormatError: a needed column is absent.
        """
        table = read_csv(log)
        memory = next((name for name in table.columns if name.startswith("memory.used")), None)
        index = next((name for name in ("index", "gpu_index") if name in table), None)
        needed = {"timestamp": "timestamp" in table, "memory.used": memory is not None,
                  "index or uuid": index is not None or "uuid" in table}  # fmt: skip
        missing = [name for name, found in needed.items() if not found]
        if missing or memory is None:
            raise FormatError(
                f"'{log.name}' lacks {', '.join(missing)}; write it with "
                "nvidia-smi --query-gpu=timestamp,index,uuid,memory.used --format=csv -l 10"
            )
        headers = (table["timestamp"].str.lower() == "timestamp").to_numpy()  # logs that were appended to
        table = table[~headers]
        empty = pd.Series("", index=table.index, dtype="str")
        frame = pd.DataFrame({
            "moment_s": column_moments(table["timestamp"], options.zone),
            "used_mib": column_mib(table[memory], bare="b" if "[b]" in memory else "mib"),
            "gpu": table[index] if index else empty, "uuid": table.get("uuid", empty),
            "host": table.get("hostname", table.get("host", empty)),
            "shared": table.get("mig.mode.current", empty).str.lower().eq("enabled").to_numpy(),
        })  # fmt: skip
        return finish(
            frame, log, options, dropped={"header-line": int(headers.sum())} if headers.any() else {}
        )

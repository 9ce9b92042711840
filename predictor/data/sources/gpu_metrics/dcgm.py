"""This module reads DCGM: tables of its fields, and what its exporter shows."""

import re

import pandas as pd

from predictor.data.sources.gpu_metrics.samples import MetricOptions, MetricRead, finish
from predictor.data.sources.gpu_metrics.tabular import header_of, read_csv
from predictor.data.sources.gpu_metrics.units import column_mib, column_moments
from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError

FIELD = "DCGM_FI_DEV_FB_USED"
_LINE = re.compile(rf"{FIELD}\{{(?P<labels>[^}}]*)\}}\s+(?P<value>\S+)(?:\s+(?P<moment>\d+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIMES = ("timestamp", "time", "ts", "moment_s")
_HOSTS = ("hostname", "host", "node", "instance")


class Dcgm:
    """Columns ``timestamp``, ``Hostname``, ``gpu``, ``UUID`` and the field; or ``metric`` and ``value``."""

    name = "dcgm"

    def recognises(self, log: LogFile) -> bool:
        """Whether DCGM's name of used memory stands in a header or in a line of the exporter."""
        head = log.head()
        return FIELD in head and not head.lstrip().startswith(("{", "["))

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all samples; the field counts MiB.

        Raises:
            FormatError: there is no such field, or a table of it without times.
        """
        if _LINE.search(log.head()) and FIELD.lower() not in header_of(log):
            return self._read_exposition(log, options)
        table = read_csv(log)
        time = next((name for name in _TIMES if name in table), None)
        value = FIELD.lower() if FIELD.lower() in table else "value" if "value" in table else None
        if time is None or value is None:
            raise FormatError(f"'{log.name}' has no column {FIELD} with a timestamp; export both")
        others = 0
        metric = next((name for name in ("metric", "__name__", "field") if name in table), None)
        if value == "value" and metric is not None:
            kept = table[metric].str.upper() == FIELD
            others = int((~kept).sum())
            table = table[kept]
        empty = pd.Series("", index=table.index, dtype="str")
        host = next((table[name] for name in _HOSTS if name in table), empty)
        slices = next((table[name] for name in ("gpu_i_id", "gpu_i_profile") if name in table), empty)
        frame = pd.DataFrame({
            "moment_s": column_moments(table[time], options.zone), "used_mib": column_mib(table[value]),
            "host": host.map(host_of), "gpu": table.get("gpu", empty), "uuid": table.get("uuid", empty),
            "shared": slices.str.strip().ne("").to_numpy(), "job_id": table.get("hpc_job", empty),
        })  # fmt: skip
        return finish(frame, log, options, dropped={"other-metric": others} if others else {})

    def _read_exposition(self, log: LogFile, options: MetricOptions) -> MetricRead:
        rows = []
        for found in _LINE.finditer(log.text()):
            labels = dict(_LABEL.findall(found["labels"]))
            moment = float(found["moment"]) / 1e3 if found["moment"] else float("nan")
            rows.append({**from_labels(labels), "moment_s": moment, "used_mib": found["value"]})
        return finish(pd.DataFrame(rows), log, options)


def from_labels(labels: dict[str, str]) -> dict[str, object]:
    """Return what the labels of a series say about where it was measured."""
    low = {name.lower(): value for name, value in labels.items()}
    return {
        "host": host_of(next((low[name] for name in _HOSTS if low.get(name)), "")),
        "gpu": low.get("gpu", low.get("gpu_id", low.get("minor_number", ""))), "uuid": low.get("uuid", ""),
        "job_id": low.get("hpc_job", ""), "shared": bool(low.get("gpu_i_id") or low.get("gpu_i_profile")),
    }  # fmt: skip


def host_of(name: str) -> str:
    """Return a host without the port that a scrape target carries."""
    return re.sub(r":\d+$", "", str(name).strip())

"""This module reads answers of Prometheus to range queries on GPU memory."""

import json

import numpy as np
import pandas as pd

from predictor.data.sources.gpu_metrics.dcgm import FIELD, from_labels
from predictor.data.sources.gpu_metrics.samples import MIB, MetricOptions, MetricRead, finish
from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError

# series -> MiB per unit
_SERIES = {FIELD: 1.0, "nvidia_smi_memory_used_bytes": 1.0 / MIB, "nvidia_gpu_memory_used_bytes": 1.0 / MIB,
           "DCGM_FI_DEV_FB_USED_BYTES": 1.0 / MIB, "amd_gpu_used_vram": 1.0}  # fmt: skip


class Prometheus:
    """JSON of ``/api/v1/query_range``: a matrix, each series with its labels."""

    name = "prometheus"

    def recognises(self, log: LogFile) -> bool:
        """Whether it looks like an answer of the query interface."""
        head = log.head(4096)
        return head.lstrip().startswith("{") and '"resultType"' in head

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all samples; series without a name are taken to be DCGM's (MiB), unknown ones are counted.

        Raises:
            FormatError: it is no successful answer with a matrix.
        """
        try:
            answer = json.loads(log.text())
            data = answer["data"]
            kind, result = data["resultType"], data["result"]
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"'{log.name}' is no answer of Prometheus; save that of query_range") from error
        if kind != "matrix" or not isinstance(result, list):
            raise FormatError(f"'{log.name}' holds a {kind}, not a matrix; use query_range, not query")
        frames, unknown = [], 0
        for series in result:
            labels = dict(series.get("metric", {}))
            values = series.get("values", [])
            name = labels.get("__name__", FIELD)
            if name not in _SERIES:
                unknown += len(values)
                continue
            pairs = np.array([(float(moment), _number(value)) for moment, value in values], dtype=np.float64)
            pairs = pairs.reshape(-1, 2)
            where = {label: [text] * len(pairs) for label, text in from_labels(labels).items()}
            frames.append(
                pd.DataFrame({"moment_s": pairs[:, 0], "used_mib": pairs[:, 1] * _SERIES[name], **where})
            )
        whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"used_mib": []})
        return finish(whole, log, options, dropped={"other-metric": unknown} if unknown else {})


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return float("nan")

"""This module knows all formats of GPU metrics and finds the one of a log."""

from collections.abc import Sequence

from predictor.data.sources.gpu_metrics.dcgm import Dcgm
from predictor.data.sources.gpu_metrics.mlflow_metrics import MlflowMetrics
from predictor.data.sources.gpu_metrics.nvidia_smi import NvidiaSmi
from predictor.data.sources.gpu_metrics.prometheus import Prometheus
from predictor.data.sources.gpu_metrics.samples import MetricOptions, MetricRead, MetricReader
from predictor.data.sources.gpu_metrics.torch_logs import TorchLog
from predictor.data.sources.gpu_metrics.wandb_metrics import WandbMetrics
from predictor.data.sources.logfile import LogFile
from predictor.errors import ArgumentError, FormatError

AUTO = "auto"


def metric_readers() -> dict[str, MetricReader]:
    """Return the readers by name, in the order in which they are tried; the loosest comes last."""
    readers: Sequence[MetricReader] = (
        Prometheus(), NvidiaSmi(), MlflowMetrics(), WandbMetrics(), Dcgm(), TorchLog()
    )  # fmt: skip
    return {reader.name: reader for reader in readers}


def read_metrics(log: LogFile, format_name: str, options: MetricOptions) -> tuple[str, MetricRead]:
    """Read one log in the named format or in the one that its content shows; return the name as well.

    Raises:
        ArgumentError: there is no such format.
        FormatError: the content is of none, or not of the named one.
    """
    readers = metric_readers()
    if format_name != AUTO and format_name not in readers:
        raise ArgumentError(f"format '{format_name}' is unknown; known: {AUTO}, {', '.join(readers)}")
    for name, reader in readers.items():
        if name == format_name or (format_name == AUTO and reader.recognises(log)):
            return name, reader.read(log, options)
    raise FormatError(
        f"'{log.name}' is in no known format of GPU metrics; known: {', '.join(readers)} (pass --format)"
    )

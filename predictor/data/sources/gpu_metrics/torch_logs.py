"""This module reads what training programs log about their memory, and their out-of-memory messages."""

import math
import re

import pandas as pd

from predictor.data.sources.gpu_metrics.oom_messages import find_out_of_memory
from predictor.data.sources.gpu_metrics.samples import MetricOptions, MetricRead, SampleKind, finish, job_of
from predictor.data.sources.gpu_metrics.units import to_mib
from predictor.data.sources.logfile import LogFile
from predictor.errors import FormatError

_SIZE = r"[\s:=()'\"]*(?P<size>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*(?:[KMGT]i?B|bytes|[MG](?![A-Za-z]))?)"
_PEAKS = (
    (SampleKind.ALLOCATED, re.compile(rf"max_memory_allocated{_SIZE}"), "b"),
    (SampleKind.RESERVED, re.compile(rf"max_memory_(?:reserved|cached){_SIZE}"), "b"),
    (SampleKind.ALLOCATED, re.compile(rf"peak_mem(?:ory)?_alloc(?:ated)?{_SIZE}"), "b"),
    (SampleKind.ALLOCATED, re.compile(rf"\bmax[ _]mem{_SIZE}"), "mib"),  # detectron and its kin
)
# rows of torch.cuda.memory_summary(): metric | current | peak | total allocated | total freed
_ROW = re.compile(r"\|\s*(Allocated memory|GPU reserved memory)\s*\|[^|]*\|\s*([\d.]+\s*[KMGT]?i?B)\s*\|")
_ROWS = {"Allocated memory": SampleKind.ALLOCATED, "GPU reserved memory": SampleKind.RESERVED}
_DEVICE = re.compile(r"memory summary, device ID (\d+)|\b(?:cuda|gpu|rank)[:\s=](\d+)", re.IGNORECASE)


class TorchLog:
    """Logs of jobs: ``max_memory_allocated``, memory summaries and out-of-memory messages.

    The job is taken from ``--job-id`` or from a file name such as ``slurm-123.out``.
    """

    name = "torch"

    def recognises(self, log: LogFile) -> bool:
        """Whether a phrase of one of these stands in the first part of it."""
        head = log.head(1 << 20)
        return bool(
            any(pattern.search(head) for _, pattern, _ in _PEAKS)
            or _ROW.search(head)
            or find_out_of_memory(head)
        )

    def read(self, log: LogFile, options: MetricOptions) -> MetricRead:
        """Read all peaks and messages.

        Raises:
            FormatError: there are none.
        """
        text = log.text()
        rows: list[dict[str, object]] = []
        device = ""
        for line in text.splitlines():
            if named := _DEVICE.search(line):
                device = named[1] or named[2]
            for kind, pattern, bare in _PEAKS:
                if found := pattern.search(line):
                    size = to_mib(found["size"], bare=bare)
                    rows.append({"used_mib": size, "kind": str(kind), "gpu": device if named else ""})
                    break
            if found := _ROW.search(line):
                rows.append({"used_mib": to_mib(found[2]), "kind": str(_ROWS[found[1]]), "gpu": device})
        messages = find_out_of_memory(text)
        if not rows and not messages:
            raise FormatError(f"'{log.name}' says nothing about GPU memory")
        frame = pd.DataFrame(rows, columns=["used_mib", "kind", "gpu"])
        result = finish(frame, log, options, timed=False, notes={"out-of-memory": len(messages)})
        job = job_of(log, options)
        known = [one for one in messages if not math.isnan(one.lower_bound_mib)]
        bounds = pd.DataFrame(
            [(job, options.host, one.gpu, one.lower_bound_mib) for one in known],
            columns=["job_id", "host", "gpu", "lower_bound_mib"],
        )
        return MetricRead(samples=result.samples, read=result.read, dropped=result.dropped,
                          notes=result.notes, lower_bounds=bounds)  # fmt: skip

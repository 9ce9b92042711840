"""This module lifts what is known at submission out of the job table, as plain columns.

Training reads them from the canonical frame, serving from the jobs of a request body; everything behind
this point is the same code.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.request import JobRequest
from predictor.data.schema import seconds
from predictor.features.names import name_group

FloatArray = npt.NDArray[np.float64]
TextArray = npt.NDArray[np.object_]
Row = tuple[str | float | None, ...]

TEXTS: tuple[str, ...] = ("cluster", "identity", "account", "queue", "qos", "gpu_type", "name")
NUMBERS: tuple[str, ...] = (
    "submitted_s", "gpus", "nodes", "cpus", "memory_mib", "walltime_s",
    "array_index", "has_array", "has_dependency",
)  # fmt: skip
KEY_NUMBERS = 6  # no key looks at the others
_SUBMITTED, _GPUS, _WALLTIME = (NUMBERS.index(name) for name in ("submitted_s", "gpus", "walltime_s"))
_IDENTITY = TEXTS.index("identity")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """Requests of n jobs as columns; texts are None and numbers NaN where nothing is known.

    Attributes:
        texts: shape (len(TEXTS), n). ``identity`` is who submitted: the user, else the account, else the
            queue; ``name`` is the job name reduced to its group (see ``name_group``).
        numbers: shape (len(NUMBERS), n). ``submitted_s`` is in UTC epoch seconds; ``has_array`` is 1 for a
            task of an array, ``has_dependency`` 1 for a job that waits for others.
        rows: what keys are made of, job by job, None where nothing is known: TEXTS, then the first
            KEY_NUMBERS of NUMBERS. Only where jobs came one by one, to spare the way back from columns.
    """

    texts: TextArray
    numbers: FloatArray
    rows: Sequence[Row] | None = None

    def __len__(self) -> int:
        return int(self.numbers.shape[1])

    def text(self, name: str) -> TextArray:
        """Return one of TEXTS, shape (n,)."""
        return np.asarray(self.texts[TEXTS.index(name)])

    def number(self, name: str) -> FloatArray:
        """Return one of NUMBERS, shape (n,)."""
        return np.asarray(self.numbers[NUMBERS.index(name)])

    @property
    def submitted_s(self) -> FloatArray:
        """UTC epoch seconds, shape (n,)."""
        found: FloatArray = self.numbers[_SUBMITTED]
        return found

    @property
    def gpus(self) -> FloatArray:
        """Requested GPUs, shape (n,)."""
        found: FloatArray = self.numbers[_GPUS]
        return found

    @property
    def walltime_s(self) -> FloatArray:
        """Requested limit in seconds, shape (n,)."""
        found: FloatArray = self.numbers[_WALLTIME]
        return found

    @property
    def identity(self) -> TextArray:
        """Who submitted, shape (n,)."""
        found: TextArray = self.texts[_IDENTITY]
        return found


def _text(frame: pd.DataFrame, name: str) -> TextArray:
    column = frame[name]
    values = column.to_numpy(dtype=object, copy=True)
    values[column.isna().to_numpy()] = None
    return values


def _number(frame: pd.DataFrame, name: str) -> FloatArray:
    return frame[name].to_numpy(dtype=np.float64)


def _first_known(*columns: TextArray) -> TextArray:
    result = columns[0].copy()
    for column in columns[1:]:
        missing = pd.isna(result)
        result[missing] = column[missing]
    return result


def _grouped(names: TextArray) -> TextArray:
    codes, uniques = pd.factorize(names)
    groups = np.array([*(name_group(str(name)) for name in uniques), None], dtype=object)
    return groups[codes]


def request_columns(frame: pd.DataFrame) -> RequestColumns:
    """Return the request columns of a canonical job table, shape (n,) each."""
    user, account, queue = _text(frame, "user"), _text(frame, "account"), _text(frame, "queue")
    texts = {
        "cluster": _text(frame, "cluster"),
        "identity": _first_known(user, account, queue),
        "account": account,
        "queue": queue,
        "qos": _text(frame, "qos"),
        "gpu_type": _text(frame, "gpu_type"),
        "name": _grouped(_text(frame, "job_name")),
    }
    numbers = {
        "submitted_s": seconds(frame["submitted_at"]),
        "gpus": _number(frame, "requested_gpus"),
        "nodes": _number(frame, "requested_nodes"),
        "cpus": _number(frame, "requested_cpus"),
        "memory_mib": _number(frame, "requested_memory_mib"),
        "walltime_s": _number(frame, "walltime_s"),
        "array_index": _number(frame, "array_task_index"),
        "has_array": frame["array_job_id"].notna().to_numpy(dtype=np.float64),
        "has_dependency": frame["dependency"].notna().to_numpy(dtype=np.float64),
    }
    return RequestColumns(
        texts=np.stack([texts[name] for name in TEXTS]), numbers=np.stack([numbers[name] for name in NUMBERS])
    )


def columns_of_requests(jobs: Sequence[JobRequest]) -> RequestColumns:
    """Return the request columns of jobs that came one by one; the online twin of ``request_columns``."""
    rows: list[Row] = [
        (
            job.cluster, job.user or job.account or job.queue, job.account, job.queue, job.qos, job.gpu_type,
            None if job.job_name is None else name_group(job.job_name),
            job.submitted_s, _known(job.requested_gpus), _known(job.requested_nodes),
            _known(job.requested_cpus), _known(job.requested_memory_mib), _known(job.walltime_s),
        )
        for job in jobs
    ]  # fmt: skip
    numbers = [
        (
            *row[len(TEXTS) :],
            job.array_task_index, job.array_job_id is not None, job.dependency is not None,
        )
        for row, job in zip(rows, jobs, strict=True)
    ]  # fmt: skip
    return RequestColumns(
        texts=np.array(rows, dtype=object).reshape(len(jobs), len(TEXTS) + KEY_NUMBERS)[:, : len(TEXTS)].T,
        # None becomes NaN
        numbers=np.array(numbers, dtype=np.float64).reshape(len(jobs), len(NUMBERS)).T.copy(order="C"),
        rows=rows,
    )


def _known(value: float | None) -> float | None:
    return value if value == value else None  # noqa: PLR0124  # NaN

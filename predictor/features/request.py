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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """Requests of n jobs as columns; texts are None and numbers NaN where nothing is known.

    Attributes:
        submitted_s: shape (n,), UTC epoch seconds.
        identity: who submitted: the user, else the account, else the queue.
        name: job name reduced to its group (see ``name_group``).
        has_array: whether the job is a task of an array.
        has_dependency: whether the job waits for others.
    """

    submitted_s: FloatArray
    cluster: TextArray
    identity: TextArray
    account: TextArray
    queue: TextArray
    qos: TextArray
    gpu_type: TextArray
    name: TextArray
    gpus: FloatArray
    nodes: FloatArray
    cpus: FloatArray
    memory_mib: FloatArray
    walltime_s: FloatArray
    array_index: FloatArray
    has_array: npt.NDArray[np.bool_]
    has_dependency: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.submitted_s)


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
        missing = np.equal(result, None)
        result[missing] = column[missing]
    return result


def _grouped(names: TextArray) -> TextArray:
    codes, uniques = pd.factorize(names)
    groups = np.array([*(name_group(str(name)) for name in uniques), None], dtype=object)
    return groups[codes]


def request_columns(frame: pd.DataFrame) -> RequestColumns:
    """Return the request columns of a canonical job table, shape (n,) each."""
    user, account, queue = _text(frame, "user"), _text(frame, "account"), _text(frame, "queue")
    return RequestColumns(
        submitted_s=seconds(frame["submitted_at"]),
        cluster=_text(frame, "cluster"),
        identity=_first_known(user, account, queue),
        account=account,
        queue=queue,
        qos=_text(frame, "qos"),
        gpu_type=_text(frame, "gpu_type"),
        name=_grouped(_text(frame, "job_name")),
        gpus=_number(frame, "requested_gpus"),
        nodes=_number(frame, "requested_nodes"),
        cpus=_number(frame, "requested_cpus"),
        memory_mib=_number(frame, "requested_memory_mib"),
        walltime_s=_number(frame, "walltime_s"),
        array_index=_number(frame, "array_task_index"),
        has_array=frame["array_job_id"].notna().to_numpy(dtype=bool),
        has_dependency=frame["dependency"].notna().to_numpy(dtype=bool),
    )


def _numbers(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _texts(values: Sequence[str | None]) -> TextArray:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def columns_of_requests(jobs: Sequence[JobRequest]) -> RequestColumns:
    """Return the request columns of jobs that came one by one; the online twin of ``request_columns``."""
    return RequestColumns(
        submitted_s=np.array([job.submitted_s for job in jobs], dtype=np.float64),
        cluster=_texts([job.cluster for job in jobs]),
        identity=_texts([job.user or job.account or job.queue for job in jobs]),
        account=_texts([job.account for job in jobs]),
        queue=_texts([job.queue for job in jobs]),
        qos=_texts([job.qos for job in jobs]),
        gpu_type=_texts([job.gpu_type for job in jobs]),
        name=_texts([None if job.job_name is None else name_group(job.job_name) for job in jobs]),
        gpus=_numbers([job.requested_gpus for job in jobs]),
        nodes=_numbers([job.requested_nodes for job in jobs]),
        cpus=_numbers([job.requested_cpus for job in jobs]),
        memory_mib=_numbers([job.requested_memory_mib for job in jobs]),
        walltime_s=_numbers([job.walltime_s for job in jobs]),
        array_index=_numbers([job.array_task_index for job in jobs]),
        has_array=np.array([job.array_job_id is not None for job in jobs], dtype=bool),
        has_dependency=np.array([job.dependency is not None for job in jobs], dtype=bool),
    )

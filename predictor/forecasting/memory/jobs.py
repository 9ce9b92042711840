"""This module makes memory requests and observations of jobs, from submissions and from job tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType

import pandas as pd

from predictor.contracts.job import JobState
from predictor.contracts.memory import MemoryObservation, MemoryRequest, PeakKind
from predictor.contracts.request import JobRequest
from predictor.contracts.workload import ModelSpec, RunSpec
from predictor.features.names import name_group
from predictor.forecasting.memory.analytical import estimate
from predictor.forecasting.memory.breakdown import Uncertainty
from predictor.forecasting.memory.gpus import find_gpu
from predictor.forecasting.memory.parsing import parse_job

WORDS = ("cluster", "user", "account", "queue", "qos", "gpu_type", "framework", "task", "model_family",
         "precision", "optimizer", "parallelism")  # fmt: skip
_LOGS = ("parameter_count", "requested_gpus", "requested_cpus", "requested_memory_mib", "walltime_s")
_PLAIN = ("sequence_length", "image_size", "lora_rank", "epochs", "requested_nodes")
_SIGNATURE = ("cluster", "user", "gpu_type", "model_family", "parameter_count", "precision",
              "sequence_length", "image_size", "lora_rank", "parallelism", "gradient_checkpointing",
              "requested_gpus", "requested_memory_mib")  # fmt: skip
PEAK_COLUMNS: Mapping[PeakKind, str] = {
    PeakKind.USED: "peak_vram_mib", PeakKind.HOST: "peak_host_memory_mib",
}  # fmt: skip

_NO_BOUNDS: Mapping[str, float] = MappingProxyType({})


def job_request(
    job: JobRequest,
    workload: Mapping[str, object] | None = None,
    *,
    spec: tuple[ModelSpec, RunSpec] | None = None,
    kind: PeakKind = PeakKind.USED,
) -> MemoryRequest:
    """Return the memory request of a job as it is submitted.

    Args:
        workload: workload columns of the job table, as far as they are known.
        spec: model and run, where someone states them; else they are read from the columns.
        kind: host memory asks for no spec.
    """
    row: dict[str, object] = {one.name: getattr(job, one.name) for one in fields(job)}
    request = row_request({**row, **(workload or {})}, kind=kind)
    return request if spec is None else replace(request, model=spec[0], run=spec[1], guess_log=0.0)


def row_request(row: Mapping[str, object], *, kind: PeakKind = PeakKind.USED) -> MemoryRequest:
    """Return the memory request of one row of the job table; everything in it may be missing."""
    given = {name: value for name, value in row.items() if not _missing(value)}
    words = {name: str(given[name]) for name in WORDS if name in given}
    if "job_name" in given:
        words["job_name"] = name_group(str(given["job_name"]))
    numbers = {f"log_{name}": math.log(max(_number(given[name]), 1.0)) for name in _LOGS if name in given}
    numbers |= {name: _number(given[name]) for name in _PLAIN if name in given}
    if "gradient_checkpointing" in given:
        numbers["gradient_checkpointing"] = float(bool(given["gradient_checkpointing"]))
    gpus = max(_number(given.get("requested_gpus", 1.0)), 1.0)
    if "batch_size" in given:
        numbers["batch_size"] = max(_number(given["batch_size"]) / gpus, 1e-3)
    model = run = None
    guess_log = 0.0
    if kind is not PeakKind.HOST:
        parsed = parse_job(given)
        if parsed.model is not None and parsed.run is not None:
            model, run = parsed.model, parsed.run
            guess_log = _guess_log(model, run, parsed.guessed)
    family = str(given["model_family"]).lower() if "model_family" in given else None
    return MemoryRequest(
        model=model, run=run, words=words, numbers=numbers, signature=_signature(given), family=family,
        guess_log=guess_log,
    )  # fmt: skip


def table_observations(
    frame: pd.DataFrame, *, kind: PeakKind = PeakKind.USED, bounds_mib: Mapping[str, float] = _NO_BOUNDS
) -> tuple[list[MemoryObservation], list[int]]:
    """Return what the ended jobs of a table teach, and the position of each in the table.

    An OUT_OF_MEMORY state is that of the host: for GPU memory its peak is an ordinary one. What was recorded
    of a job that a message of an out-of-memory ended is no target: it needed more than that, and the bound.

    Args:
        bounds_mib: MiB that GPU memory was not below, by job id; a job that completed had caught the error.
    """
    column = PEAK_COLUMNS[kind]
    observations, places = [], []
    for place, row in enumerate(frame.to_dict("records")):
        peak = _peak_mib(row.get(column))
        bound = 0.0
        if kind is PeakKind.USED and row.get("state") != JobState.COMPLETED:
            bound = bounds_mib.get(str(row.get("job_id")), 0.0)
        if max(peak, bound) <= 0:
            continue
        text = {str(name): value for name, value in row.items()}
        gpu = find_gpu(str(text.get("gpu_type") or ""))
        observations.append(MemoryObservation(
            request=row_request(text, kind=kind), peak_mib=max(peak, bound),
            is_oom=bound > 0 or (kind is PeakKind.HOST and text.get("state") == JobState.OUT_OF_MEMORY),
            capacity_mib=None if gpu is None or kind is PeakKind.HOST else gpu.usable_mib,
        ))  # fmt: skip
        places.append(place)
    return observations, places


def _peak_mib(value: object) -> float:
    """Return a recorded peak, 0 where there is none."""
    if _missing(value):
        return 0.0
    peak = _number(value)
    return peak if math.isfinite(peak) else 0.0


def observation_groups(observations: Sequence[MemoryObservation]) -> list[str]:
    """Return what a calibration keeps together: the signature, else each run alone."""
    return [one.request.signature or f"row {at}" for at, one in enumerate(observations)]


def _guess_log(model: ModelSpec, run: RunSpec, guessed: Sequence[Uncertainty]) -> float:
    """Return ln of the upper end of what the guesses leave open over the estimate."""
    guesses = replace(estimate(model, run), uncertain_parts=tuple(guessed))
    return math.log(max(guesses.high_bytes / guesses.peak_bytes, 1.0))


def _signature(given: Mapping[str, object]) -> str | None:
    """Return what names the same job with any batch; None for a job without user or name."""
    if "user" not in given and "job_name" not in given:
        return None
    parts = [name_group(str(given.get("job_name", "")))]
    parts += [f"{name}={given[name]}" for name in _SIGNATURE if name in given]
    return "|".join(parts)


def _missing(value: object) -> bool:
    return (
        value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))
    )


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return math.nan

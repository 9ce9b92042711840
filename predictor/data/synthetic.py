"""This module generates synthetic job logs whose true duration distributions are known."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.schema import conform
from predictor.data.synthetic_life import STATES, Lives, live
from predictor.data.synthetic_names import job_ids, job_names, node_lists, script_hashes, submit_lines
from predictor.data.synthetic_requests import Requests, draw_requests
from predictor.data.synthetic_spec import GpuType, WorkloadSpec
from predictor.data.synthetic_truth import SyntheticTruth
from predictor.data.synthetic_users import CLASS_NAMES, FAMILIES, QOS_NAMES, Population, draw_population

__all__ = ["GpuType", "SyntheticLog", "SyntheticTruth", "WorkloadSpec", "generate"]

Floats = npt.NDArray[np.float64]
_CODES = {state: code for code, state in enumerate(STATES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticLog:
    """A synthetic log and the truth behind it, row for row.

    Attributes:
        frame: canonical job table, one row per attempt, in the order of submission.
        truth: what each row was drawn from.
        spec: what the log was generated from.
    """

    frame: pd.DataFrame
    truth: SyntheticTruth
    spec: WorkloadSpec


def generate(spec: WorkloadSpec) -> SyntheticLog:
    """Generate a log; the same spec gives the same log.

    Args:
        spec: size, habits, censoring and seed.

    Returns:
        A log of ``spec.jobs`` jobs. Where attempts are requeued it has one more row for each, with
        the same ``job_id``, ``attempt`` 1 and a draw of its own.

    Notes:
        The generator models what a forecaster meets, not what a scheduler decides: times in queue are
        drawn from a distribution, capacity is not accounted for.

    Examples:
        >>> log = generate(WorkloadSpec(jobs=200, days=7.0, random_state=1, requeue=False))
        >>> len(log.frame), log.truth.true_quantile_s([0.5, 0.9]).shape
        (200, (200, 2))
    """
    rng = np.random.default_rng(spec.random_state)
    population = draw_population(spec, rng)
    requests = draw_requests(spec, population, rng)
    lives, truth = live(spec, population, requests, rng)
    names = _NamedJobs.of(spec, population, requests, rng)
    frame = _frame(spec=spec, population=population, requests=requests, lives=lives, names=names, rng=rng)
    evicted = np.flatnonzero(np.isin(lives.state, [_CODES[JobState.PREEMPTED], _CODES[JobState.NODE_FAIL]]))
    if spec.requeue and len(evicted):
        again = _resubmit(requests.take(evicted), lives.ended_s[evicted])
        more_lives, more_truth = live(spec, population, again, rng)
        more = _frame(
            spec=spec, population=population, requests=again, lives=more_lives,
            names=names.take(evicted), rng=rng,
        )  # fmt: skip
        frame = pd.concat([frame, more.assign(attempt=1.0)], ignore_index=True)
        truth = _join(truth, more_truth)
        order = np.argsort(frame["submitted_at"].to_numpy(), kind="stable")
        frame, truth = frame.take(order).reset_index(drop=True), truth.take(order)
    return SyntheticLog(frame=frame, truth=truth, spec=spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedJobs:
    """Texts of n jobs, which all attempts of a job share."""

    job_id: npt.NDArray[np.object_]
    array_job_id: npt.NDArray[np.object_]
    job_name: npt.NDArray[np.object_]
    submit_line: npt.NDArray[np.object_]
    script_hash: npt.NDArray[np.object_]

    @classmethod
    def of(
        cls, spec: WorkloadSpec, population: Population, requests: Requests, rng: np.random.Generator
    ) -> "_NamedJobs":
        identifier, array_job_id = job_ids(requests)
        name = job_names(spec, population, requests, rng)
        return cls(
            job_id=identifier, array_job_id=array_job_id, job_name=name,
            submit_line=submit_lines(spec, population, requests, name),
            script_hash=script_hashes(requests),
        )  # fmt: skip

    def take(self, rows: npt.NDArray[np.intp]) -> "_NamedJobs":
        return _NamedJobs(**{name: getattr(self, name)[rows] for name in self.__slots__})


def _resubmit(requests: Requests, submitted_s: Floats) -> Requests:
    fields = {name: getattr(requests, name) for name in requests.__slots__}
    return Requests(**{**fields, "submitted_s": submitted_s})


def _join(first: SyntheticTruth, second: SyntheticTruth) -> SyntheticTruth:
    return SyntheticTruth(
        **{name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in first.__slots__}
    )


def _frame(
    *,
    spec: WorkloadSpec,
    population: Population,
    requests: Requests,
    lives: Lives,
    names: _NamedJobs,
    rng: np.random.Generator,
) -> pd.DataFrame:
    template, user = requests.template, requests.user
    family, gpu = population.family[template], requests.gpus > 0
    ran, qos = ~np.isnan(lives.started_s), population.qos[user]
    users = [f"user{number:03d}" for number in range(spec.users)]
    accounts = [f"group{number:02d}" for number in range(int(population.account.max()) + 1)]
    owners = np.repeat(np.arange(spec.users), population.template_count).tolist()
    homes = [
        f"/home/{users[owner]}/{FAMILIES[kind].name}/{place}"
        for place, (owner, kind) in enumerate(zip(owners, population.family.tolist(), strict=True))
    ]
    submitted_at = _times(spec, requests.submitted_s)
    columns: dict[str, object] = {
        "job_id": names.job_id, "attempt": np.zeros(len(requests)), "cluster": spec.cluster,
        "user": _labels(users, user),
        "account": _labels(accounts, population.account[user]),
        "queue": _labels(["cpu", "gpu"], gpu.astype(np.int64)),
        "job_name": names.job_name, "submit_line": names.submit_line, "script_hash": names.script_hash,
        "work_dir": _labels(homes, template), "array_job_id": names.array_job_id,
        "array_task_index": np.where(requests.array_index >= 0, requests.array_index, np.nan),
        "requested_gpus": requests.gpus,
        "gpu_type": _labels([kind.name for kind in spec.gpu_types], requests.gpu_type),
        "requested_nodes": requests.nodes, "requested_cpus": requests.cpus,
        "requested_memory_mib": requests.memory_mib, "walltime_s": requests.walltime_s,
        "qos": _labels(QOS_NAMES, qos), "workload_class": _labels(CLASS_NAMES, qos), "preemptible": qos == 0,
        "submitted_at": submitted_at, "eligible_at": submitted_at,
        "started_at": _times(spec, lives.started_s),
        "node_list": node_lists(spec, requests, ran, rng),
        "allocated_nodes": np.where(ran, requests.nodes, np.nan),
        "allocated_cpus": np.where(ran, requests.cpus, np.nan),
        "allocated_gpus": np.where(ran, requests.gpus, np.nan),
        "ended_at": _times(spec, lives.ended_s), "elapsed_s": lives.elapsed_s,
        "state": _labels([state.value for state in STATES], lives.state),
        "source": "synthetic",
    }  # fmt: skip
    columns |= _workload(population, requests, family)
    columns |= _measured(spec=spec, population=population, requests=requests, lives=lives, rng=rng)
    return conform(pd.DataFrame(columns))


def _workload(population: Population, requests: Requests, family: npt.NDArray[np.int64]) -> dict[str, object]:
    gpu = requests.gpus > 0
    number = np.where(gpu, family, -1)
    texts = {name: _labels([getattr(kind, name) for kind in FAMILIES], number)
             for name in ("framework", "task", "model_family", "precision")}  # fmt: skip
    values = {name: np.where(gpu, np.array([getattr(kind, name) for kind in FAMILIES])[family], np.nan)
              for name in ("parameter_count", "sequence_length", "image_size")}  # fmt: skip
    own = {"batch_size": population.batch_size[requests.template], "epochs": requests.epochs}
    return {**texts, **values, **{name: np.where(gpu, column, np.nan) for name, column in own.items()}}


def _measured(
    *,
    spec: WorkloadSpec,
    population: Population,
    requests: Requests,
    lives: Lives,
    rng: np.random.Generator,
) -> dict[str, object]:
    rows, template = len(requests), requests.template
    ran, gpu = ~np.isnan(lives.started_s), requests.gpus > 0
    memory_mib = population.memory_use_mib[template] * requests.nodes * rng.lognormal(0.0, 0.08, rows)
    warm = np.clip(np.nan_to_num(lives.elapsed_s) / 300.0, 0.05, 1.0)  # the first minutes load data
    memory_mib = np.minimum(memory_mib * warm, requests.memory_mib)
    exhausted = lives.state == _CODES[JobState.OUT_OF_MEMORY]
    memory_mib = np.where(exhausted, requests.memory_mib, memory_mib)
    capacity_mib = np.array([*(kind.memory_mib for kind in spec.gpu_types), 0.0])[requests.gpu_type]
    per_gpu = population.gpus[template] / np.where(gpu, requests.gpus, 1.0)
    vram_mib = population.vram_mib[template] * per_gpu * rng.lognormal(0.0, 0.03, rows)
    vram_mib = np.minimum(vram_mib, 0.98 * capacity_mib)
    utilisation = np.clip(
        0.85 - 0.25 * population.log_scale[template] + rng.normal(0.0, 0.05, rows), 0.0, 1.0
    )
    failed = lives.state == _CODES[JobState.FAILED]
    codes = np.where(failed, rng.choice([1.0, 2.0, 137.0], size=rows, p=[0.8, 0.12, 0.08]), 0.0)
    done = ~np.isnan(lives.ended_s)
    return {
        "exit_code": np.where(done, codes, np.nan),
        "peak_host_memory_mib": np.where(ran & done, np.round(memory_mib), np.nan),
        "peak_vram_mib": np.where(ran & done & gpu, np.round(vram_mib), np.nan),
        "gpu_utilisation_ratio": np.where(ran & done & gpu, np.round(utilisation, 3), np.nan),
    }


def _times(spec: WorkloadSpec, after_s: Floats) -> "pd.Series[pd.Timestamp]":
    missing = np.isnan(after_s)
    micros = (
        ((spec.start_ts + np.where(missing, 0.0, after_s)) * 1e6).astype("int64").astype("datetime64[us]")
    )
    micros[missing] = np.datetime64("NaT")
    return pd.Series(micros).dt.tz_localize("UTC")


def _labels(menu: "list[str] | tuple[str, ...]", places: npt.NDArray[np.int64]) -> object:
    choices = pd.array([text or None for text in menu], dtype="str")
    return choices.take(places, allow_fill=True)  # -1 = missing

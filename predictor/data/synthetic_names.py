"""This module writes the identifiers, names and command lines of synthetic jobs."""

import hashlib
import math
import time
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from predictor.data.synthetic_requests import Requests
from predictor.data.synthetic_spec import WorkloadSpec
from predictor.data.synthetic_users import FAMILIES, QOS_NAMES, NameStyle, Population

Texts = npt.NDArray[np.object_]

FIRST_JOB_ID = 100_001
_LEARNING_RATES = ("1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "3e-3")
_RUNS_PER_SCRIPT_VERSION = 40
_NODES_PER_TYPE = 48


def job_ids(requests: Requests) -> tuple[Texts, Texts]:
    """Return ``job_id`` and ``array_job_id`` of each request, as Slurm numbers and shows them.

    Every task of an array uses up one number; the tasks are shown as ``<first>_<index>``.
    """
    rows = len(requests)
    in_array = requests.array_index >= 0
    number = FIRST_JOB_ID + np.arange(rows)
    first = np.full(int(requests.session.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, requests.session, number)
    number = np.where(in_array, first[requests.session], number)
    triples = list(zip(in_array.tolist(), number.tolist(), requests.array_index.tolist(), strict=True))
    identifier = _texts(f"{base}_{index}" if member else str(base) for member, base, index in triples)
    return identifier, _texts(str(base) if member else None for member, base, _ in triples)


def job_names(
    spec: WorkloadSpec, population: Population, requests: Requests, rng: np.random.Generator
) -> Texts:
    """Return the name of each job: the family's stem, varied from run to run by the family's habit."""
    names = np.empty(len(requests), dtype=object)
    rate = rng.integers(0, len(_LEARNING_RATES), len(requests))
    local = requests.template - population.first_template[requests.user]
    first_of_session = _first_of_session(requests)
    for number, family in enumerate(FAMILIES):
        rows = np.flatnonzero(population.family[requests.template] == number)
        write = _writer(family.name, family.style)
        named_like = np.where(requests.array_index[rows] >= 0, first_of_session[requests.session[rows]], rows)
        names[rows] = _texts(
            write(place, run, _LEARNING_RATES[step], spec.start_ts + at_s)
            for place, run, step, at_s in zip(
                local[rows].tolist(), requests.run[named_like].tolist(), rate[named_like].tolist(),
                requests.submitted_s[named_like].tolist(), strict=True,
            )
        )  # fmt: skip
    return names


def submit_lines(spec: WorkloadSpec, population: Population, requests: Requests, names: Texts) -> Texts:
    """Return the ``sbatch`` command line of each job."""
    types = [*(kind.name for kind in spec.gpu_types), ""]
    per_node = requests.gpus / np.maximum(requests.nodes, 1.0)
    family = population.family[requests.template]
    columns = (
        names.tolist(), family.tolist(), requests.gpu_type.tolist(), per_node.astype(int).tolist(),
        requests.nodes.astype(int).tolist(), requests.walltime_s.tolist(), requests.array_size.tolist(),
        population.qos[requests.user].tolist(),
    )  # fmt: skip
    return _texts(
        f"sbatch -J {name} -p {'gpu' if gpus else 'cpu'}"
        + (f" --gres=gpu:{types[kind]}:{gpus}" if gpus else "")
        + (f" -N {nodes}" if nodes > 1 else "")
        + (f" -t {int(limit_s // 60)}" if not math.isnan(limit_s) else "")
        + (f" --array=0-{size - 1}" if size else "")
        + f" --qos={QOS_NAMES[qos]} {FAMILIES[number].name}.sh"
        for name, number, kind, gpus, nodes, limit_s, size, qos in zip(*columns, strict=True)
    )


def script_hashes(requests: Requests) -> Texts:
    """Return a digest of each job's batch script, which its user edits every forty runs."""
    version = requests.run // _RUNS_PER_SCRIPT_VERSION
    key = requests.template * (int(version.max()) + 1) + version
    unique, place = np.unique(key, return_inverse=True)
    digests = _texts(
        hashlib.sha256(f"script {number}".encode()).hexdigest()[:16] for number in unique.tolist()
    )
    return digests[place]


def node_lists(
    spec: WorkloadSpec, requests: Requests, ran: npt.NDArray[np.bool_], rng: np.random.Generator
) -> Texts:
    """Return the nodes of each attempt in Slurm's bracket form, missing where it never ran."""
    types = [*(kind.name for kind in spec.gpu_types), "cpu"]
    first = rng.integers(1, _NODES_PER_TYPE, len(requests))
    nodes = requests.nodes.astype(int)
    columns = (requests.gpu_type.tolist(), first.tolist(), nodes.tolist(), ran.tolist())
    return _texts(
        None if not runs
        else f"{types[kind]}-{begin:03d}" if count == 1
        else f"{types[kind]}-[{begin:03d}-{begin + count - 1:03d}]"
        for kind, begin, count, runs in zip(*columns, strict=True)
    )  # fmt: skip


def _writer(stem: str, style: NameStyle) -> Callable[[int, int, str, float], str]:
    def variant(place: int) -> str:
        return stem if place == 0 else f"{stem}_{chr(96 + place % 26)}"

    def stamp(at_ts: float) -> str:
        return time.strftime("%Y%m%d_%H%M", time.gmtime(at_ts))

    writers: dict[NameStyle, Callable[[int, int, str, float], str]] = {
        NameStyle.CONSTANT: lambda place, _run, _rate, _ts: variant(place),
        NameStyle.COUNTER: lambda place, run, _rate, _ts: f"{variant(place)}_{run:04d}",
        NameStyle.LEARNING_RATE: lambda place, run, rate, _ts: f"{variant(place)}-lr{rate}-seed{run % 10}",
        NameStyle.TIMESTAMP: lambda place, _run, _rate, ts: f"{variant(place)}_{stamp(ts)}",
        NameStyle.VERSION: lambda place, run, _rate, _ts: f"{variant(place)}.v{1 + run // 50}.{run % 50}",
    }
    return writers[style]


def _first_of_session(requests: Requests) -> npt.NDArray[np.int64]:
    first = np.zeros(int(requests.session.max()) + 1, dtype=np.int64)
    first[requests.session[::-1]] = np.arange(len(requests))[::-1]
    return first


def _texts(texts: Iterable[str | None]) -> Texts:
    values = list(texts)
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result

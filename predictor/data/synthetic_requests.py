"""This module draws who submits what and when: sessions of single jobs, bursts and job arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.data.synthetic_spec import WorkloadSpec
from predictor.data.synthetic_users import Population

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DAY_S, WEEK_S = 86_400.0, 604_800.0
_HOUR_WEIGHTS = np.array(
    [2, 1.5, 1, 1, 1, 1, 1.5, 3, 6, 9, 10, 9.5, 8, 9, 10, 10, 9, 8, 6, 5, 5, 4.5, 4, 3],
)  # UTC, one site in Europe
_WEEKDAY_WEIGHTS = np.array([1.0, 1.1, 1.1, 1.05, 0.95, 0.4, 0.35])  # Monday first
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday
_MAX_GPU_LIMIT_S, _MAX_CPU_LIMIT_S = 3 * DAY_S, 7 * DAY_S
_DOUBLED_SHARE, _DOUBLED_GAIN = 0.08, 0.8  # of GPU submissions on twice the GPUs; exponent of the speed-up


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """n job requests in the order of submission.

    Attributes:
        submitted_s: shape (n,), whole seconds after the begin of the log, ascending.
        user, template: shape (n,), places in the population.
        session: shape (n,), number of the submission that the job belongs to.
        array_index: shape (n,), index in its job array, -1 for jobs of no array.
        array_size: shape (n,), number of tasks of the array, 0 for jobs of no array.
        run: shape (n,), how many jobs of the template came before.
        gpus, cpus, nodes, memory_mib: shape (n,), over all nodes.
        gpu_type: shape (n,), place in the spec's list, -1 for CPU jobs.
        epochs: shape (n,), asked for.
        log_location: shape (n,), mu of the latent duration.
        walltime_s: shape (n,), requested, whole minutes; NaN = no limit.
    """

    submitted_s: Floats
    user: Ints
    template: Ints
    session: Ints
    array_index: Ints
    array_size: Ints
    run: Ints
    gpus: Floats
    cpus: Floats
    nodes: Floats
    memory_mib: Floats
    gpu_type: Ints
    epochs: Floats
    log_location: Floats
    walltime_s: Floats

    def __len__(self) -> int:
        return len(self.submitted_s)

    def take(self, rows: npt.NDArray[np.intp]) -> "Requests":
        """Return the requests of the chosen rows."""
        return Requests(**{name: getattr(self, name)[rows] for name in self.__slots__})


def draw_requests(spec: WorkloadSpec, population: Population, rng: np.random.Generator) -> Requests:
    """Draw all requests of the log.

    A submission is one session of one user on one template. Array tasks enter together, the jobs of a
    burst half a minute apart. All jobs of a session share its shape and epochs.
    """
    kind = rng.random(spec.jobs)
    is_array = kind < spec.array_share
    is_burst = (kind >= spec.array_share) & (kind < spec.array_share + spec.burst_share)
    size = np.where(is_array, np.minimum(2 + rng.geometric(1 / 14, spec.jobs), 200),
                    np.where(is_burst, 1 + rng.geometric(0.25, spec.jobs), 1))  # fmt: skip
    sessions = int(np.searchsorted(np.cumsum(size), spec.jobs)) + 1
    size, is_array = size[:sessions], is_array[:sessions]
    size[-1] -= int(size.sum()) - spec.jobs
    begin_s = np.sort(_draw_times_s(spec, rng, sessions))
    user, template = _draw_authors(population, rng, begin_s)

    session = np.repeat(np.arange(sessions), size)
    first = np.repeat(np.cumsum(size) - size, size)
    index = np.arange(spec.jobs) - first
    gaps_s = np.where(index > 0, rng.exponential(30.0, spec.jobs), 0.0)
    gaps_s[is_array[session]] = 0.0
    elapsed_s = np.cumsum(gaps_s)
    submitted_s = np.floor(begin_s[session] + elapsed_s - elapsed_s[first])
    submitted_s = np.minimum(submitted_s, spec.span_s - 1.0)

    shapes = _draw_shapes(spec, population, rng, begin_s=begin_s, template=template)
    array_index = np.where(is_array[session], index, -1)
    order = np.argsort(submitted_s, kind="stable")
    session, submitted_s = session[order], submitted_s[order]
    memory_mib = population.memory_request_mib[template] * shapes.nodes
    return Requests(
        submitted_s=submitted_s, user=user[session], template=template[session], session=session,
        array_index=array_index[order], array_size=np.where(is_array, size, 0)[session],
        run=_count_before(template[session]), gpus=shapes.gpus[session], cpus=shapes.cpus[session],
        nodes=shapes.nodes[session], memory_mib=memory_mib[session], gpu_type=shapes.gpu_type[session],
        epochs=shapes.epochs[session], log_location=shapes.log_location[session],
        walltime_s=shapes.walltime_s[session],
    )  # fmt: skip


def load_factor(spec: WorkloadSpec, at_s: Floats) -> Floats:
    """Return how busy the site is, 1 on average over the week, at seconds after the begin of the log."""
    clock_s = spec.start_ts + at_s
    hour = (clock_s % DAY_S / 3600.0).astype(np.int64)
    weekday = (np.floor(clock_s / DAY_S).astype(np.int64) + _EPOCH_WEEKDAY) % 7
    mean = float(_HOUR_WEIGHTS.mean() * _WEEKDAY_WEIGHTS.mean())
    return np.asarray(_HOUR_WEIGHTS[hour] * _WEEKDAY_WEIGHTS[weekday] / mean, dtype=np.float64)


def _draw_times_s(spec: WorkloadSpec, rng: np.random.Generator, count: int) -> Floats:
    edges_s = np.append(np.arange(0.0, spec.span_s, 3600.0), spec.span_s)
    mass = np.concatenate(([0.0], np.cumsum(load_factor(spec, edges_s[:-1]) * np.diff(edges_s))))
    return np.asarray(np.interp(rng.random(count) * mass[-1], mass, edges_s), dtype=np.float64)


def _draw_authors(population: Population, rng: np.random.Generator, at_s: Floats) -> tuple[Ints, Ints]:
    present = np.searchsorted(population.arrival_s, at_s, side="right")
    weight = np.cumsum(population.activity)
    user = np.searchsorted(weight, rng.random(len(at_s)) * weight[present - 1], side="right")
    user = np.minimum(user, present - 1)
    # Few templates make most of a user's jobs, and which ones these are changes every ten days.
    count = population.template_count[user]
    favourite = np.floor(at_s / (10 * DAY_S)).astype(np.int64) + user
    place = np.floor(count * rng.random(len(at_s)) ** 2.5).astype(np.int64)
    return user, population.first_template[user] + (favourite + place) % count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """What all jobs of a session have in common, one row for each session."""

    gpus: Floats
    cpus: Floats
    nodes: Floats
    gpu_type: Ints
    epochs: Floats
    log_location: Floats
    walltime_s: Floats


def _draw_shapes(
    spec: WorkloadSpec, population: Population, rng: np.random.Generator, *, begin_s: Floats, template: Ints
) -> _Shapes:
    count = len(template)
    preferred = population.gpu_type[template]
    other = rng.integers(0, len(spec.gpu_types), count)
    gpu_type = np.where((preferred >= 0) & (rng.random(count) < 0.15), other, preferred)
    doubled = np.where((preferred >= 0) & (rng.random(count) < _DOUBLED_SHARE), 2.0, 1.0)
    more = rng.choice([0.5, 1.0, 2.0], size=count, p=[0.1, 0.75, 0.15])
    more = np.where(preferred >= 0, more, 1.0)  # nothing may matter that the log does not show
    epochs = np.maximum(population.reference_epochs[template] * more, 1.0)
    speed = np.array([*(kind.speed for kind in spec.gpu_types), 1.0])  # the last is what -1 picks: CPU work
    expected = population.log_location[template] + np.log(epochs / population.reference_epochs[template])
    expected = expected - np.log(speed[gpu_type]) - _DOUBLED_GAIN * np.log(doubled)
    week = begin_s / WEEK_S
    whole = np.floor(week).astype(np.int64)
    before, after = population.drift[template, whole], population.drift[template, whole + 1]
    log_location = expected + before + (after - before) * (week - whole)
    # Users ask by what their template usually takes; that it drifts, they learn from a TIMEOUT.
    unit_s = population.request_unit_s[template]
    limit_s = np.where(gpu_type >= 0, _MAX_GPU_LIMIT_S, _MAX_CPU_LIMIT_S)
    rounding_s = np.where(np.isfinite(unit_s), unit_s, 60.0)
    wanted_s = np.ceil(np.exp(expected) * population.over_request[template] / rounding_s) * rounding_s
    walltime_s = np.where(np.isinf(unit_s), limit_s, np.minimum(wanted_s, limit_s))
    walltime_s = np.where(np.isnan(unit_s), np.nan, walltime_s)
    nodes = population.nodes[template]
    gpus = population.gpus[template] * doubled
    nodes = np.where(gpus > 0, np.ceil(gpus / 8.0), nodes)
    return _Shapes(
        gpus=gpus, cpus=population.cpus[template] * doubled, nodes=nodes, gpu_type=gpu_type, epochs=epochs,
        log_location=log_location, walltime_s=walltime_s,
    )  # fmt: skip


def _count_before(groups: Ints) -> Ints:
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[begins, len(ordered)])
    counts = np.empty(len(groups), dtype=np.int64)
    counts[order] = np.arange(len(groups)) - np.repeat(begins, lengths)
    return counts

"""This module binds retraining to the memory forecaster: measured runs, and peaks of the job table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.domain import Document, Progress
from pipelines.measured_target import Judgement, Measured, measurement_files
from pipelines.settings import MeasuredSettings
from pipelines.vram_plots import split_figures
from predictor import __version__
from predictor.contracts.memory import MemoryObservation, MemoryRequest, PeakKind
from predictor.data.measurements import MeasuredRuns, read_measurements
from predictor.data.sources.gpu_metrics.bounds_file import SUFFIX, read_lower_bounds
from predictor.data.table import ended_at_s, fingerprint
from predictor.errors import BundleCorruptError, EmptyInputError
from predictor.evaluation.memory_backtest import OURS, backtest_memory
from predictor.evaluation.memory_jobs import MOST_TRAINING_ROWS, backtest_job_memory
from predictor.forecasting.memory.bundle import (
    NAME,
    PROTOCOL,
    memory_spec,
    read_memory_bundle,
    write_memory_bundle,
)
from predictor.forecasting.memory.forecaster import MemoryForecaster, MemorySettings
from predictor.forecasting.memory.jobs import observation_groups, table_observations
from predictor.forecasting.memory.labels import label_peaks

_BASELINES = ("analytical", "raw_lightgbm", "last_run", "user_max")
_LEAST_ROWS, _LEAST_GROUPS, _LEAST_JOBS = 40, 5, 60
_JOBS = "jobs/later_jobs"
_RISK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    sets: tuple[MeasuredRuns, ...]
    jobs: pd.DataFrame | None
    bounds_mib: Mapping[str, float]


class MemoryTarget:
    """Peak memory per GPU as the device counts it: the formula, its learned correction, and the bound."""

    name = NAME
    limits = (
        "The bound was calibrated on groups like those above: other families, frameworks and cards are "
        "strangers, and the answer's `regime`, `support` and `few_groups` say how near it comes.",
        "Peaks count what the device uses. What torch counts as allocated is a third less at the median.",
        "Runs that died out of memory teach lower bounds only; sizes beyond the largest card seen are "
        "extrapolated by the formula.",
        "A job that says neither its model nor its batch gets the history of its like, or next to nothing.",
    )

    def describe(self) -> Document:
        """Return the version of the code and the features."""
        return {"version": __version__, "bundle_protocol": PROTOCOL, "feature_spec": memory_spec()}

    def collect(self, settings: MeasuredSettings, jobs: pd.DataFrame) -> Measured:
        """Read sets of measured runs, lower bounds of need, and the jobs of the table that have either."""
        sets, sources, left_out, digests = [], [], [], []
        bounds: dict[str, float] = {}
        for path in measurement_files(settings):
            digests.append(sha256(path.read_bytes()).hexdigest())
            if path.suffix == SUFFIX:
                for job, mib in read_lower_bounds(path).items():
                    bounds[job] = max(mib, bounds.get(job, 0.0))
                continue
            for runs in read_measurements(path):
                observed = int(label_peaks(runs.kind, runs.peak_mib, is_oom=runs.is_oom).observed.sum())
                groups = len(set(runs.groups))
                if runs.kind is not PeakKind.USED:
                    left_out.append(f"{runs.name}: its peaks are {runs.kind}, not what the device uses")
                elif observed < _LEAST_ROWS or groups < _LEAST_GROUPS:
                    left_out.append(f"{runs.name}: only {observed} peaks of {groups} groups")
                else:
                    sets.append(runs)
                    sources.append(f"{runs.name}: {observed:,} runs of {groups:,} groups")
        with_peak = jobs[jobs["peak_vram_mib"].fillna(0.0) > 0.0] if "peak_vram_mib" in jobs else jobs[:0]
        table = None
        if len(with_peak) >= _LEAST_JOBS:
            table = jobs[
                (jobs["peak_vram_mib"].fillna(0.0) > 0.0) | jobs["job_id"].astype("str").isin(bounds)
            ]
            digests.append(fingerprint(table))
            sources.append(f"job table: {len(with_peak):,} jobs with a peak")
            if bounds:
                sources.append(f"out-of-memory messages: lower bounds of {len(bounds):,} jobs")
        elif len(with_peak):
            left_out.append(f"job table: only {len(with_peak)} jobs have a peak; {_LEAST_JOBS} are needed")
        if not sources:
            why = "; ".join(left_out) or "no job of the table has a peak and [memory] names no measurements"
            raise EmptyInputError(f"not enough measured GPU memory: {why}")
        names = {f"{runs.name}/{group}" for runs in sets for group in runs.groups}
        if table is not None:
            names |= set(observation_groups(table_observations(table, bounds_mib=bounds)[0]))
        return Measured(
            fingerprint=sha256("".join(digests).encode()).hexdigest(),
            rows=sum(map(len, sets)) + (0 if table is None else len(table)), groups=len(names),
            sources=tuple(sources), left_out=tuple(left_out),
            content=_Content(sets=tuple(sets), jobs=table, bounds_mib=bounds),
            trained_until_s=0.0 if table is None else float(np.nanmax(ended_at_s(table))),
        )  # fmt: skip

    def judge(
        self, data: Measured, *, seed: int, progress: Progress
    ) -> tuple[Judgement, Mapping[str, Figure]]:
        """Score on groups kept out of each set, and on the later jobs of the table."""
        content = _content(data)
        scores: dict[str, Mapping[str, float]] = {}
        covered: list[tuple[int, float]] = []
        metrics: dict[str, float] = {}
        figures: dict[str, Figure] = {}
        for runs in content.sets:
            report = backtest_memory(runs, seed=seed, risk=_RISK, progress=progress)
            for split_name, split in report.splits.items():
                place = f"{runs.name}/{split_name}"
                scores[place] = {name: one.mape for name, one in split.models.items()}
                covered.append((split.rows, split.bound.coverage))
                metrics |= _metrics(place, split.models, split.bound, split.policy)
                figures |= {
                    f"{place.replace('/', '_')}_{kind}.png": one for kind, one in split_figures(split).items()
                }
        if content.jobs is not None:
            progress("jobs", 0.0)
            try:
                later = backtest_job_memory(
                    content.jobs, seed=seed, risk=_RISK, bounds_mib=content.bounds_mib
                )
            except EmptyInputError:
                if not scores:
                    raise
            else:
                scores[_JOBS] = {name: one.mape for name, one in later.models.items()}
                covered.append((later.test_rows, later.bound.coverage))
                metrics |= _metrics(_JOBS, later.models, later.bound)
        return _judgement(scores, covered, metrics), figures

    def write(
        self, directory: Path, data: Measured, *, seed: int, version: str, card: str,
        metadata: Mapping[str, object],
    ) -> None:  # fmt: skip
        """Train on all sets and jobs and write the bundle."""
        observations: list[MemoryObservation] = []
        groups: list[str] = []
        content = _content(data)
        for runs in content.sets:
            observed = label_peaks(runs.kind, runs.peak_mib, is_oom=runs.is_oom).observed
            for row in np.flatnonzero(observed):
                observations.append(
                    MemoryObservation(request=runs.requests[row], peak_mib=float(runs.peak_mib[row]))
                )
                groups.append(f"{runs.name}/{runs.groups[row]}")
        if content.jobs is not None:
            newest = content.jobs.iloc[-MOST_TRAINING_ROWS:]
            known, _ = table_observations(newest, bounds_mib=content.bounds_mib)
            observations += known
            groups += observation_groups(known)
        settings = MemorySettings(risk=_RISK)
        expert = settings.expert
        seeded = replace(
            expert, residual=replace(expert.residual, random_state=seed),
            small=replace(expert.small, random_state=seed),
        )  # fmt: skip
        model = MemoryForecaster.fit(observations, groups=groups, settings=replace(settings, expert=seeded))
        write_memory_bundle(
            directory, model, version=version, card=card, metadata=metadata,
            trained_until_s=data.trained_until_s,
        )  # fmt: skip

    def verify(self, directory: Path, expected_digest: str | None) -> str:
        """Read a bundle, let it forecast a job that says nothing, and return its digest."""
        bundle = read_memory_bundle(directory, expected_digest=expected_digest)
        [answer] = bundle.model.predict([MemoryRequest()], risk=_RISK)
        if not 0 < answer.p50_mib <= answer.upper_mib < float("inf"):
            raise BundleCorruptError(f"bundle '{bundle.info.version}' does not forecast: {answer}")
        return bundle.info.digest


def _judgement(
    scores: Mapping[str, Mapping[str, float]],
    covered: Sequence[tuple[int, float]],
    metrics: Mapping[str, float],
) -> Judgement:
    """Return means over sets and splits; each baseline stands beside ours on the sets it answers on."""
    baselines, beside = {}, {}
    for name in _BASELINES:
        places = [place for place, models in scores.items() if name in models]
        if places:
            baselines[name] = float(np.mean([scores[place][name] for place in places]))
            beside[name] = float(np.mean([scores[place][OURS] for place in places]))
    ours = float(np.mean([models[OURS] for models in scores.values()]))
    rows, shares = zip(*covered, strict=True)
    coverage = float(np.average(shares, weights=rows))
    return Judgement(
        judged_on=tuple(sorted(scores)), score="mape", ours=ours, baselines=baselines, ours_beside=beside,
        coverage=coverage, wanted=1.0 - _RISK,
        metrics={"mape": ours, "coverage": coverage, **metrics},
    )  # fmt: skip


def _metrics(place: str, models: Mapping[str, object], *others: object) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, scores in [*models.items(), *((type(one).__name__, one) for one in others)]:
        values = asdict(scores)  # type: ignore[call-overload]  # all are dataclasses of scores
        flat |= {f"{place}/{name}.{key}": float(value) for key, value in values.items()}
    return flat


def _content(data: Measured) -> _Content:
    if not isinstance(data.content, _Content):
        raise TypeError(f"measured memory is needed, got {type(data.content).__name__}")
    return data.content

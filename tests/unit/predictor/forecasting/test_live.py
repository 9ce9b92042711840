"""Bundle and live forecaster: what is served is what was backtested, and damage is noticed."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from predictor.contracts.forecast import LEVELS, JobForecast
from predictor.contracts.job import JobState
from predictor.contracts.outcome import Outcome
from predictor.contracts.request import JobRequest
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.errors import BundleCorruptError, BundleMissingError, FeatureSpecError, NotFittedError
from predictor.features.history import lifetimes
from predictor.features.request import request_columns
from predictor.forecasting.bundle import BundleInfo, read_bundle, write_bundle
from predictor.forecasting.calibration import Calibration
from predictor.forecasting.duration import DurationSettings
from predictor.forecasting.live import LiveForecaster
from predictor.forecasting.online_state import export_online, restore_online
from predictor.forecasting.prequential import replay
from predictor.forecasting.quantile_boosting import BoostingSettings
from predictor.forecasting.survival_forest import ForestSettings
from predictor.forecasting.training import DurationModel, prepare_log, train_duration

SMALL = DurationSettings(
    forest=ForestSettings(trees=20, leaves=32, bins=32),
    boosting=BoostingSettings(rounds=20),
    calibration_days=5.0,
)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A small model, its log and its bundle on disk."""

    frame: pd.DataFrame
    cut_s: float
    model: DurationModel
    directory: Path
    info: BundleInfo


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    frame = generate(WorkloadSpec(jobs=2500, days=20.0, users=15, random_state=5, requeue=False)).frame
    cut_s = float(np.quantile(request_columns(frame).submitted_s, 0.8))
    model = train_duration(frame, cut_s=cut_s, settings=SMALL)
    directory = tmp_path_factory.mktemp("bundle") / "v1"
    info = write_bundle(directory, model, version="v1", card="# card", metadata={"rows": len(frame)})
    return Trained(frame=frame, cut_s=cut_s, model=model, directory=directory, info=info)


def request_of(job: "pd.Series[Any]", submitted_s: float) -> JobRequest:
    """Return the request of a table row as a scheduler would send it."""

    def text(name: str) -> str | None:
        return None if pd.isna(job[name]) else str(job[name])

    def number(name: str) -> float | None:
        return None if pd.isna(job[name]) else float(str(job[name]))

    return JobRequest(
        submitted_s=submitted_s,
        job_id=str(job["job_id"]),
        attempt=int(float(str(job["attempt"]))),
        cluster=text("cluster"),
        user=text("user"),
        account=text("account"),
        queue=text("queue"),
        qos=text("qos"),
        gpu_type=text("gpu_type"),
        job_name=text("job_name"),
        requested_gpus=number("requested_gpus"),
        requested_nodes=number("requested_nodes"),
        requested_cpus=number("requested_cpus"),
        requested_memory_mib=number("requested_memory_mib"),
        walltime_s=number("walltime_s"),
        array_job_id=text("array_job_id"),
        array_task_index=number("array_task_index"),
        dependency=text("dependency"),
    )


def test_served_forecasts_equal_offline_forecasts(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play the log live through the service's core; features, pool and calibration give the same numbers.

    The offline replay learns in hourly steps and looks at running jobs, of which the live one remembers none
    here, so that the comparison stops learning and refreshing in both.
    """
    frame, cut_s = trained.frame, trained.cut_s
    live = LiveForecaster(read_bundle(trained.directory, expected_digest=trained.info.digest))
    log = prepare_log(frame, trained.model.experts.vocabulary)
    rows = np.flatnonzero(log.outcomes.submitted_s >= cut_s)[:150]
    online = restore_online(export_online(trained.model.online), trained.model.settings)
    monkeypatch.setattr(Calibration, "is_due", lambda *_: False)
    never = dataclasses.replace(log.outcomes.take(rows), end_s=np.full(len(rows), np.inf))
    offline = replay(trained.model.experts, online, log.features.take(rows), never)
    life = lifetimes(frame)
    submitted = log.outcomes.submitted_s
    # what the bundle does not know yet: everything from the cut up to the last row tested
    events = sorted(
        [(submitted[row], 0, row) for row in np.flatnonzero(submitted >= cut_s)]
        + [(life.start_s[row], 1, row) for row in np.flatnonzero(life.start_s >= cut_s)]
        + [(life.end_s[row], 2, row) for row in np.flatnonzero(life.end_s >= cut_s)]
    )
    wanted = {int(row) for row in rows}
    answers: dict[int, JobForecast] = {}
    for at_s, kind, row in events:
        job = frame.iloc[row]
        key = {"cluster": str(job["cluster"]), "job_id": str(job["job_id"]), "attempt": int(job["attempt"])}
        if kind == 0:
            request = request_of(job, float(at_s))
            if row in wanted:
                answers[int(row)] = live.predict([dataclasses.replace(request, job_id=None)])[0]
            live.submitted(request)
        elif kind == 1:
            assert live.started(at_s=float(at_s), **key)  # type: ignore[arg-type]  # the keys are those above
        else:
            elapsed_s = None if np.isnan(life.elapsed_s[row]) else float(life.elapsed_s[row])
            assert live.finished(
                Outcome(
                    cluster=str(job["cluster"]), job_id=str(job["job_id"]), attempt=int(job["attempt"]),
                    state=JobState(str(job["state"])), submitted_s=float(submitted[row]),
                    started_s=None if np.isnan(life.start_s[row]) else float(life.start_s[row]),
                    ended_s=float(at_s), elapsed_s=elapsed_s,
                )
            )  # fmt: skip
    for position, row in enumerate(rows):
        assert answers[int(row)].quantiles_s["q90"] == offline.quantiles_s[position, LEVELS.index(0.9)]
        assert answers[int(row)].mean_s == pytest.approx(float(offline.mean_s()[position]))


def test_an_outcome_changes_the_next_forecast_and_the_calibration(trained: Trained) -> None:
    live = LiveForecaster(read_bundle(trained.directory))
    job = JobRequest(
        submitted_s=trained.cut_s, job_id="new", user="nobody-before", requested_gpus=1.0, walltime_s=36000.0
    )
    before = live.predict([job])[0]
    assert before.fallback == "no-history-of-this-user"
    outcome = Outcome(
        job_id="new", state=JobState.COMPLETED, submitted_s=trained.cut_s, started_s=trained.cut_s + 5,
        ended_s=trained.cut_s + 305, request=job,
    )  # fmt: skip
    calibration = before.provenance.calibration_id
    assert live.finished(outcome)
    after = live.predict([dataclasses.replace(job, job_id="next", submitted_s=trained.cut_s + 400)])[0]
    assert after.fallback is None
    assert after.support == 1
    assert after.provenance.calibration_id != calibration
    assert abs(np.log(after.quantiles_s["q50"] / 300)) < abs(np.log(before.quantiles_s["q50"] / 300))


def test_jobs_that_run_on_and_on_widen_the_bounds_of_their_submitter_before_any_has_ended(
    trained: Trained,
) -> None:
    hour = 3600.0
    q90 = {}
    for starts in (False, True):
        live = LiveForecaster(read_bundle(trained.directory))
        sweep = [
            JobRequest(
                submitted_s=trained.cut_s + row * hour, job_id=f"s{row}", user="sweeper", requested_gpus=1.0
            )
            for row in range(30)
        ]
        other = JobRequest(submitted_s=trained.cut_s, job_id="other", user="other", requested_gpus=1.0)
        live.predict([*sweep, other])
        for job in sweep:
            live.submitted(job)
            if starts:
                live.started(cluster=None, job_id=str(job.job_id), attempt=0, at_s=job.submitted_s + 60.0)
        assert live.finished(
            Outcome(
                job_id="other", state=JobState.COMPLETED, submitted_s=trained.cut_s,
                started_s=trained.cut_s + 120 * hour, ended_s=trained.cut_s + 122 * hour, request=other,
            )
        )  # fmt: skip
        asked = dataclasses.replace(sweep[0], job_id=None, submitted_s=trained.cut_s + 123 * hour)
        q90[starts] = live.predict([asked])[0].quantiles_s["q90"]
    assert q90[True] > 1.2 * q90[False]


def test_a_job_that_names_no_cluster_is_of_the_only_one_known(trained: Trained) -> None:
    live = LiveForecaster(read_bundle(trained.directory))
    job = request_of(trained.frame.iloc[-1], trained.cut_s)
    named, bare = live.predict([job, dataclasses.replace(job, cluster=None)])
    assert bare.quantiles_s == named.quantiles_s
    assert live.predict([dataclasses.replace(job, cluster="elsewhere")])[0].support == 0


def test_outcomes_of_jobs_never_announced_need_their_request(trained: Trained) -> None:
    live = LiveForecaster(read_bundle(trained.directory))
    assert not live.finished(Outcome(job_id="x", state=JobState.COMPLETED, submitted_s=0.0, ended_s=10.0))


def test_forecasts_never_exceed_the_limit_and_answer_survival_and_remaining(trained: Trained) -> None:
    live = LiveForecaster(read_bundle(trained.directory))
    answer = live.predict([JobRequest(submitted_s=trained.cut_s, user="u", walltime_s=600.0)])[0]
    assert max(answer.quantiles_s.values()) <= 600.0
    assert answer.survival(600.0) == 0.0
    assert max(answer.remaining_quantiles_s(500.0).values()) <= 100.0
    assert live.predict([]) == []


def test_survival_at_many_ages_is_that_at_each(trained: Trained) -> None:
    live = LiveForecaster(read_bundle(trained.directory))
    answer = live.predict([JobRequest(submitted_s=trained.cut_s, user="u", walltime_s=600.0)])[0]
    ages = [0.0, 30.0, 599.0, 600.0, 1e9, 12.5]
    assert answer.survival_at(ages) == [answer.survival(age) for age in ages]
    assert answer.survival_at([0.0, 600.0]) == [1.0, 0.0]
    assert answer.survival_at([]) == []


def test_jobs_of_one_batch_learn_as_jobs_forecast_alone(trained: Trained) -> None:
    """A batch is remembered as a whole, without its jobs that have no id."""
    together, alone = (LiveForecaster(read_bundle(trained.directory)) for _ in range(2))
    users = sorted({str(user) for user in trained.frame["user"].dropna()})[:6]
    jobs = [
        JobRequest(
            submitted_s=trained.cut_s, job_id=None if number % 3 == 1 else f"j{number}", user=user,
            requested_gpus=float(number), walltime_s=3600.0 * (number + 1),
        )
        for number, user in enumerate(users)
    ]  # fmt: skip
    assert [answer.quantiles_s for answer in together.predict(jobs)] == [
        alone.predict([job])[0].quantiles_s for job in jobs
    ]
    for number, job in reversed(list(enumerate(jobs))):
        if job.job_id is not None:
            outcome = Outcome(
                job_id=job.job_id, state=JobState.COMPLETED, submitted_s=trained.cut_s, request=job,
                started_s=trained.cut_s + 1, ended_s=trained.cut_s + 1000.0 - 50.0 * number,
            )  # fmt: skip
            assert together.finished(outcome)
            assert alone.finished(outcome)
    later = dataclasses.replace(jobs[0], submitted_s=trained.cut_s + 2000.0)
    one, other = together.predict([later])[0], alone.predict([later])[0]
    assert one.quantiles_s == other.quantiles_s
    assert one.provenance == other.provenance


@pytest.mark.parametrize(
    "name",
    ["forest.txt", "arrays.npz", "history.npz", "history.json", "online.json", "model.json", "card.md"],
)
def test_any_altered_file_is_named(trained: Trained, tmp_path: Path, name: str) -> None:
    copy = tmp_path / "v1"
    copy.mkdir()
    for path in trained.directory.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    damaged = bytearray((copy / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (copy / name).write_bytes(bytes(damaged))
    with pytest.raises(BundleCorruptError, match=f"{name} was altered"):
        read_bundle(copy)


def test_a_rewritten_manifest_is_found_out_by_the_registry_digest(trained: Trained, tmp_path: Path) -> None:
    copy = tmp_path / "v1"
    copy.mkdir()
    for path in trained.directory.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["metadata"]["rows"] = 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleCorruptError, match="the registry says"):
        read_bundle(copy, expected_digest=trained.info.digest)
    manifest["feature_spec"] = "other"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FeatureSpecError, match="retrain"):
        read_bundle(copy)
    (copy / "manifest.json").write_text("{")
    with pytest.raises(BundleCorruptError, match="no JSON object"):
        read_bundle(copy)
    (copy / "manifest.json").unlink()
    with pytest.raises(BundleMissingError, match="predictor retrain"):
        read_bundle(copy)


def test_a_model_without_history_cannot_be_published(trained: Trained, tmp_path: Path) -> None:
    bare = dataclasses.replace(trained.model, history=None)
    with pytest.raises(NotFittedError, match="train_duration"):
        write_bundle(tmp_path / "v2", bare, version="v2", card="", metadata={})


def test_training_twice_with_one_seed_gives_the_same_model(trained: Trained) -> None:
    again = train_duration(trained.frame, cut_s=trained.cut_s, settings=SMALL)
    assert again.texts == trained.model.texts
    assert export_online(again.online) == export_online(trained.model.online)

"""This module checks what a retraining leaves in MLflow, and that its aliases follow the store."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from pipelines.retrain import Retraining, RetrainOutcome
from pipelines.settings import PipelineSettings
from pipelines.tracking_access import open_tracker
from predictor.cli import EXIT_REFUSED, main
from predictor.data.table import write_table
from predictor.errors import PipelineError
from predictor.forecasting.store import FileModelStore
from tests.integration.fake_domain import digest_of, fake_domain

# MLflow 3.17 loads runs by a strategy that SQLAlchemy 2.1 deprecates; tests ask MLflow directly too
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
MakeSettings = Callable[..., PipelineSettings]
SECOND = datetime(2026, 3, 2, tzinfo=UTC)


def copy_db(empty: Path, settings: PipelineSettings) -> MlflowClient:
    settings.runs.mkdir(parents=True, exist_ok=True)
    shutil.copy(empty, settings.runs / "mlflow.db")
    return MlflowClient(tracking_uri=settings.tracking_uri, registry_uri=settings.tracking_uri)


def work_on(settings: PipelineSettings, bias: float = 0.0) -> Retraining:
    return Retraining(
        settings=settings, domain=fake_domain(bias=bias),
        store=FileModelStore(settings.models.root / "duration", verify=digest_of),
        tracker=lambda: open_tracker(settings),
    )  # fmt: skip


def runs_of(client: MlflowClient) -> list[str]:
    experiment = client.get_experiment_by_name("predictor")
    return (
        []
        if experiment is None
        else [run.info.run_id for run in client.search_runs([experiment.experiment_id])]
    )


def aliases_of(client: MlflowClient) -> dict[str, str]:
    """Aliases of the registry, as versions of the bundles."""
    found = client.get_registered_model("duration").aliases
    return {
        name: client.get_model_version("duration", version).tags["predictor.version"]
        for name, version in found.items()
    }


def test_a_retraining_leaves_one_run_with_its_child_and_everything_to_review(
    make_settings: MakeSettings, empty_mlflow_db: Path
) -> None:
    settings = make_settings()
    client = copy_db(empty_mlflow_db, settings)
    result = work_on(settings).run(now=SECOND)
    assert result.outcome is RetrainOutcome.PROMOTED
    parent = client.get_run(result.tracking_run)
    [child_id] = [run for run in runs_of(client) if run != result.tracking_run]
    child = client.get_run(child_id)
    assert (parent.info.status, child.info.status) == ("FINISHED", "FINISHED")
    assert child.data.tags["mlflow.parentRunId"] == result.tracking_run
    assert child.data.params["data.fingerprint"] == result.facts.fingerprint
    assert {"crps_log", "coverage_q90", "baseline.global_median.crps_log", "slice.gpu_jobs.crps_log"} <= set(
        child.data.metrics
    )
    assert child.inputs is not None
    assert child.inputs.dataset_inputs[0].dataset.digest == result.facts.fingerprint[:36]
    kept = {
        item.path for folder in ("", "plots", "bundle") for item in client.list_artifacts(child_id, folder)
    }
    assert kept >= {
        "model_card.md", "gate.json", "bundle/model.json", "plots/calibration.png", "plots/pit.png",
        "plots/slices_crps_log.png", "plots/feature_importance.png",
    }  # fmt: skip
    assert str(settings.runs) in parent.info.artifact_uri
    assert aliases_of(client) == {"champion": result.version}
    # the same again
    assert work_on(settings).run(now=SECOND).outcome is RetrainOutcome.NOTHING_TO_DO
    assert len(runs_of(client)) == 2


def test_recording_a_run_again_adds_nothing(make_settings: MakeSettings, empty_mlflow_db: Path) -> None:
    settings = make_settings()
    client = copy_db(empty_mlflow_db, settings)
    result = work_on(settings).run(now=SECOND)
    assert result.record is not None
    bundle = FileModelStore(settings.models.root / "duration", verify=digest_of).resolve("champion").directory
    tracker = open_tracker(settings)
    assert tracker.record(result.record) == result.tracking_run
    assert (bundle.is_dir(), len(runs_of(client))) == (True, 2)
    assert len(client.search_model_versions("name = 'duration'")) == 1


def test_aliases_follow_promotion_refusal_and_rollback(
    make_settings: MakeSettings, empty_mlflow_db: Path, jobs: pd.DataFrame
) -> None:
    settings = make_settings()
    client = copy_db(empty_mlflow_db, settings)
    first = work_on(settings).run(now=datetime(2026, 3, 1, tzinfo=UTC))
    write_table(jobs, settings.data.table)
    second = work_on(settings).run(now=SECOND)
    assert aliases_of(client) == {"champion": second.version, "previous": first.version}
    refused = work_on(settings, bias=-4.0).run(now=datetime(2026, 3, 3, tzinfo=UTC))
    assert aliases_of(client) == {
        "champion": second.version, "previous": first.version, "challenger": refused.version,
    }  # fmt: skip
    store = work_on(settings).store
    open_tracker(settings).follow("duration", store.rollback())
    assert aliases_of(client)["champion"] == first.version
    open_tracker(settings).follow("duration", store.promote(str(refused.version)))
    assert aliases_of(client) == {"champion": refused.version, "previous": first.version}


def test_a_run_that_a_kill_cut_short_is_recorded_anew(
    make_settings: MakeSettings, empty_mlflow_db: Path
) -> None:
    settings = make_settings()
    client = copy_db(empty_mlflow_db, settings)
    result = work_on(settings).run(now=SECOND)
    assert result.record is not None
    client.update_run(result.tracking_run, status="RUNNING")
    other = replace(result.record, params={**result.record.params, "settings.gate.q90_coverage": "changed"})
    run = open_tracker(settings).record(replace(other, bundle=None))
    assert run != result.tracking_run
    assert len(runs_of(client)) == 2
    assert len(client.search_model_versions("name = 'duration'")) == 1


def test_without_any_recorded_run_there_is_nothing_to_follow(make_settings: MakeSettings) -> None:
    settings = make_settings()
    open_tracker(settings).follow("duration", {})
    assert not settings.runs.exists()


def test_an_mlflow_that_does_not_work_is_told_as_such(make_settings: MakeSettings, tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("no database at all, but long enough to be taken for one" * 20)
    settings = make_settings(tracking={"uri": f"sqlite:///{tmp_path / 'broken.db'}"})
    with pytest.raises(PipelineError, match="could not follow"):
        open_tracker(settings).follow("duration", {})


@pytest.mark.slow
def test_the_commands_work_on_the_real_forecaster(
    make_settings: MakeSettings, empty_mlflow_db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = make_settings()
    client = copy_db(empty_mlflow_db, settings)
    config = tmp_path / "c.toml"
    config.write_text(
        f"runs = '{settings.runs}'\n[data]\ntable = '{settings.data.table}'\noutcomes = []\n"
        f"[models]\nroot = '{settings.models.root}'\n"
        "[gate]\nmust_beat_baselines = false\nq90_coverage = [0.6, 1.0]\nq95_coverage = [0.6, 1.0]\n"
    )
    told = ["--config", str(config), "--json"]

    def call(*arguments: str) -> tuple[int, dict[str, object]]:
        code = main([*arguments, *told])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else {}

    code, first = call("retrain")
    assert (code, first["outcome"]) == (0, "promoted")
    version = str(first["version"])
    code, second = call("retrain")
    assert (code, second["outcome"]) == (0, "nothing-to-do")
    # one parent, and a child for each target that the log has data for
    assert sorted(str(client.get_run(run).info.run_name) for run in runs_of(client)) == [
        "duration", f"retrain {version}", "vram",
    ]  # fmt: skip
    assert call("models", "list")[1]["models"] == [{"version": version, "aliases": ["champion"]}]
    assert call("models", "show", "champion")[1]["version"] == version
    assert call("models", "verify") == (0, {"models": [{"version": version, "valid": True, "fault": None}]})
    assert main(["models", "rollback", "--config", str(config)]) == EXIT_REFUSED
    assert "no previous version" in capsys.readouterr().err
    assert main(["models", "show", "champion", "--config", str(config)]) == 0
    assert f"# Model card: duration {version}" in capsys.readouterr().out
    (settings.models.root / "duration" / version / "card.md").write_text("altered")
    assert call("models", "verify", version)[0] == EXIT_REFUSED

"""This module checks what a simulation leaves in MLflow: a run for all, and one for each policy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from mlflow import MlflowClient

from pipelines.settings import PipelineSettings
from pipelines.tracking import MlflowTracker

# MLflow 3.17 loads runs by a strategy that SQLAlchemy 2.1 deprecates; tests ask MLflow directly too
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


def test_every_policy_has_a_run_of_its_own_under_that_of_the_simulation(
    make_settings: Callable[..., PipelineSettings], empty_mlflow_db: Path
) -> None:
    settings = make_settings()
    settings.runs.mkdir(parents=True, exist_ok=True)
    shutil.copy(empty_mlflow_db, settings.runs / "mlflow.db")
    scores = {
        "mean_wait_s": 12.5,
        "jobs": 3,
        "p99_wait_s": None,
        "promises": {"made": 2, "coverage_q90": None},
    }
    policies = {"easy": scores, "ours:reserve.heads=5": scores}
    document = {
        "policies": policies,
        "jobs_per_second": 10.0,
        "trace": {"table": "jobs.parquet", "jobs": 3},
    }
    tracker = MlflowTracker(
        uri=settings.tracking_uri, artifact_root=settings.artifact_root, experiment="simulations"
    )
    parent = tracker.record_simulation(document, {"gantt_ours:reserve.heads=5.png": Figure()})
    client = MlflowClient(tracking_uri=settings.tracking_uri)
    experiment = client.get_experiment_by_name("simulations")
    assert experiment is not None
    children = client.search_runs([experiment.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'")
    assert {run.info.run_name for run in children} == set(policies)
    for run in children:
        assert run.data.metrics == {"mean_wait_s": 12.5, "jobs": 3.0, "promises.made": 2.0}
        assert run.data.params["table"] == "jobs.parquet"
    assert {each.path for each in client.list_artifacts(parent)} == {"plots", "simulation.json"}

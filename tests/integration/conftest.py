"""This module holds what the tests of whole batch jobs share: a job table and settings in a folder."""

import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from pipelines.settings import PipelineSettings
from pipelines.tracking_access import silence_telemetry
from predictor.data.synthetic import WorkloadSpec, generate
from predictor.data.table import write_table
from tests.services.postgres import Postgres, postgres_or_skip


@pytest.fixture(scope="session")
def jobs() -> pd.DataFrame:
    """A synthetic log of a month, in the order of submission."""
    return generate(WorkloadSpec(jobs=2000, days=30.0, users=12, random_state=1)).frame


@pytest.fixture
def make_settings(tmp_path: Path, jobs: pd.DataFrame) -> Callable[..., PipelineSettings]:
    """Return settings whose every path is in a new folder; the table holds the given share of the log."""

    def make(share: float = 0.8, **sections: object) -> PipelineSettings:
        table = tmp_path / "canonical" / "jobs.parquet"
        if not table.exists():
            write_table(jobs.iloc[: int(share * len(jobs))], table)
        return PipelineSettings.model_validate(
            {
                "runs": tmp_path / "runs",
                "data": {"table": table, "outcomes": ()},
                "models": {"root": tmp_path / "models"},
                "gate": {"q90_coverage": (0.7, 1.0), "q95_coverage": (0.7, 1.0)},
                **sections,
            }
        )

    return make


@pytest.fixture(scope="session")
def empty_mlflow_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its tables, which take ten seconds to make; copy it."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    silence_telemetry()
    with warnings.catch_warnings():  # MLflow 3.17 loads runs by a strategy that SQLAlchemy 2.1 deprecates
        warnings.filterwarnings(
            "ignore", message="The ``noload`` loader strategy", category=DeprecationWarning
        )
        client = import_module("mlflow").MlflowClient(tracking_uri=f"sqlite:///{path}")
        client.search_experiments()
    return path


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """A PostgreSQL server that the tests of a module may stop and start again."""
    yield from postgres_or_skip()

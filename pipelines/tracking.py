"""This module keeps retrainings in MLflow: runs, data, scores, plots, cards, bundles, versions and aliases.

Nothing else imports mlflow, and commands import this module only when they need it. The model store is the
truth; what is kept here follows it, and keeping the same run again adds nothing.
"""

import json
import logging
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from pipelines.measured_retrain import MeasuredRecord
from pipelines.model_card import model_card, summary_params
from pipelines.plots import feature_importance, report_figures
from pipelines.reports import WindowReport
from pipelines.run_record import RunRecord
from predictor.errors import PipelineError
from predictor.forecasting.store import ALIASES, ModelRef

_VERSION_TAG = "predictor.version"
_PARENT_TAG = "mlflow.parentRunId"  # the tag by which MLflow nests runs
_PARAMS_PER_BATCH = 100
_METRICS_PER_BATCH = 1000
_DIGEST_LENGTH = 36  # the longest digest of a dataset that MLflow takes


class MlflowTracker:
    """Runs and the model registry on one MLflow store.

    Args:
        uri: tracking URI, such as ``sqlite:////srv/mlflow.db`` or that of a tracking server.
        artifact_root: folder of artifacts; None leaves it to the server.
        experiment: name of the experiment.
    """

    def __init__(self, *, uri: str, artifact_root: Path | None, experiment: str) -> None:
        self._uri = uri
        self._artifact_root = artifact_root
        self._experiment = experiment
        is_file = uri.startswith("sqlite:///")
        self._database = Path(uri.removeprefix("sqlite:///")) if is_file else None

    def record(self, record: RunRecord) -> str:
        """Keep a run with a child run for its target, and register its bundle; returns the parent's id."""
        with _quiet("the run could not be recorded", self._uri):
            if self._database is not None:
                self._database.parent.mkdir(parents=True, exist_ok=True)
            client = self._client()
            experiment = self._experiment_id(client)
            parent, child = _find(client, experiment, record)
            if parent is None or child is None:
                parent = _create(client, experiment, record, parent=None)
                _log_params(client, parent, summary_params(record))
                _log_dataset(client, parent, record)
                child = _create(client, experiment, record, parent=parent)
                _log_target(client, child, record)
                client.set_terminated(child.info.run_id, "FINISHED")
                client.set_terminated(parent.info.run_id, "FINISHED")
            _register(client, child, record.target, record.version, _outcome(record))
            return str(parent.info.run_id)

    def record_measured(self, record: MeasuredRecord, parent: str) -> str:
        """Keep a run of a target that learns from measurements, below that of the whole retraining.

        Args:
            parent: id of that run, "" or gone = one is made.
        """
        with _quiet("the run could not be recorded", self._uri):
            if self._database is not None:
                self._database.parent.mkdir(parents=True, exist_ok=True)
            client = self._client()
            experiment = self._experiment_id(client)
            tags = {_VERSION_TAG: record.version, "predictor.target": record.target}
            runs = client.search_runs([experiment], f"tags.`{_VERSION_TAG}` = '{record.version}'")
            children = [run for run in runs if _PARENT_TAG in run.data.tags]
            if len(children) == 1 and children[0].info.status == "FINISHED":
                child = children[0]
            else:
                for run in runs:
                    client.delete_run(run.info.run_id)
                whole = parent if parent and _is_there(client, parent) else ""
                if not whole:
                    made = client.create_run(experiment, tags=tags, run_name=f"retrain {record.version}")
                    whole = str(made.info.run_id)
                    client.set_terminated(whole, "FINISHED")
                child = client.create_run(
                    experiment, run_name=record.target,
                    tags={**tags, _PARENT_TAG: whole, "predictor.outcome": _verdict(record.decision.passed)},
                )  # fmt: skip
                _log_measured(client, child, record)
                client.set_terminated(child.info.run_id, "FINISHED")
            _register(client, child, record.target, record.version, _verdict(record.decision.passed))
            return str(child.info.run_id)

    def follow(self, target: str, aliases: Mapping[str, ModelRef]) -> None:
        """Make the aliases of the registered model equal to those of the store."""
        if self._database is not None and not self._database.exists():
            return  # nothing was ever recorded
        with _quiet("the aliases of the registry could not follow those of the store", self._uri):
            client = self._client()
            versions = {tag: found.version for tag, found in _versions(client, target).items()}
            if not versions:
                return  # nothing was ever registered
            stored = client.get_registered_model(target).aliases
            for alias in ALIASES:
                wanted = versions.get(aliases[alias].version) if alias in aliases else None
                if wanted is not None and str(stored.get(alias)) != str(wanted):
                    client.set_registered_model_alias(target, alias, wanted)
                elif wanted is None and alias in stored:
                    client.delete_registered_model_alias(target, alias)

    def record_simulation(self, document: Mapping[str, Any], figures: Mapping[str, Figure]) -> str:
        """Keep a simulation: a run for each policy under one for all; returns the id of the latter."""
        with _quiet("the simulation could not be recorded", self._uri):
            if self._database is not None:
                self._database.parent.mkdir(parents=True, exist_ok=True)
            client = self._client()
            experiment = self._experiment_id(client)
            params = [Param(name, str(value)) for name, value in document["trace"].items()]
            parent = client.create_run(experiment, run_name=f"simulate {document['trace']['table']}")
            parent_id = str(parent.info.run_id)
            client.log_batch(parent_id, params=params)
            client.log_dict(parent_id, dict(document), "simulation.json")
            for name, figure in figures.items():
                client.log_figure(parent_id, figure, f"plots/{name.replace(':', '_')}")
            now_ms = int(time.time() * 1000)
            for policy, scores in document["policies"].items():
                child = client.create_run(experiment, tags={_PARENT_TAG: parent_id}, run_name=policy)
                flat = {**scores, **{f"promises.{name}": each for name, each in scores["promises"].items()}}
                metrics = [
                    Metric(name, float(value), now_ms, 0)
                    for name, value in flat.items()
                    if isinstance(value, int | float)
                ]
                client.log_batch(child.info.run_id, metrics=metrics, params=params)
                client.set_terminated(child.info.run_id, "FINISHED")
            client.set_terminated(parent_id, "FINISHED")
            return parent_id

    def _client(self) -> MlflowClient:
        return MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)

    def _experiment_id(self, client: MlflowClient) -> str:
        found = client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        place = None
        if self._artifact_root is not None:
            self._artifact_root.mkdir(parents=True, exist_ok=True)
            place = self._artifact_root.as_uri()
        return client.create_experiment(self._experiment, artifact_location=place)


def _find(client: MlflowClient, experiment: str, record: RunRecord) -> tuple[Run | None, Run | None]:
    """Return the run of a version and its child; what a kill cut short is removed instead."""
    runs = client.search_runs([experiment], f"tags.`{_VERSION_TAG}` = '{record.version}'")
    parents = [run for run in runs if _PARENT_TAG not in run.data.tags]
    children = [run for run in runs if _PARENT_TAG in run.data.tags]
    if len(parents) == len(children) == 1 and parents[0].info.status == "FINISHED":
        return parents[0], children[0]
    for run in runs:
        client.delete_run(run.info.run_id)
    return None, None


def _create(client: MlflowClient, experiment: str, record: RunRecord, parent: Run | None) -> Run:
    tags = {_VERSION_TAG: record.version, "predictor.outcome": _outcome(record)}
    if parent is not None:
        tags[_PARENT_TAG] = parent.info.run_id
    name = f"retrain {record.version}" if parent is None else record.target
    return client.create_run(experiment, tags=tags, run_name=name)


def _log_target(client: MlflowClient, run: Run, record: RunRecord) -> None:
    run_id = run.info.run_id
    report = _together(record)
    _log_params(client, run, summary_params(record))
    _log_dataset(client, run, record)
    now_ms = int(time.time() * 1000)
    metrics = [Metric(name, value, now_ms, 0) for name, value in _metrics(record).items()]
    for start in range(0, len(metrics), _METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _METRICS_PER_BATCH])
    figures = report_figures(report, "challenger")
    importance = feature_importance(record.importance)
    if importance is not None:
        figures["feature_importance.png"] = importance
    for name, figure in figures.items():
        client.log_figure(run_id, figure, f"plots/{name}")
    client.log_text(run_id, model_card(record), "model_card.md")
    client.log_dict(run_id, record.decision.to_json(), "gate.json")
    if record.bundle is not None:
        client.log_artifacts(run_id, str(record.bundle), "bundle")


def _together(record: RunRecord) -> WindowReport:
    """Return one report with the challenger, the champion and all baselines."""
    ours, baselines = record.challenger_report, record.baseline_report
    models = {"challenger": ours.only, **baselines.models}
    others = {part.name: dict(part.models) for part in baselines.slices if part.is_comparable}
    if record.champion_report is not None:
        models["champion"] = record.champion_report.only
        for part in record.champion_report.slices:
            if part.is_comparable:
                others.setdefault(part.name, {})["champion"] = next(iter(part.models.values()))
    slices = tuple(
        replace(part, models={"challenger": next(iter(part.models.values())), **others.get(part.name, {})})
        for part in ours.slices
    )
    return WindowReport(rows=ours.rows, models=models, slices=slices)


def _metrics(record: RunRecord) -> dict[str, float]:
    named = dict(record.challenger_report.only.flat())
    if record.champion_report is not None:
        named |= {f"champion.{name}": value for name, value in record.champion_report.only.flat().items()}
    for model, scores in record.baseline_report.models.items():
        named |= {f"baseline.{model}.{name}": value for name, value in scores.flat().items()}
    for part in record.challenger_report.slices:
        scores = next(iter(part.models.values()))
        named |= {
            f"slice.{part.name}.{name}": value for name, value in scores.flat().items() if name == "crps_log"
        }
    return {_metric_name(name): value for name, value in named.items()}


def _metric_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "_-. /:" else "_" for sign in name)[:250]


def _log_params(client: MlflowClient, run: Run, params: Mapping[str, str]) -> None:
    wanted = [Param(name, value) for name, value in params.items()]
    for start in range(0, len(wanted), _PARAMS_PER_BATCH):
        client.log_batch(run.info.run_id, params=wanted[start : start + _PARAMS_PER_BATCH])


def _log_dataset(client: MlflowClient, run: Run, record: RunRecord) -> None:
    data = Dataset(
        name="jobs", digest=record.facts.fingerprint[:_DIGEST_LENGTH], source_type="local",
        source=f'{{"uri": "{record.table.as_posix()}"}}', profile=f'{{"num_rows": {record.facts.rows}}}',
    )  # fmt: skip
    client.log_inputs(run.info.run_id, [DatasetInput(data, [InputTag("mlflow.data.context", "training")])])


def _register(client: MlflowClient, run: Run, target: str, version: str, outcome: str) -> None:
    if version in _versions(client, target):
        return
    if not client.search_registered_models(f"name = '{target}'"):
        client.create_registered_model(target)
    client.create_model_version(
        target,
        source=f"{run.info.artifact_uri}/bundle",
        run_id=run.info.run_id,
        tags={_VERSION_TAG: version, "predictor.outcome": outcome},
    )


def _log_measured(client: MlflowClient, run: Run, record: MeasuredRecord) -> None:
    run_id = run.info.run_id
    _log_params(client, run, {name: value[:500] for name, value in record.params.items()})
    judgement, now_ms = record.judgement, int(time.time() * 1000)
    named = dict(judgement.metrics)
    named |= {f"baseline.{name}.{judgement.score}": value for name, value in judgement.baselines.items()}
    metrics = [
        Metric(_metric_name(name), value, now_ms, 0) for name, value in named.items() if math.isfinite(value)
    ]
    for start in range(0, len(metrics), _METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _METRICS_PER_BATCH])
    data = Dataset(
        name=f"{record.target} measurements", digest=record.data.fingerprint[:_DIGEST_LENGTH],
        source_type="local", source=json.dumps({"sources": record.data.sources}),
        profile=json.dumps({"num_rows": record.data.rows}),
    )  # fmt: skip
    client.log_inputs(run_id, [DatasetInput(data, [InputTag("mlflow.data.context", "training")])])
    client.log_dict(run_id, {**judgement.to_json(), "gate": record.decision.to_json()}, "report.json")
    client.log_text(run_id, record.card, "model_card.md")
    for plot in sorted(record.plots.glob("*.png")):
        client.log_artifact(run_id, str(plot), "plots")
    client.log_artifacts(run_id, str(record.bundle), "bundle")


def _is_there(client: MlflowClient, run_id: str) -> bool:
    try:
        return str(client.get_run(run_id).info.lifecycle_stage) == "active"
    except MlflowException:
        return False


def _versions(client: MlflowClient, target: str) -> dict[str, ModelVersion]:
    """Return the registered versions by the version of their bundle."""
    found = client.search_model_versions(f"name = '{target}'")
    return {version.tags[_VERSION_TAG]: version for version in found if _VERSION_TAG in version.tags}


def _outcome(record: RunRecord) -> str:
    return _verdict(record.decision.passed)


def _verdict(passed: bool) -> str:
    return "promoted" if passed else "refused"


@contextmanager
def _quiet(failure: str, uri: str) -> Iterator[None]:
    """Keep MLflow's own notices from the user, and tell its errors in our words."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # MLflow 3.17 loads runs by a strategy that SQLAlchemy 2.1 deprecates; it is not ours to change
            warnings.filterwarnings(
                "ignore", message="The ``noload`` loader strategy", category=DeprecationWarning
            )
            yield
    except Exception as error:  # MLflow lets through whatever its database, transport or file store raises
        told = next(iter(str(error).splitlines()), type(error).__name__)
        raise PipelineError(
            f"{failure} in MLflow at '{uri}': {told}; the models are published as the store says; "
            f"run the command again when MLflow answers"
        ) from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

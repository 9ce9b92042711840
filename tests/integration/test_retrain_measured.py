"""This module follows retrainings of memory and topology from measurements to the alias and to MLflow."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from pipelines.measured_gate import MeasuredCheckCode
from pipelines.measured_retrain import MeasuredOutcome, MeasuredRecord, MeasuredResult, MeasuredRetraining
from pipelines.settings import PipelineSettings
from pipelines.targets import measured_targets, store_of
from predictor.cli import EXIT_USAGE, main
from predictor.contracts.cluster import Placement
from predictor.contracts.topology import TopologyJob
from predictor.data.measurements.placements import read_placements
from predictor.data.table import write_table
from predictor.errors import ArgumentError, BundleError
from predictor.evaluation.topology_backtest import TopologyReport, backtest_topology
from predictor.forecasting.memory.bundle import read_memory_bundle
from predictor.forecasting.memory.jobs import table_observations
from predictor.forecasting.store import FileModelStore, ModelRef
from predictor.forecasting.topology.bundle import read_topology_bundle
from tests.integration.fake_domain import digest_of, fake_domain
from tests.integration.measured_data import with_peaks, without_peaks, write_placements

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
MakeSettings = Callable[..., PipelineSettings]
NOON, NIGHT = datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)


@dataclass
class FakeTracker:
    """Remembers what it was told."""

    records: list[MeasuredRecord] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)

    def record_measured(self, record: MeasuredRecord, parent: str) -> str:
        self.records.append(record)
        self.parents.append(parent)
        return f"run-{len(self.records)}"

    def follow(self, target: str, aliases: Mapping[str, ModelRef]) -> None:
        self.aliases = {f"{target}/{name}": ref.version for name, ref in aliases.items()}


def retrain(
    settings: PipelineSettings,
    target: str,
    jobs: pd.DataFrame,
    *,
    tracker: FakeTracker | None = None,
    now: datetime = NOON,
    force: bool = False,
) -> MeasuredResult:
    kept = tracker or FakeTracker()
    found, section = measured_targets(settings)[target]
    work = MeasuredRetraining(
        settings=settings, section=section, target=found, store=store_of(settings, target),
        tracker=lambda: kept,
    )  # fmt: skip
    return work.run(jobs, now=now, parent="whole", force=force)


def named(settings: PipelineSettings, target: str) -> dict[str, str]:
    return {name: ref.version for name, ref in store_of(settings, target).aliases().items()}


def topology_settings(make: MakeSettings, folder: Path, **section: object) -> PipelineSettings:
    """Settings on a table whose truth is one of the baselines, which cannot be beaten there."""
    path = write_placements(folder / "placements.csv")
    return make(topology={"measurements": [str(path)], "must_beat_baselines": False, **section})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> TopologyReport:
    """The backtest of the table, which takes seconds."""
    path = write_placements(tmp_path_factory.mktemp("placements") / "p.csv")
    return backtest_topology(read_placements(pd.read_csv(path, dtype={"placement": "str"})))


@pytest.fixture
def backtested(report: TopologyReport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backtests of placements give the one report."""
    monkeypatch.setattr("pipelines.measured_topology.backtest_topology", lambda *_, **__: report)


@pytest.fixture(scope="module")
def peaks(jobs: pd.DataFrame) -> pd.DataFrame:
    return with_peaks(jobs)


def test_peaks_of_the_job_table_become_a_champion_that_beats_its_baselines(
    make_settings: MakeSettings, peaks: pd.DataFrame
) -> None:
    settings, tracker = make_settings(), FakeTracker()
    result = retrain(settings, "vram", peaks, tracker=tracker)
    assert result.outcome is MeasuredOutcome.PROMOTED, result.decision
    assert named(settings, "vram") == {"champion": result.version}
    assert tracker.aliases == {"vram/champion": result.version}
    assert tracker.parents == ["whole"]
    assert result.judgement is not None
    assert result.judgement.judged_on == ("jobs/later_jobs",)
    assert set(result.judgement.baselines) == {"last_run", "user_max"}
    assert result.judgement.ours < min(result.judgement.baselines.values())
    directory = store_of(settings, "vram").resolve("champion").directory
    bundle = read_memory_bundle(directory)
    known, _ = table_observations(peaks)
    errors = [
        abs(answer.p50_mib / one.peak_mib - 1.0)
        for one, answer in zip(known, bundle.model.predict([one.request for one in known]), strict=True)
    ]
    assert sum(errors) / len(errors) < 0.1
    card = (directory / "card.md").read_text()
    assert all(text in card for text in ("240 jobs with a peak", "user_max", "should not be trusted"))


@pytest.mark.usefixtures("backtested")
def test_measured_placements_become_a_champion(make_settings: MakeSettings, tmp_path: Path) -> None:
    settings = topology_settings(make_settings, tmp_path)
    result = retrain(settings, "topology", pd.DataFrame())
    assert result.outcome is MeasuredOutcome.PROMOTED, result.decision
    bundle = read_topology_bundle(store_of(settings, "topology").resolve("champion").directory)
    shapes = [(4,), (1, 1, 1, 1), (2, 2)]
    ranking = bundle.model.rank(
        TopologyJob(signature="app1", local_batch=16.0),
        [Placement(gpu_type="", gpus_per_node=shape) for shape in shapes], cluster="alpha",
    )  # fmt: skip
    assert [one.index for one in ranking] == [1, 2, 0]
    assert not ranking.no_history


def topology_one(make: MakeSettings, path: Path) -> PipelineSettings:
    return make(topology={"measurements": [str(path)]})


def test_a_site_with_one_cluster_is_judged_too(make_settings: MakeSettings, tmp_path: Path) -> None:
    path = write_placements(tmp_path / "own.csv", clusters=("alpha",))
    result = retrain(topology_one(make_settings, path), "topology", pd.DataFrame())
    assert result.judgement is not None
    assert result.judgement.judged_on == ("alpha/unseen_placement",)


@pytest.mark.usefixtures("backtested")
def test_the_same_input_is_nothing_to_do_and_force_trains_anew(
    make_settings: MakeSettings, tmp_path: Path
) -> None:
    settings, tracker = topology_settings(make_settings, tmp_path), FakeTracker()
    first = retrain(settings, "topology", pd.DataFrame(), tracker=tracker)
    again = retrain(settings, "topology", pd.DataFrame(), tracker=tracker, now=NIGHT)
    assert (again.outcome, again.version) == (MeasuredOutcome.NOTHING_TO_DO, first.version)
    forced = retrain(settings, "topology", pd.DataFrame(), tracker=tracker, now=NIGHT, force=True)
    assert forced.outcome is MeasuredOutcome.PROMOTED
    assert named(settings, "topology") == {"champion": forced.version, "previous": first.version}
    assert len(tracker.records) == 2
    assert forced.decision is not None
    assert MeasuredCheckCode.SCORE_VS_CHAMPION in {one.code for one in forced.decision.checks}
    changed = topology_settings(make_settings, tmp_path, max_worsening=0.2)
    assert retrain(changed, "topology", pd.DataFrame()).outcome is not MeasuredOutcome.NOTHING_TO_DO


@pytest.mark.usefixtures("backtested")
def test_what_the_gate_refuses_is_challenger_only(make_settings: MakeSettings, tmp_path: Path) -> None:
    settings = topology_settings(make_settings, tmp_path)
    champion = retrain(settings, "topology", pd.DataFrame())
    strict = topology_settings(make_settings, tmp_path, coverage=[0.0, 0.1])
    result = retrain(strict, "topology", pd.DataFrame(), now=NIGHT)
    assert result.outcome is MeasuredOutcome.REFUSED
    assert named(settings, "topology") == {"champion": champion.version, "challenger": result.version}
    assert result.decision is not None
    assert [one.code for one in result.decision.checks if not one.passed] == [
        MeasuredCheckCode.BOUND_COVERAGE
    ]


@pytest.mark.usefixtures("backtested")
def test_a_run_that_was_cut_short_goes_on_where_it_stopped(
    make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = topology_settings(make_settings, tmp_path)

    class StoppedError(Exception):
        pass

    def stop(*_: object, **__: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.measured_topology.write_topology_bundle", stop)
        with pytest.raises(StoppedError):
            retrain(settings, "topology", pd.DataFrame())
    assert named(settings, "topology") == {}
    monkeypatch.setattr("pipelines.measured_topology.backtest_topology", stop)  # is not asked again
    result = retrain(settings, "topology", pd.DataFrame(), now=NIGHT)
    assert result.outcome is MeasuredOutcome.PROMOTED
    assert str(result.version).startswith("20260301T120000Z-")


def test_targets_without_enough_data_are_skipped_with_the_reason(
    make_settings: MakeSettings, peaks: pd.DataFrame
) -> None:
    settings = make_settings()
    nothing = retrain(settings, "topology", peaks)
    few = retrain(settings, "vram", peaks.iloc[-10:])
    assert nothing.outcome is few.outcome is MeasuredOutcome.SKIPPED
    assert "[topology] measurements" in nothing.reason
    assert "only 10 jobs have a peak" in few.reason
    assert not (settings.models.root / "vram").exists()


def test_patterns_that_match_nothing_are_all_told(make_settings: MakeSettings) -> None:
    settings = make_settings(memory={"measurements": ["none/*.csv", "no.csv"]})
    with pytest.raises(ArgumentError) as caught:
        retrain(settings, "vram", pd.DataFrame())
    assert len(caught.value.faults) == 2


@pytest.mark.usefixtures("backtested")
def test_a_damaged_bundle_is_found_and_never_promoted(make_settings: MakeSettings, tmp_path: Path) -> None:
    settings = topology_settings(make_settings, tmp_path)
    version = str(retrain(settings, "topology", pd.DataFrame()).version)
    (store_of(settings, "topology").directory(version) / "card.md").write_text("other")
    with pytest.raises(BundleError):
        store_of(settings, "topology").verify(version)


@pytest.mark.usefixtures("backtested")
def test_the_command_hangs_all_targets_under_one_run_and_manages_their_versions(
    make_settings: MakeSettings,
    jobs: pd.DataFrame,
    tmp_path: Path,
    empty_mlflow_db: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = make_settings()
    write_table(without_peaks(jobs), settings.data.table)
    shutil.copy(empty_mlflow_db, tmp_path / "mlflow.db")
    path = write_placements(tmp_path / "placements.csv")
    config = tmp_path / "site.toml"
    config.write_text(
        f"runs = '{settings.runs}'\n[data]\ntable = '{settings.data.table}'\noutcomes = []\n"
        f"[models]\nroot = '{settings.models.root}'\n"
        f"[topology]\nmeasurements = ['{path}']\nmust_beat_baselines = false\n"
        f"[tracking]\nuri = 'sqlite:///{tmp_path / 'mlflow.db'}'\n"
        "[gate]\nq90_coverage = [0.7, 1.0]\nq95_coverage = [0.7, 1.0]\n"
    )

    def open_store(settings: PipelineSettings, target: str) -> FileModelStore:
        if target == "duration":
            return FileModelStore(settings.models.root / target, verify=digest_of)
        return store_of(settings, target)

    monkeypatch.setattr("pipelines.commands.retrain.duration_domain", fake_domain)
    monkeypatch.setattr("pipelines.commands.retrain.store_of", open_store)
    told = ["--config", str(config), "--json"]
    assert main(["retrain", *told]) == 0
    document = json.loads(capsys.readouterr().out)
    topology = document["targets"]["topology"]
    assert (document["outcome"], topology["outcome"]) == ("promoted", "promoted")
    assert document["targets"]["vram"]["outcome"] == "skipped"
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    child = client.get_run(topology["tracking_run"])
    assert child.data.tags["mlflow.parentRunId"] == document["tracking_run"]
    assert child.data.metrics["regret"] == pytest.approx(topology["scores"]["ours"])
    assert "baseline.fewest_nodes.regret" in child.data.metrics
    kept = {item.path for item in client.list_artifacts(child.info.run_id)}
    assert {"bundle", "plots", "model_card.md", "report.json"} <= kept
    assert set(client.get_registered_model("topology").aliases) == {"champion"}
    assert main(["models", "verify", "--target", "topology", *told]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["valid"]
    assert main(["models", "show", "champion", "--target", "topology", "--config", str(config)]) == 0
    assert "unseen_placement" in capsys.readouterr().out
    assert main(["models", "list", "--target", "other", *told]) == EXIT_USAGE
    capsys.readouterr()
    assert main(["retrain", "--config", str(config)]) == 0
    assert "topology: nothing to do" in capsys.readouterr().out.replace("\n", " ")
    write_placements(path, seed=1)
    assert main(["retrain", *told]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["outcome"] == "nothing-to-do"
    other = client.get_run(again["targets"]["topology"]["tracking_run"])
    assert other.data.tags["mlflow.parentRunId"] == document["tracking_run"]
    assert set(client.get_registered_model("topology").aliases) == {"champion", "previous"}

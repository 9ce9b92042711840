"""This module follows retrainings from the job table to the alias: idempotence, gate, kills, roll-back."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from pipelines.domain import Domain
from pipelines.duration_domain import duration_domain
from pipelines.gate import CheckCode
from pipelines.lock import hold_lock
from pipelines.retrain import Retraining, RetrainOutcome, RetrainResult
from pipelines.run_record import RunRecord
from pipelines.settings import PipelineSettings
from predictor.data.table import write_table
from predictor.errors import ArgumentError, EmptyInputError, LockHeldError, PipelineError
from predictor.forecasting.store import FileModelStore, ModelRef
from predictor.monitoring.watched import DriftReference, learn_reference
from tests.integration.fake_domain import FakeTrainer, digest_of, fake_domain

MakeSettings = Callable[..., PipelineSettings]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class FakeTracker:
    """Remembers what it was told."""

    records: list[RunRecord] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    fails: bool = False

    def record(self, record: RunRecord) -> str:
        if self.fails:
            raise PipelineError("the tracking server does not answer")
        self.records.append(record)
        return f"run-{len(self.records)}"

    def follow(self, target: str, aliases: Mapping[str, ModelRef]) -> None:  # noqa: ARG002
        self.aliases = {name: ref.version for name, ref in aliases.items()}


def store_of(settings: PipelineSettings) -> FileModelStore:
    return FileModelStore(settings.models.root / "duration", verify=digest_of)


def retrain(
    settings: PipelineSettings,
    domain: Domain | None = None,
    tracker: FakeTracker | None = None,
    *,
    now: datetime = NOON,
    force: bool = False,
) -> RetrainResult:
    kept = tracker or FakeTracker()
    work = Retraining(
        settings=settings, domain=domain or fake_domain(), store=store_of(settings), tracker=lambda: kept
    )
    return work.run(now=now, force=force)


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def named(settings: PipelineSettings) -> dict[str, str]:
    return {name: ref.version for name, ref in store_of(settings).aliases().items()}


def more_data(settings: PipelineSettings, jobs: pd.DataFrame, share: float) -> None:
    write_table(jobs.iloc[: int(share * len(jobs))], settings.data.table)


def test_the_first_run_publishes_a_champion(make_settings: MakeSettings) -> None:
    settings, tracker = make_settings(), FakeTracker()
    result = retrain(settings, tracker=tracker)
    assert result.outcome is RetrainOutcome.PROMOTED
    assert named(settings) == {"champion": result.version}
    assert tracker.aliases == {"champion": result.version}
    assert str(result.version).startswith("20260301T120000Z-")
    [record] = tracker.records
    assert record.champion is None
    assert {check.code for check in record.decision.checks} == {
        CheckCode.SCORES_FINITE, CheckCode.BEATS_BASELINES, CheckCode.COVERAGE_Q90, CheckCode.COVERAGE_Q95,
    }  # fmt: skip


def test_the_published_bundle_has_learned_from_all_jobs_and_carries_its_card(
    make_settings: MakeSettings,
) -> None:
    settings = make_settings()
    result = retrain(settings)
    directory = store_of(settings).resolve("champion").directory
    assert json.loads((directory / "model.json").read_text())["model"]["cut_s"] == result.facts.known_until_s
    card = (directory / "card.md").read_text()
    assert result.facts.fingerprint in card
    assert "global_median" in card
    assert "Promotion gate: passed" in card


def test_the_published_bundle_says_what_drift_is_measured_against(
    make_settings: MakeSettings, jobs: pd.DataFrame
) -> None:
    settings = make_settings()
    retrain(settings, replace(fake_domain(), drift_reference=duration_domain().drift_reference))
    directory = store_of(settings).resolve("champion").directory
    metadata = json.loads((directory / "metadata.json").read_text())
    learned = learn_reference(jobs.iloc[: int(0.8 * len(jobs))])
    assert DriftReference.from_json(metadata["drift"]) == learned


def test_a_second_run_on_the_same_data_changes_nothing(make_settings: MakeSettings) -> None:
    settings, tracker = make_settings(), FakeTracker()
    first = retrain(settings, tracker=tracker)
    before = tree(settings.models.root)
    runs = tree(settings.runs)
    second = retrain(settings, tracker=tracker, now=datetime(2026, 3, 2, tzinfo=UTC))
    assert second.outcome is RetrainOutcome.NOTHING_TO_DO
    assert second.version == first.version
    assert tree(settings.models.root) == before
    assert {name for name, digest in tree(settings.runs).items() if runs.get(name) != digest} <= {
        "retrain/lock"
    }
    assert len(tracker.records) == 1


def test_new_data_make_a_new_champion_and_the_old_one_previous(
    make_settings: MakeSettings, jobs: pd.DataFrame
) -> None:
    settings = make_settings()
    first = retrain(settings)
    more_data(settings, jobs, 1.0)
    second = retrain(settings, now=datetime(2026, 3, 2, tzinfo=UTC))
    assert second.outcome is RetrainOutcome.PROMOTED
    assert named(settings) == {"champion": second.version, "previous": first.version}


def test_a_worse_challenger_is_refused_with_its_reasons(
    make_settings: MakeSettings, jobs: pd.DataFrame
) -> None:
    settings, tracker = make_settings(), FakeTracker()
    first = retrain(settings)
    more_data(settings, jobs, 1.0)
    second = retrain(settings, fake_domain(bias=-4.0), tracker)
    assert second.outcome is RetrainOutcome.REFUSED
    assert named(settings) == {"champion": first.version, "challenger": second.version}
    [record] = tracker.records
    codes = {reason.code for reason in record.decision.reasons}
    assert {CheckCode.CRPS_VS_CHAMPION, CheckCode.LOG_RATIO_VS_CHAMPION} <= codes
    numbers = next(r.numbers for r in record.decision.reasons if r.code is CheckCode.CRPS_VS_CHAMPION)
    assert numbers["challenger"] > numbers["champion"] * (1 + numbers["limit"])


def test_a_refused_run_is_not_repeated_on_the_same_data(make_settings: MakeSettings) -> None:
    settings = make_settings()
    retrain(settings)
    refused = retrain(settings, fake_domain(bias=-4.0))
    again = retrain(settings, fake_domain(bias=-4.0))
    assert (again.outcome, again.last_outcome) == (RetrainOutcome.NOTHING_TO_DO, "refused")
    assert again.version == refused.version


def test_a_refused_challenger_can_be_promoted_by_hand(make_settings: MakeSettings) -> None:
    settings = make_settings()
    first = retrain(settings)
    second = retrain(settings, fake_domain(bias=-4.0))
    store_of(settings).promote(str(second.version))
    assert named(settings) == {"champion": second.version, "previous": first.version}


def test_enough_unseen_jobs_become_the_window(make_settings: MakeSettings, jobs: pd.DataFrame) -> None:
    settings = make_settings(0.5, evaluation={"unseen_rows": 200, "max_share": 0.9, "window_days": 20})
    first = retrain(settings)
    more_data(settings, jobs, 1.0)
    tracker = FakeTracker()
    retrain(settings, tracker=tracker)
    assert tracker.records[0].window.from_s == first.facts.known_until_s
    assert not tracker.records[0].window.champion_saw


def test_other_features_or_settings_are_another_run(make_settings: MakeSettings) -> None:
    settings = make_settings()
    first = retrain(settings)
    other = Domain(
        target="duration", trainer=FakeTrainer(feature_spec="fake-2"),
        evaluator=fake_domain().evaluator, bundles=fake_domain().bundles,
    )  # fmt: skip
    second = retrain(settings, other, now=datetime(2026, 3, 2, tzinfo=UTC))
    assert second.outcome is RetrainOutcome.PROMOTED
    assert second.version != first.version


def test_a_forced_run_trains_anew(make_settings: MakeSettings) -> None:
    settings = make_settings()
    first = retrain(settings)
    second = retrain(settings, now=datetime(2026, 3, 2, tzinfo=UTC), force=True)
    assert second.outcome is RetrainOutcome.PROMOTED
    assert named(settings) == {"champion": second.version, "previous": first.version}


def test_a_lost_store_is_filled_again(make_settings: MakeSettings) -> None:
    settings = make_settings()
    retrain(settings)
    (settings.models.root / "duration" / "aliases.json").unlink()
    assert retrain(settings).outcome is RetrainOutcome.PROMOTED
    assert "champion" in named(settings)


def test_a_broken_champion_does_not_keep_its_successor_out(
    make_settings: MakeSettings, jobs: pd.DataFrame
) -> None:
    settings, tracker = make_settings(), FakeTracker()
    retrain(settings)
    (store_of(settings).resolve("champion").directory / "card.md").write_text("altered")
    more_data(settings, jobs, 1.0)
    assert retrain(settings, tracker=tracker).outcome is RetrainOutcome.PROMOTED
    assert "bundle-corrupt" in tracker.records[0].champion_note


def test_a_champion_that_this_code_cannot_run_does_not_keep_its_successor_out(
    make_settings: MakeSettings,
) -> None:
    settings, tracker = make_settings(), FakeTracker()
    store = store_of(settings)
    staged = store.staging("v0")
    fake_domain().bundles.write(staged, {"cut_s": 0.0}, version="v0", card="", metadata={})
    store.publish(staged, "v0")
    store.promote("v0")
    result = retrain(settings, tracker=tracker)
    assert named(settings) == {"champion": result.version, "previous": "v0"}
    assert "KeyError" in tracker.records[0].champion_note


def test_a_challenger_left_damaged_is_trained_anew(make_settings: MakeSettings) -> None:
    settings, trained = make_settings(), list[str]()

    def stop_before_scoring(moment: str) -> None:
        trained.append(moment)
        if moment == "score challenger" and trained.count("train") == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retrain(settings, fake_domain(hook=stop_before_scoring))
    [left] = settings.runs.glob("retrain/duration/*/challenger/model.json")
    left.unlink()
    assert retrain(settings, fake_domain(hook=stop_before_scoring)).outcome is RetrainOutcome.PROMOTED
    assert trained.count("train") == 3  # once, once more, and the refit on everything


def test_a_rollback_is_not_undone_by_the_next_run(make_settings: MakeSettings, jobs: pd.DataFrame) -> None:
    settings = make_settings()
    first = retrain(settings)
    more_data(settings, jobs, 1.0)
    second = retrain(settings)
    store_of(settings).rollback()
    assert retrain(settings).outcome is RetrainOutcome.NOTHING_TO_DO
    assert named(settings) == {"champion": first.version, "previous": second.version}


def test_a_run_whose_tracking_failed_is_finished_by_the_next(make_settings: MakeSettings) -> None:
    settings, tracker = make_settings(), FakeTracker(fails=True)
    with pytest.raises(PipelineError, match="does not answer"):
        retrain(settings, tracker=tracker)
    champion = named(settings)["champion"]
    tracker.fails = False
    trained: list[str] = []
    result = retrain(
        settings, fake_domain(hook=trained.append), tracker, now=datetime(2026, 4, 1, tzinfo=UTC)
    )
    assert result.version == champion
    assert "train" not in trained
    assert named(settings) == {"champion": champion}


def test_only_so_many_versions_are_kept(make_settings: MakeSettings) -> None:
    settings = make_settings(models={"root": Path("unused"), "keep": 2})
    settings = settings.model_copy(
        update={"models": settings.models.model_copy(update={"root": settings.runs.parent / "models"})}
    )
    for day in (1, 2, 3, 4):
        retrain(settings, now=datetime(2026, 3, day, tzinfo=UTC), force=True)
    assert len(store_of(settings).versions()) == 2


def test_one_run_at_a_time(make_settings: MakeSettings) -> None:
    settings = make_settings()
    with (
        hold_lock(settings.runs / "retrain" / "lock", now_text="noon"),
        pytest.raises(LockHeldError, match=f"process {os.getpid()}, since noon"),
    ):
        retrain(settings)


def test_too_few_jobs_are_refused_before_anything_is_written(make_settings: MakeSettings) -> None:
    settings = make_settings(0.05)
    with pytest.raises(ArgumentError, match="are needed in each"):
        retrain(settings)
    assert not settings.models.root.exists()


def test_no_data_at_all_says_what_to_do(make_settings: MakeSettings) -> None:
    settings = make_settings()
    settings.data.table.unlink()
    with pytest.raises(EmptyInputError, match="predictor ingest"):
        retrain(settings)


KILLED = textwrap.dedent(
    """
    import os, signal, sys
    from datetime import UTC, datetime
    from pathlib import Path
    from pipelines.retrain import Retraining
    from pipelines.settings import load_settings
    from predictor.forecasting.store import FileModelStore
    from tests.integration.fake_domain import digest_of, fake_domain

    kill_at = int(sys.argv[2])
    moments = 0

    def hook(_moment):
        global moments
        moments += 1
        if moments == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    class Tracker:
        def record(self, record):
            hook("record")
            return "run"
        def follow(self, target, aliases):
            hook("follow")

    settings = load_settings(Path(sys.argv[1]))
    store = FileModelStore(settings.models.root / "duration", verify=digest_of)
    domain = fake_domain(hook=hook, seconds_per_fit=0.05)
    work = Retraining(settings=settings, domain=domain, store=store, tracker=Tracker)
    print(work.run(now=datetime.now(UTC)).outcome.value, moments, flush=True)
    """
)


def write_config(settings: PipelineSettings, path: Path) -> Path:
    path.write_text(
        f"runs = '{settings.runs}'\n[data]\ntable = '{settings.data.table}'\noutcomes = []\n"
        f"[models]\nroot = '{settings.models.root}'\n"
        "[gate]\nq90_coverage = [0.7, 1.0]\nq95_coverage = [0.7, 1.0]\n"
    )
    return path


def run_killed(config: Path, kill_at: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", KILLED, str(config), str(kill_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_the_champion_and_the_next_run_goes_on(
    make_settings: MakeSettings, jobs: pd.DataFrame, tmp_path: Path
) -> None:
    """Killed in turn while it trains, scores, writes, refits and records, then a last time left alone."""
    settings = make_settings()
    first = retrain(settings)
    more_data(settings, jobs, 1.0)
    config = write_config(settings, tmp_path / "c.toml")
    promoted_early = False
    for kill_at in (1, 2, 3, 2, 3, 4):
        child = run_killed(config, kill_at)
        child.communicate()
        store = store_of(settings)
        champion = store.resolve("champion")
        assert store.verify(champion.version).digest == champion.digest
        promoted_early |= champion.version != first.version
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
    last = run_killed(config, 10_000)
    out, _ = last.communicate()
    assert last.returncode == 0
    assert out.split()[0] in ("promoted", "nothing-to-do")
    now = named(settings)
    assert now["previous"] == first.version
    assert set(now) == {"champion", "previous"}
    assert len(store_of(settings).versions()) == 2


@pytest.mark.slow
def test_kills_at_random_moments_leave_the_store_intact(
    make_settings: MakeSettings, jobs: pd.DataFrame, tmp_path: Path
) -> None:
    settings = make_settings()
    first = retrain(settings)
    more_data(settings, jobs, 1.0)
    config = write_config(settings, tmp_path / "c.toml")
    chance = random.Random(0)  # noqa: S311
    for _ in range(6):
        child = run_killed(config, 10_000)
        time.sleep(chance.uniform(1.2, 2.4))
        child.kill()
        child.communicate()
        champion = store_of(settings).resolve("champion")
        assert store_of(settings).verify(champion.version).digest == champion.digest
    last = run_killed(config, 10_000)
    out, _ = last.communicate()
    assert out.split()[0] in ("promoted", "nothing-to-do")
    assert named(settings)["previous"] == first.version

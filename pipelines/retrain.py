"""This module retrains a model: collect data, train, evaluate, pass the gate, publish, record.

Each step keeps its result in the run's folder under a key of everything that decides it, so a run that was
killed goes on where it stopped, and a run on the same input finds nothing to do. The served champion
changes by one atomic step, after its successor was read back and has forecast.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from pipelines.collect import Collected, collect
from pipelines.domain import Bundle, Document, Domain, Model
from pipelines.gate import Gate
from pipelines.job_data import DataFacts, Window, describe_data, freeze_window
from pipelines.lock import hold_lock
from pipelines.model_card import model_card
from pipelines.reports import read_report
from pipelines.retrain_request import finish_request, take_request
from pipelines.run_record import RunRecord, flatten, read_decision
from pipelines.run_state import RunState, run_key
from pipelines.settings import PipelineSettings
from predictor.data.schema import seconds
from predictor.data.table import read_table
from predictor.errors import BundleError, PipelineError
from predictor.forecasting.store import CHAMPION, FileModelStore, ModelRef

StepProgress = Callable[[str, float], None]
STEPS = ("collect", "train", "evaluate", "gate", "refit", "publish", "record")
_REFUSED_SUFFIX = "-refused"
_TRIAL_ROWS = 200  # jobs that a bundle which was read back must forecast before it serves


class RetrainOutcome(StrEnum):
    """How a retraining ended."""

    NOTHING_TO_DO = "nothing-to-do"
    PROMOTED = "promoted"
    REFUSED = "refused"


class Tracker(Protocol):
    """Keeps runs for people to look at; the model store stays the truth."""

    def record(self, record: RunRecord) -> str:
        """Keep a run and return its identifier; keeping it again changes nothing."""
        ...

    def follow(self, target: str, aliases: Mapping[str, ModelRef]) -> None:
        """Make the registry's aliases equal to those of the store."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrainResult:
    """What a retraining did; ``record`` is None where there was nothing to do."""

    outcome: RetrainOutcome
    key: str
    version: str | None
    collected: Collected
    facts: DataFacts
    record: RunRecord | None = None
    tracking_run: str = ""
    pruned: tuple[str, ...] = ()
    last_outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraining:
    """The parts that a retraining works with.

    Attributes:
        request: file by which a service has asked for it, set aside once this retraining holds the lock (one
            that comes later is for the next) and forgotten at its end: a run that was killed is repeated.
    """

    settings: PipelineSettings
    domain: Domain
    store: FileModelStore
    tracker: Callable[[], Tracker]
    progress: StepProgress = lambda _step, _share: None
    request: Path | None = None

    @property
    def folder(self) -> Path:
        """Folder of the runs of this target."""
        return self.settings.runs / "retrain" / self.domain.target

    def run(self, *, now: datetime, force: bool = False) -> RetrainResult:
        """Run all steps that are not done yet.

        Args:
            now: the time, which names the version.
            force: train anew though the input is that of the last finished run.

        Raises:
            LockHeldError: another retraining runs.
            InputError: the data or settings cannot be used; nothing has changed.
            PipelineError: a step failed; run again to go on from there.
        """
        with hold_lock(self.folder.parent / "lock", now_text=now.isoformat(timespec="seconds")):
            if self.request is None:
                return self._run(now, force=force)
            take_request(self.request)
            try:
                result = self._run(now, force=force)
            except Exception:  # it would fail again; what was killed would not
                finish_request(self.request)
                raise
            finish_request(self.request)
            return result

    def _run(self, now: datetime, *, force: bool) -> RetrainResult:
        self.progress("collect", 0.0)
        collected = collect(self.settings.data, progress=lambda name: self.progress(f"collect {name}", 0.0))
        frame = read_table(collected.table)
        facts = describe_data(frame, now.timestamp())
        described = self.domain.trainer.describe(self.settings.training.random_state)
        params = {"settings": self.settings.deciding(), "model": described}
        state = RunState(self.folder, run_key({"data": facts.fingerprint, **params}))
        last = state.last_finished()
        if last is not None and last["key"] == state.key and not force and self._stands(last):
            return RetrainResult(
                outcome=RetrainOutcome.NOTHING_TO_DO, key=state.key, version=str(last["version"]),
                collected=collected, facts=facts, last_outcome=str(last["outcome"]),
                tracking_run=str(last.get("tracking_run", "")),
            )  # fmt: skip
        if force or state.read("finished") is not None:
            state.forget()
        begin = state.step("begin", lambda: self._begin(frame, facts, state.key, now))
        record = self._judge(state, frame, facts, begin, flatten(params))
        bundle = self._build(state, frame, record)
        self._publish(record, bundle, frame)
        return self._finish(state, collected, replace(record, bundle=bundle))

    def _stands(self, last: Document) -> bool:
        """Whether what the last run published is still there."""
        has_champion = CHAMPION in self.store.aliases()
        return has_champion or last["outcome"] == RetrainOutcome.REFUSED

    def _begin(self, frame: pd.DataFrame, facts: DataFacts, key: str, now: datetime) -> Document:
        champion, _ = self._champion()
        window = freeze_window(
            frame, facts, self.settings.evaluation, None if champion is None else champion.trained_until_s
        )
        stamp = now.astimezone(UTC)
        return {
            "version": f"{stamp:%Y%m%dT%H%M%SZ}-{key[:8]}",
            "started_at": f"{stamp:%Y-%m-%d %H:%M:%SZ}",
            "window": asdict(window),
        }

    def _champion(self) -> tuple[Bundle | None, str]:
        """Return the served bundle, or None and why it cannot be used."""
        ref = self.store.aliases().get(CHAMPION)
        if ref is None:
            return None, ""
        try:
            return self.domain.bundles.read(ref.directory, ref.digest), ""
        except BundleError as error:  # such as another feature specification: its successor must not wait
            return None, f"[{error.code}] {error.message}"

    def _judge(
        self,
        state: RunState,
        frame: pd.DataFrame,
        facts: DataFacts,
        begin: Document,
        params: Mapping[str, str],
    ) -> RunRecord:
        window = _window(begin)
        span = {"from_s": window.from_s, "until_s": window.until_s}

        def score_challenger() -> Document:
            self.progress("evaluate challenger", 0.0)
            model = self._challenger(state, frame, window, begin)
            return self.domain.evaluator.score(model, frame, **span, name="challenger")

        def score_baselines() -> Document:
            self.progress("evaluate baselines", 0.3)
            return self.domain.evaluator.score_baselines(frame, **span)

        ours = state.step("report-challenger", score_challenger)
        baselines = state.step("report-baselines", score_baselines)
        serving = self.store.aliases().get(CHAMPION)
        decided = state.read("decision")
        # decided against a champion that no longer serves, unless this run itself has replaced it
        if decided is None or not (
            serving is None or serving.version in (decided["champion"], begin["version"])
        ):
            decided = self._decide(frame, window, ours, baselines)
            state.write("decision", decided)
        theirs = decided["champion_report"]
        return RunRecord(
            target=self.domain.target, key=state.key, version=str(begin["version"]),
            started_at=str(begin["started_at"]), params=params, table=self.settings.data.table,
            facts=facts, window=window,
            challenger_report=read_report(ours), baseline_report=read_report(baselines),
            champion_report=read_report(theirs) if isinstance(theirs, dict) else None,
            champion=None if decided["champion"] is None else str(decided["champion"]),
            champion_note=str(decided["champion_note"]), decision=read_decision(decided),
        )  # fmt: skip

    def _challenger(self, state: RunState, frame: pd.DataFrame, window: Window, begin: Document) -> Model:
        """Return the challenger, trained on what was known before the window."""

        def write(path: Path) -> None:
            model = self._train("train", frame, window.from_s)
            version = str(begin["version"])
            self.domain.bundles.write(path, model, version=version, card="in evaluation", metadata={})

        try:
            return self.domain.bundles.read(state.directory_step("challenger", write)).model
        except BundleError:  # written by other code, or damaged with the machine
            shutil.rmtree(state.directory / "challenger")
            return self.domain.bundles.read(state.directory_step("challenger", write)).model

    def _train(self, verb: str, frame: pd.DataFrame, cut_s: float) -> Model:
        return self.domain.trainer.train(
            frame, cut_s=cut_s, random_state=self.settings.training.random_state,
            progress=lambda text, share: self.progress(f"{verb}: {text}", share),
        )  # fmt: skip

    def _decide(self, frame: pd.DataFrame, window: Window, ours: Document, baselines: Document) -> Document:
        champion, note = self._champion()
        ref = self.store.aliases().get(CHAMPION)
        report: Document | None = None
        if champion is not None:
            self.progress("evaluate champion", 0.6)
            try:
                report = self.domain.evaluator.score(
                    champion.model, frame, from_s=window.from_s, until_s=window.until_s, name="champion"
                )
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                # other code wrote it: what this code cannot run must not keep its successor out
                note = f"this code cannot run it ({type(error).__name__}: {error})"
        self.progress("gate", 0.0)
        saw = champion is not None and champion.trained_until_s > window.from_s
        gate = Gate(settings=self.settings.gate, champion_saw_window=saw)
        decision = gate(
            read_report(ours), None if report is None else read_report(report), read_report(baselines)
        )
        return {
            "champion": None if ref is None else ref.version, "champion_note": note,
            "champion_report": report, **decision.to_json(),
        }  # fmt: skip

    def _build(self, state: RunState, frame: pd.DataFrame, record: RunRecord) -> Path:
        """Return the folder of the bundle to publish: refitted on everything, or the refused challenger."""
        passed = record.decision.passed
        bundles = self.domain.bundles

        def write(path: Path) -> None:
            if passed:
                model = self._train("refit", frame, record.trained_until_s)
            else:
                begin = state.read("begin") or {"version": record.version}
                model = self._challenger(state, frame, record.window, begin)
            card, metadata = model_card(record), _metadata(record)
            if self.domain.drift_reference is not None:
                metadata["drift"] = self.domain.drift_reference(frame)
            bundles.write(path, model, version=record.version, card=card, metadata=metadata)

        return state.directory_step("final" if passed else f"refused-{record.champion or 'first'}", write)

    def _publish(self, record: RunRecord, bundle: Path, frame: pd.DataFrame) -> None:
        self.progress("publish", 0.0)
        if record.version not in self.store.versions():
            staged = self.store.staging(record.version)
            shutil.copytree(bundle, staged, dirs_exist_ok=True)
            self._try(staged, frame)
            self.store.publish(staged, record.version)
        if record.decision.passed:
            self.store.promote(record.version, retire_challenger=True)
        else:
            self.store.set_aliases(challenger=record.version)

    def _try(self, staged: Path, frame: pd.DataFrame) -> None:
        """Let the bundle that was read back forecast the last jobs."""
        ran = frame[frame["elapsed_s"].fillna(0.0) > 0.0]
        from_s = float(np.sort(seconds(ran["submitted_at"]))[-min(_TRIAL_ROWS, len(ran))])
        model = self.domain.bundles.read(staged).model
        report = self.domain.evaluator.score(model, frame, from_s=from_s, until_s=None, name="trial")
        if not read_report(report).models:
            raise PipelineError("the bundle was read back but does not forecast; it was not published")

    def _finish(self, state: RunState, collected: Collected, record: RunRecord) -> RetrainResult:
        self.progress("record", 0.0)
        assert record.bundle is not None  # noqa: S101  (for the type checker)
        importance = self.domain.trainer.importance(self.domain.bundles.read(record.bundle).model)
        tracker = self.tracker()
        run = tracker.record(replace(record, importance=importance))
        pruned = self.store.prune(self.settings.models.keep)
        tracker.follow(record.target, self.store.aliases())
        outcome = RetrainOutcome.PROMOTED if record.decision.passed else RetrainOutcome.REFUSED
        state.finish({"outcome": outcome.value, "version": record.version, "tracking_run": run})
        self.progress("done", 1.0)
        return RetrainResult(
            outcome=outcome, key=state.key, version=record.version, collected=collected, facts=record.facts,
            record=record, tracking_run=run, pruned=pruned,
        )  # fmt: skip


def _window(begin: Document) -> Window:
    stored = begin["window"]
    assert isinstance(stored, dict)  # noqa: S101  (the file is our own; for the type checker)
    return Window(**stored)


def _metadata(record: RunRecord) -> dict[str, object]:
    return {
        "run_key": record.key,
        "data": asdict(record.facts),
        "window": asdict(record.window),
        "scores": record.challenger_report.only.flat(),
        "gate_passed": record.decision.passed,
    }

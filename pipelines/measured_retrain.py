"""This module retrains a target that learns from measurements: collect, judge, gate, train, publish, record.

Steps keep their results as those of the duration target do: a run that was killed goes on where it stopped,
and one on the same input finds nothing to do.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pandas as pd

from pipelines.domain import Document
from pipelines.lock import hold_lock
from pipelines.measured_card import measured_card
from pipelines.measured_gate import MeasuredDecision, decide
from pipelines.measured_target import Judgement, Measured, MeasuredTarget
from pipelines.run_state import RunState, run_key
from pipelines.settings import MeasuredSettings, PipelineSettings
from predictor.errors import EmptyInputError
from predictor.forecasting.store import CHAMPION, FileModelStore, ModelRef

_JUDGEMENT = "judgement.json"


class MeasuredOutcome(StrEnum):
    """How it ended."""

    SKIPPED = "skipped"
    NOTHING_TO_DO = "nothing-to-do"
    PROMOTED = "promoted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRecord:
    """One retraining, for tracking.

    Attributes:
        params: settings and facts of the data by name.
        plots: folder of figures.
        bundle: folder of the bundle.
    """

    target: str
    version: str
    params: Mapping[str, str]
    data: Measured
    judgement: Judgement
    decision: MeasuredDecision
    card: str
    plots: Path
    bundle: Path


class MeasuredTracker(Protocol):
    """Keeps runs for people to look at."""

    def record_measured(self, record: MeasuredRecord, parent: str) -> str:
        """Keep a run below a parent ("" = one of its own) and register its bundle; return its id."""
        ...

    def follow(self, target: str, aliases: Mapping[str, ModelRef]) -> None:
        """Make the registry's aliases equal to those of the store."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredResult:
    """What was done; ``reason`` says why it was skipped, or how the last run on this input had ended."""

    target: str
    outcome: MeasuredOutcome
    version: str | None = None
    reason: str = ""
    data: Measured | None = None
    judgement: Judgement | None = None
    decision: MeasuredDecision | None = None
    tracking_run: str = ""

    def to_json(self) -> Document:
        """Return the result as JSON-able values."""
        document: Document = {"outcome": self.outcome.value, "version": self.version, "reason": self.reason}
        if self.data is not None:
            document["data"] = {
                "fingerprint": self.data.fingerprint, "rows": self.data.rows, "groups": self.data.groups,
                "sources": list(self.data.sources), "left_out": list(self.data.left_out),
            }  # fmt: skip
        if self.judgement is not None and self.decision is not None:
            document |= {
                "scores": self.judgement.to_json(), "gate": self.decision.to_json(),
                "tracking_run": self.tracking_run,
            }  # fmt: skip
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRetraining:
    """The parts that it works with."""

    settings: PipelineSettings
    section: MeasuredSettings
    target: MeasuredTarget
    store: FileModelStore
    tracker: Callable[[], MeasuredTracker]
    progress: Callable[[str, float], None] = lambda _step, _share: None

    def run(
        self, jobs: pd.DataFrame, *, now: datetime, parent: str = "", force: bool = False
    ) -> MeasuredResult:
        """Run all steps that are not done yet.

        Args:
            jobs: the job table.
            parent: run under which tracking hangs this one, "" = one of its own.

        Raises:
            LockHeldError: another retraining runs.
            InputError: measurements cannot be used; nothing has changed.
        """
        folder = self.settings.runs / "retrain"
        with hold_lock(folder / "lock", now_text=now.isoformat(timespec="seconds")):
            try:
                return self._run(folder / self.target.name, jobs, now, parent, force=force)
            except EmptyInputError as error:
                return MeasuredResult(
                    target=self.target.name, outcome=MeasuredOutcome.SKIPPED, reason=str(error)
                )

    def _run(
        self, folder: Path, jobs: pd.DataFrame, now: datetime, parent: str, *, force: bool
    ) -> MeasuredResult:
        name = self.target.name
        self.progress(f"collect {name}", 0.0)
        data = self.target.collect(self.section, jobs)
        seed = self.settings.training.random_state
        params = {
            "settings": self.section.model_dump(mode="json"),
            "model": self.target.describe(),
            "seed": seed,
        }
        state = RunState(folder, run_key({"data": data.fingerprint, **params}))
        last = state.last_finished()
        if last is not None and last["key"] == state.key and not force and self._stands(last):
            return MeasuredResult(
                target=name, outcome=MeasuredOutcome.NOTHING_TO_DO, version=str(last["version"]), data=data,
                reason=str(last["outcome"]),
            )  # fmt: skip
        if force or state.read("finished") is not None:
            state.forget()
        stamp = now.astimezone(UTC)
        begin = state.step("begin", lambda: {
            "version": f"{stamp:%Y%m%dT%H%M%SZ}-{state.key[:8]}", "started_at": f"{stamp:%Y-%m-%d %H:%M:%SZ}",
        })  # fmt: skip
        version = str(begin["version"])
        judged = state.directory_step("judged", lambda path: self._judge(path, data, seed))
        judgement = Judgement.from_json(json.loads((judged / _JUDGEMENT).read_text(encoding="utf-8")))
        decision = self._decide(state, version, judgement)
        card = measured_card(
            name, version=version, started_at=str(begin["started_at"]), data=data, judgement=judgement,
            decision=decision, limits=self.target.limits, seed=seed,
        )  # fmt: skip
        metadata = {
            "run_key": state.key, "judgement": judgement.to_json(), "gate_passed": decision.passed,
            "data": {"fingerprint": data.fingerprint, "rows": data.rows, "sources": list(data.sources)},
        }  # fmt: skip

        def write(path: Path) -> None:
            self.progress(f"train {name}", 0.0)
            self.target.write(path, data, seed=seed, version=version, card=card, metadata=metadata)

        bundle = state.directory_step(f"bundle-{decision.champion or 'first'}", write)
        self._publish(version, bundle, decision)
        self.progress(f"record {name}", 0.0)
        record = MeasuredRecord(
            target=name, version=version, data=data, judgement=judgement, decision=decision, card=card,
            plots=judged, bundle=bundle, params=_params(state.key, data, seed, decision),
        )  # fmt: skip
        tracker = self.tracker()
        run = tracker.record_measured(record, parent)
        self.store.prune(self.settings.models.keep)
        tracker.follow(name, self.store.aliases())
        outcome = MeasuredOutcome.PROMOTED if decision.passed else MeasuredOutcome.REFUSED
        state.finish({"outcome": outcome.value, "version": version, "tracking_run": run})
        return MeasuredResult(
            target=name, outcome=outcome, version=version, data=data, judgement=judgement, decision=decision,
            tracking_run=run,
        )  # fmt: skip

    def _stands(self, last: Document) -> bool:
        return CHAMPION in self.store.aliases() or last["outcome"] == MeasuredOutcome.REFUSED

    def _judge(self, path: Path, data: Measured, seed: int) -> None:
        judgement, figures = self.target.judge(
            data, seed=seed,
            progress=lambda step, share: self.progress(f"evaluate {self.target.name}: {step}", share),
        )  # fmt: skip
        for name, figure in figures.items():
            figure.savefig(path / name, dpi=110)
        (path / _JUDGEMENT).write_text(json.dumps(judgement.to_json()), encoding="utf-8")

    def _decide(self, state: RunState, version: str, judgement: Judgement) -> MeasuredDecision:
        """Judge against the champion; a decision stands where this run itself has replaced it since."""
        champion = self.store.aliases().get(CHAMPION)
        decided = state.read("decision")
        if decided is not None and (champion is None or champion.version in (decided["champion"], version)):
            return MeasuredDecision.from_json(decided)
        decision = decide(
            judgement, self.section, champion=None if champion is None else champion.version,
            theirs=None if champion is None else _recorded(champion.directory),
        )  # fmt: skip
        state.write("decision", decision.to_json())
        return decision

    def _publish(self, version: str, bundle: Path, decision: MeasuredDecision) -> None:
        self.progress(f"publish {self.target.name}", 0.0)
        if version not in self.store.versions():
            staged = self.store.staging(version)
            shutil.copytree(bundle, staged, dirs_exist_ok=True)
            self.store.publish(staged, version)
        if decision.passed:
            self.store.promote(version, retire_challenger=True)
        else:
            self.store.set_aliases(challenger=version)


def _recorded(directory: Path) -> Judgement | None:
    """Return how a published bundle was judged, None where its manifest does not tell."""
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        return Judgement.from_json(manifest["metadata"]["judgement"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _params(key: str, data: Measured, seed: int, decision: MeasuredDecision) -> dict[str, str]:
    return {
        "run_key": key, "data.fingerprint": data.fingerprint, "data.rows": str(data.rows),
        "data.groups": str(data.groups), "seed": str(seed), "champion": decision.champion or "none",
        **{f"data.source.{at}": text for at, text in enumerate(data.sources)},
    }  # fmt: skip

"""This module defines what a retraining knows about itself in the end: for its card, and for tracking."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pipelines.domain import Document
from pipelines.gate import CheckCode, GateCheck, GateDecision
from pipelines.job_data import DataFacts, Window
from pipelines.reports import WindowReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One retraining of one target.

    Attributes:
        key: digest of all that decides the result.
        version: version that the run publishes.
        params: settings and model parameters by dotted name.
        table: the job table.
        champion: version that served before, None = there was none.
        champion_note: why the champion was not scored, "" = it was.
        bundle: folder of the bundle, once there is one.
        importance: importance of the features, once there is a model.
    """

    target: str
    key: str
    version: str
    started_at: str
    params: Mapping[str, str]
    table: Path
    facts: DataFacts
    window: Window
    challenger_report: WindowReport
    baseline_report: WindowReport
    champion_report: WindowReport | None
    champion: str | None
    champion_note: str
    decision: GateDecision
    bundle: Path | None = None
    importance: Mapping[str, float] = field(default_factory=dict)

    @property
    def trained_until_s(self) -> float:
        """Moment up to which the published bundle learned: all data if it passed, else the window."""
        return self.facts.known_until_s if self.decision.passed else self.window.from_s


def flatten(document: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return nested settings as texts by dotted name."""
    flat: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat


def read_decision(document: Document) -> GateDecision:
    """Read a decision from its JSON form."""
    checks = document["checks"]
    assert isinstance(checks, list)  # noqa: S101  (the file is our own; for the type checker)
    return GateDecision(
        checks=tuple(
            GateCheck(
                code=CheckCode(check["code"]), passed=check["passed"],
                numbers=check["numbers"], sentence=check["sentence"],
            )
            for check in checks
        )
    )  # fmt: skip


def utc_text(moment_s: float) -> str:
    """Return epoch seconds as a UTC time to the minute."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%MZ")

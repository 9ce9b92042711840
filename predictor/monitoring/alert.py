"""This module defines the alert: a finding with its evidence and a suggested fix."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class AlertCode(StrEnum):
    """What can be wrong; each code is stable and one alert of it stands at a time per subject."""

    FEATURE_DRIFT = "FEATURE_DRIFT"
    COVERAGE_LOST = "COVERAGE_LOST"
    ERROR_GREW = "ERROR_GREW"
    OOM_RATE = "OOM_RATE"
    STARVATION = "STARVATION"
    REQUEUE_LOOP = "REQUEUE_LOOP"
    SCARCE_IDLE = "SCARCE_IDLE"
    ALL_URGENT = "ALL_URGENT"
    QUOTA_IMBALANCE = "QUOTA_IMBALANCE"
    QUEUE_DEADLOCK = "QUEUE_DEADLOCK"


class Severity(StrEnum):
    """How soon somebody should look."""

    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One finding.

    Attributes:
        subject: what it is about (a job, pool, team, feature, quantile); with the code it identifies
            the alert, so that the same trouble is told once.
        numbers: the evidence.
        sentence: the evidence in words.
        fix: what a person can do about it.
        retrain: whether a retraining is a remedy.
    """

    code: AlertCode
    severity: Severity
    subject: str
    sentence: str
    fix: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    retrain: bool = False

    @property
    def key(self) -> str:
        """Identifies the alert among those that stand."""
        return f"{self.code.value}:{self.subject}"

    def to_json(self) -> dict[str, object]:
        """Return the alert as JSON-able values."""
        return {
            "code": self.code.value, "severity": self.severity.value, "subject": self.subject,
            "sentence": self.sentence, "fix": self.fix, "numbers": dict(self.numbers),
            "retrain": self.retrain,
        }  # fmt: skip

"""This module remembers which alerts stand, so that each is told when it comes and when it goes."""

from collections.abc import Iterable
from dataclasses import dataclass

from predictor.monitoring.alert import Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAlert:
    """An alert and since when it stands, UTC epoch seconds."""

    alert: Alert
    since_s: float

    def to_json(self) -> dict[str, object]:
        """Return it as JSON-able values."""
        return {**self.alert.to_json(), "key": self.alert.key, "since_s": self.since_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardChange:
    """What a look changed: alerts that came, changed severity, or went."""

    raised: tuple[StandingAlert, ...]
    cleared: tuple[StandingAlert, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not self.raised and not self.cleared


class AlertBoard:
    """The alerts that stand.

    Args:
        calm_looks: an alert goes only after so many looks without it, so that it does not flicker.
    """

    def __init__(self, *, calm_looks: int = 2) -> None:
        self._calm_looks = calm_looks
        self._standing: dict[str, StandingAlert] = {}
        self._calm: dict[str, int] = {}

    def standing(self) -> list[StandingAlert]:
        """Return what stands: critical first, then the oldest."""
        return sorted(
            self._standing.values(),
            key=lambda one: (one.alert.severity != "critical", one.since_s, one.alert.key),
        )

    def update(self, found: Iterable[Alert], now_s: float) -> BoardChange:
        """Take up the alerts of one look and return what changed by it."""
        raised = []
        seen = set()
        for alert in found:
            seen.add(alert.key)
            self._calm.pop(alert.key, None)
            known = self._standing.get(alert.key)
            since_s = now_s if known is None else known.since_s
            one = StandingAlert(alert=alert, since_s=since_s)
            self._standing[alert.key] = one
            if known is None or known.alert.severity != alert.severity:
                raised.append(one)
        cleared = []
        for key in [key for key in self._standing if key not in seen]:
            self._calm[key] = self._calm.get(key, 0) + 1
            if self._calm[key] >= self._calm_looks:
                cleared.append(self._standing.pop(key))
                del self._calm[key]
        return BoardChange(raised=tuple(raised), cleared=tuple(cleared))

"""This module asks for a retraining, by a file that ``predictor retrain --if-requested`` takes."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from predictor.monitoring.alert import Alert


class RetrainRequest:
    """Writes the request, with its evidence; a second one only after a pause.

    Args:
        path: the file; None = retraining is never asked for.
        pause_s: least seconds between two requests: a retraining that does not help is not repeated for ever.
    """

    def __init__(self, path: Path | None, *, pause_s: float) -> None:
        self._path = path
        self._pause_s = pause_s
        self._asked_s: float | None = None

    def ask(self, alerts: Sequence[Alert], *, model: str, now_s: float) -> bool:
        """Ask because of the alerts that a retraining can remedy; False where nothing was asked.

        Raises:
            OSError: the file cannot be written.
        """
        reasons = [alert for alert in alerts if alert.retrain]
        if self._path is None or not reasons or self._path.exists():
            return False
        if self._asked_s is not None and now_s - self._asked_s < self._pause_s:
            return False
        document = {"at_s": now_s, "model": model, "alerts": [alert.to_json() for alert in reasons]}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
        fresh.replace(self._path)
        self._asked_s = now_s
        return True

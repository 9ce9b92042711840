"""This module says what a backtest on measurements is, for targets that job logs alone do not teach."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console

from pipelines.domain import Document


class MeasuredBacktest(Protocol):
    """Scores ours and the baselines on a file of measurements, over grouped splits."""

    def __call__(
        self,
        path: Path,
        /,
        *,
        seed: int,
        plots: Path | None,
        console: Console,
        tell: Callable[[str, float], None],
    ) -> Document:
        """Print the tables, write plots into the folder if there is one, and return the report as JSON.

        Args:
            path: measurements (CSV, gzipped or not) or a canonical job table that carries them.
            tell: told a step and the share done.
        """
        ...

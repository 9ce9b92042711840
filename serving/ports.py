"""This module says what the service needs from the domain, in the narrowest words.

The classes of ``predictor.forecasting`` fulfil these protocols; tests bring small fakes that do.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from predictor.contracts.forecast import Provenance
from predictor.contracts.outcome import Outcome
from predictor.contracts.request import JobRequest
from serving.evidence import Evidence


class BundleFacts(Protocol):
    """Identity of a model bundle."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def version(self) -> str:
        """Version within the name."""

    @property
    def digest(self) -> str:
        """SHA-256 over the bundle's manifest."""

    @property
    def feature_spec(self) -> str:
        """Hash of the feature specification it was trained on."""

    @property
    def created_at(self) -> str:
        """When it was made, RFC 3339."""

    @property
    def trained_until_s(self) -> float:
        """Latest end of a job it has seen, epoch seconds."""


class Forecast(Protocol):
    """Duration distribution of one job."""

    @property
    def quantiles_s(self) -> dict[str, float]:
        """Seconds by quantile name (q05 ... q95)."""

    @property
    def level_quantiles_s(self) -> tuple[float, ...]:
        """Seconds at the levels of ``predictor.contracts.forecast.LEVELS``."""

    @property
    def mean_s(self) -> float:
        """Expected duration."""

    @property
    def limit_s(self) -> float | None:
        """Enforced limit, None = none."""

    @property
    def fallback(self) -> str | None:
        """Reason code where not the full model answered."""

    @property
    def support(self) -> int:
        """Finished jobs that the forecast rests on."""

    @property
    def support_level(self) -> str:
        """What these jobs have in common with this one."""

    @property
    def provenance(self) -> Provenance:
        """Where the forecast came from."""

    def remaining_quantiles_s(self, elapsed_s: float) -> dict[str, float]:
        """Return what remains after ``elapsed_s`` of running, by quantile name."""

    def survival_at(self, ages_s: Sequence[float]) -> list[float]:
        """Return P(duration > age) for each age in seconds."""


class Forecaster(Protocol):
    """Answers from a bundle and a history that outcomes keep current; not thread-safe."""

    @property
    def info(self) -> BundleFacts:
        """Identity of the bundle."""

    @property
    def evidence(self) -> Evidence:
        """What the jobs that it learned from looked like."""

    def predict(self, jobs: Sequence[JobRequest]) -> Sequence[Forecast]:
        """Return one forecast per job, in order."""

    def submitted(self, job: JobRequest) -> None:
        """Announce a job that entered the queue."""

    def started(self, *, cluster: str | None, job_id: str, attempt: int, at_s: float) -> bool:
        """Record a start; False where the job was never announced."""

    def finished(self, outcome: Outcome) -> bool:
        """Record an end; False where it teaches nothing."""


class BundleRef(Protocol):
    """Where the bundle that an alias names lies, and what its digest must be."""

    @property
    def version(self) -> str:
        """Version of the bundle."""

    @property
    def digest(self) -> str:
        """The digest that the registry recorded."""

    @property
    def directory(self) -> Path:
        """Directory of the bundle."""


class BundleStore(Protocol):
    """Finds bundles by alias."""

    def resolve(self, alias: str) -> BundleRef:
        """Return what the alias names, or raise BundleMissingError."""


class BundleLoader(Protocol):
    """Reads and verifies a bundle."""

    def __call__(self, directory: Path, expected_digest: str | None, /) -> Forecaster:
        """Return a forecaster, or raise a BundleError."""


class Clock(Protocol):
    """Tells the time."""

    def __call__(self) -> float:
        """Return UTC epoch seconds."""

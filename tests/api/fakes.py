"""Fakes of the domain side: bundles that are one JSON file, and a forecaster whose rules fit on a page."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from predictor.contracts.forecast import LEVELS, Provenance
from predictor.contracts.outcome import Outcome
from predictor.contracts.request import JobRequest
from predictor.errors import ArgumentError, BundleCorruptError, BundleMissingError
from predictor.forecasting.bundle import BundleInfo
from predictor.forecasting.store import ModelRef
from serving.evidence import Evidence
from serving.ports import Forecaster

SHARES = {"q05": 0.05, "q10": 0.1, "q25": 0.2, "q50": 0.4, "q75": 0.6, "q90": 0.8, "q95": 0.9}
DEFAULT_WALLTIME_S = 1000.0
CRASHES, REFUSED = "crashes-the-model", "refused-by-the-model"  # users that fakes stumble over


@dataclass(frozen=True, kw_only=True)
class FakeForecast:
    """Quantiles are fixed shares of the walltime; survival falls in a straight line."""

    walltime_s: float
    support: int
    limit_s: float | None
    provenance: Provenance

    @property
    def quantiles_s(self) -> dict[str, float]:
        return {name: share * self.walltime_s for name, share in SHARES.items()}

    @property
    def level_quantiles_s(self) -> tuple[float, ...]:
        return tuple(0.9 * level * self.walltime_s for level in LEVELS)

    @property
    def mean_s(self) -> float:
        return 0.45 * self.walltime_s

    @property
    def fallback(self) -> str | None:
        return None if self.support else "no-history-of-this-user"

    @property
    def support_level(self) -> str:
        return "user" if self.support else "site"

    def remaining_quantiles_s(self, elapsed_s: float) -> dict[str, float]:
        return {name: max(value - elapsed_s, 1.0) for name, value in self.quantiles_s.items()}

    def survival_at(self, ages_s: Sequence[float]) -> list[float]:
        return [max(1.0 - age_s / self.walltime_s, 0.0) for age_s in ages_s]


@dataclass
class FakeForecaster:
    """Counts finished jobs per user and remembers what it was told."""

    info: BundleInfo
    finished_of: dict[str | None, int] = field(default_factory=dict)
    announced: dict[tuple[str | None, str, int], JobRequest] = field(default_factory=dict)
    starts: list[tuple[str, float]] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)

    def predict(self, jobs: Sequence[JobRequest]) -> list[FakeForecast]:
        if any(job.user == CRASHES for job in jobs):
            raise ZeroDivisionError("the fake model stumbles")
        if any(job.user == REFUSED for job in jobs):
            raise ArgumentError("the fake model refuses this user")
        return [self._forecast(job) for job in jobs]

    def _forecast(self, job: JobRequest) -> FakeForecast:
        return FakeForecast(
            walltime_s=job.walltime_s or DEFAULT_WALLTIME_S,
            support=self.finished_of.get(job.user, 0),
            limit_s=job.walltime_s,
            provenance=Provenance(model_version=self.info.version, feature_spec="spec", calibration_id="c-1"),
        )

    def submitted(self, job: JobRequest) -> None:
        assert job.job_id is not None
        self.announced[(job.cluster, job.job_id, job.attempt)] = job

    def started(self, *, cluster: str | None, job_id: str, attempt: int, at_s: float) -> bool:
        self.starts.append((job_id, at_s))
        return (cluster, job_id, attempt) in self.announced

    def finished(self, outcome: Outcome) -> bool:
        job = self.announced.pop((outcome.cluster, outcome.job_id, outcome.attempt), outcome.request)
        if job is None:
            return False
        self.finished_of[job.user] = self.finished_of.get(job.user, 0) + 1
        return True


def write_fake_bundle(directory: Path, version: str, *, trained_until_s: float = 0.0) -> str:
    """Write a bundle and return its digest."""
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": version, "trained_until_s": trained_until_s})
    (directory / "manifest.json").write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()


def load_fake(directory: Path, expected_digest: str | None) -> Forecaster:
    """Make a forecaster of a bundle of :func:`write_fake_bundle`."""
    return FakeForecaster(info=read_fake(directory, expected_digest))


def read_fake(directory: Path, expected_digest: str | None) -> BundleInfo:
    """Read and verify a bundle of :func:`write_fake_bundle`."""
    path = directory / "manifest.json"
    if not path.is_file():
        raise BundleMissingError(f"there is no bundle at '{directory.name}'")
    text = path.read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()
    if expected_digest not in (None, digest):
        raise BundleCorruptError(f"bundle '{directory.name}' does not match its record")
    values = json.loads(text)
    return BundleInfo(
        name="fake", version=values["version"], digest=digest, feature_spec="spec",
        created_at="2026-11-01T00:00:00+00:00", trained_until_s=values["trained_until_s"],
    )  # fmt: skip


@dataclass(frozen=True)
class FakeStore:
    """Versions in folders and aliases in one file, like the real store."""

    root: Path

    def resolve(self, alias: str) -> ModelRef:
        path = self.root / "aliases.json"
        entries = json.loads(path.read_text()) if path.is_file() else {}
        if alias not in entries:
            raise BundleMissingError(f"no version is {alias}")
        version, digest = entries[alias]
        return ModelRef(version=version, digest=digest, directory=self.root / version)

    def publish(self, version: str, *, alias: str = "champion", trained_until_s: float = 0.0) -> None:
        """Write a bundle and point an alias at it."""
        self.point(
            alias, version, write_fake_bundle(self.root / version, version, trained_until_s=trained_until_s)
        )

    def point(self, alias: str, version: str, digest: str) -> None:
        """Point an alias at a version, atomically."""
        path = self.root / "aliases.json"
        entries = json.loads(path.read_text()) if path.is_file() else {}
        entries[alias] = (version, digest)
        self.root.mkdir(parents=True, exist_ok=True)
        fresh = self.root / f".aliases.{version}"
        fresh.write_text(json.dumps(entries))
        fresh.replace(path)


@dataclass
class ManualClock:
    """A clock that tests set."""

    now_s: float = 1_793_700_000.0  # 2026-11-03

    def __call__(self) -> float:
        return self.now_s

"""This module holds the settings of the service, read from ``PREDICTOR_*`` variables of the environment."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from predictor.errors import ArgumentError

PREFIX = "PREDICTOR_"
_NESTED = "__"  # PREDICTOR_SECTION__KEY is a setting of the batch jobs, which may share an environment


class Settings(BaseSettings):
    """Settings of one service process; a field ``max_jobs`` is the variable ``PREDICTOR_MAX_JOBS``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    models: Path = Field(
        default=Path("models/store/duration"), description="store of bundles, with aliases.json"
    )
    models_vram: Path = Field(default=Path("models/store/vram"), description="store of memory bundles")
    models_topology: Path = Field(
        default=Path("models/store/topology"), description="store of bundles that rank placements"
    )
    alias: str = Field(default="champion", min_length=1, description="alias of the bundle to serve")
    previous_alias: str = Field(default="previous", description="tried at start where the champion fails")
    fallback: Path | None = Field(
        default=None, description="bundle to serve where the store has none; default models/fallback"
    )
    outcomes: Path = Field(default=Path("runs/outcomes"), description="directory of the outcome log")
    store: str = Field(
        default="sqlite:///runs/store/service.db", min_length=1,
        description="database of events and API keys: sqlite:///PATH or postgresql://USER@HOST/NAME",
    )  # fmt: skip
    cluster: str | None = Field(
        default=None, description="cluster to schedule: a TOML file or an example's name; default: no queue"
    )
    policy: Path | None = Field(
        default=None, description="first policy of the queue (TOML); later changes go by the API"
    )
    max_waiting: int = Field(default=200_000, ge=1, description="most jobs in the queue")
    monitor_s: float = Field(default=10.0, gt=0, description="seconds between looks for alerts")
    insecure_dev: bool = Field(
        default=False, description="ask nobody for an API key; for development, on a loopback address only"
    )
    names_key: Path | None = Field(
        default=None, description="file with the site's key: names of users and accounts are kept as hashes"
    )
    cors_origins: str = Field(
        default="",
        description="origins, with commas, whose pages may use the API from a browser; default none",
    )
    rate_per_s: float = Field(default=1000.0, gt=0, description="requests per second and key in the long run")
    rate_burst: float = Field(default=2000.0, ge=1, description="requests at once and key, after a pause")
    keys_refresh_s: float = Field(default=2.0, gt=0, description="seconds until new and revoked keys count")
    max_jobs: int = Field(default=10_000, ge=1, description="most items in one batch")
    max_body_bytes: int = Field(default=16 * 2**20, ge=1024, description="largest body")
    slice_jobs: int = Field(default=200, ge=1, description="jobs to forecast before others get a turn")
    poll_s: float = Field(default=1.0, gt=0, description="seconds between looks at the alias file")
    retry_s: float = Field(
        default=30.0, gt=0, description="seconds before a bundle that failed is tried again"
    )
    memory_days: int = Field(default=30, ge=1, description="days over which repeated outcomes are recognised")
    coverage_window: int = Field(default=1000, ge=1, description="outcomes in the rolling coverage")
    drift_window: int = Field(
        default=2000, ge=1, description="latest jobs that are compared with the model's"
    )
    retrain_request: Path | None = Field(
        default=None, description="file that asks for a retraining where drift or forecasts call for it"
    )
    retrain_pause_s: float = Field(
        default=86400.0, ge=0, description="least seconds between two requests for a retraining"
    )
    grace_s: int = Field(default=30, ge=1, description="seconds that running requests get at shutdown")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info")
    log_requests: Literal["all", "failed"] = Field(
        default="failed", description="which requests get a line in the log; metrics count all of them"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  (the signature is the framework's)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what :func:`read_settings` gives, and nothing behind its back."""
        return (init_settings,)

    def fallback_directory(self) -> Path:
        """Return the directory of the fallback bundle: as set, else in the working directory or checkout."""
        if self.fallback is not None:
            return self.fallback
        here = Path("models/fallback")
        return here if here.is_dir() else Path(__file__).resolve().parents[1] / "models" / "fallback"


def read_settings(
    environ: Mapping[str, str] | None = None, **overrides: Any
) -> Settings:  # Any: field values
    """Return the settings of the environment, with overrides from the command line.

    Raises:
        ArgumentError: names every unknown ``PREDICTOR_*`` variable and every wrong value at once.
    """
    variables = os.environ if environ is None else environ
    known = {PREFIX + name.upper(): name for name in Settings.model_fields}
    given: dict[str, Any] = {}
    faults = []
    for name, value in sorted(variables.items()):
        if name.upper() in known:
            given[known[name.upper()]] = value
        elif name.upper().startswith(PREFIX) and _NESTED not in name:
            close = difflib.get_close_matches(name.upper(), known, n=1)
            faults.append(f"{name} is no setting" + (f"; did you mean {close[0]}?" if close else ""))
    given.update({name: value for name, value in overrides.items() if value is not None})
    try:
        settings = Settings(**given)
    except ValidationError as error:
        for fault in error.errors():
            name = PREFIX + "_".join(str(part) for part in fault["loc"]).upper()
            faults.append(f"{name}={fault.get('input')!r}: {fault['msg']}")
    if faults:
        raise ArgumentError(f"the settings have {len(faults)} faults", faults=faults)
    return settings

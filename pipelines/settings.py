"""This module reads the settings of the batch jobs from a TOML file and the environment.

Environment variables win over the file: ``PREDICTOR_GATE__MAX_CRPS_WORSENING=0.1`` sets
``max_crps_worsening`` of ``[gate]``. Unknown keys are refused and all faults are told at once. Paths are
relative to the working directory.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from predictor.errors import ArgumentError, FormatError


def _ascending(band: tuple[float, float]) -> tuple[float, float]:
    if band[0] > band[1]:
        raise ValueError(f"{list(band)} is reversed; give the lower bound first: {list(band[::-1])}")
    return band


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Band = Annotated[tuple[Share, Share], AfterValidator(_ascending)]
ENV_PREFIX = "PREDICTOR_"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceSettings(_Section):
    """Logs of one scheduler: files or glob patterns, and what the logs do not say themselves."""

    files: tuple[str, ...] = Field(min_length=1)
    format: str = "auto"
    tz: str = "UTC"
    map: Path | None = None
    cluster: str | None = None


class DataSettings(_Section):
    """The canonical job table and where new rows for it come from.

    ``outcomes`` are files (or patterns) of JSON lines that the service writes, rows of the job table.
    """

    table: Path = Path("training_data/canonical/jobs.parquet")
    sources: tuple[SourceSettings, ...] = ()
    outcomes: tuple[str, ...] = ("runs/outcomes/*.jsonl",)


class ModelsSettings(_Section):
    """The model store: bundles lie in ``<root>/<target>/<version>``; ``keep`` versions stay."""

    root: Path = Path("models/store")
    keep: int = Field(default=10, ge=2)


class TrackingSettings(_Section):
    """The MLflow store; without a URI it is ``mlflow.db`` in the folder of runs."""

    uri: str | None = None
    artifacts: Path | None = None
    experiment: str = "predictor"


class EvaluationSettings(_Section):
    """The frozen recent window that models are judged on: its length, and its largest share of the log.

    ``min_rows`` jobs are needed before and in it. With ``unseen_rows`` jobs that are newer than the
    champion's training data, the window holds those only, which makes the comparison fair.
    """

    window_days: float = Field(default=14.0, gt=0.0)
    max_share: float = Field(default=0.3, gt=0.0, lt=1.0)
    min_rows: int = Field(default=100, ge=1)
    unseen_rows: int = Field(default=1000, ge=1)


class GateSettings(_Section):
    """What a challenger must achieve on the window.

    A worsening is relative: 0.03 = three percent above the champion's value. A champion that has learned
    from jobs of the window is hard to beat there (on the sample log an equal model is 11 % worse than it
    over all jobs and 25 % in a slice), so the ``..._seen`` limits hold then.
    """

    max_crps_worsening: float = Field(default=0.03, ge=0.0)
    max_log_ratio_worsening: float = Field(default=0.05, ge=0.0)
    max_worsening_seen: float = Field(default=0.25, ge=0.0)
    must_beat_baselines: bool = True
    q90_coverage: Band = (0.84, 0.97)
    q95_coverage: Band = (0.90, 0.995)
    max_slice_worsening: float = Field(default=0.25, ge=0.0)
    max_slice_worsening_seen: float = Field(default=0.6, ge=0.0)
    slice_min_rows: int = Field(default=200, ge=1)


class MeasuredSettings(_Section):
    """A target that learns from measurements, and what its bundle must achieve.

    ``measurements`` are files (or patterns): CSV, or for memory lower bounds in Parquet. ``coverage`` is the
    allowed share of observations within the bound; where few groups were measured it is wide on purpose,
    hence 1 is allowed. A worsening is relative to the recorded score of a champion that was judged on the
    same kind of data.
    """

    measurements: tuple[str, ...] = ()
    must_beat_baselines: bool = True
    coverage: Band
    max_worsening: float = Field(default=0.1, ge=0.0)


class MemorySettings(MeasuredSettings):
    """Peak memory per GPU; the job table's ``peak_vram_mib`` teaches too."""

    coverage: Band = (0.9, 1.0)


class TopologySettings(MeasuredSettings):
    """Relative throughput of placements."""

    coverage: Band = (0.8, 1.0)


class FitSettings(_Section):
    """What training is told."""

    random_state: int = Field(default=0, ge=0)


class _Variables(EnvSettingsSource):
    """Variables of single keys, such as PREDICTOR_GATE__MIN_ROWS; those of whole sections are not ours.

    The service has settings of its own under the same prefix: its PREDICTOR_MODELS is a path.
    """

    def prepare_field_value(
        self, field_name: str, field: FieldInfo, value: object, value_is_complex: bool
    ) -> object:
        """Return a key's value; for a section, what the variables of its keys say."""
        own = None if self._field_is_complex(field)[0] else value
        return super().prepare_field_value(field_name, field, own, value_is_complex)


class PipelineSettings(BaseSettings):
    """All settings of ``predictor retrain``, ``models``, ``review`` and ``backtest``."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, case_sensitive=False
    )

    runs: Path = Path("runs")
    data: DataSettings = DataSettings()
    models: ModelsSettings = ModelsSettings()
    tracking: TrackingSettings = TrackingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    gate: GateSettings = GateSettings()
    training: FitSettings = FitSettings()
    memory: MemorySettings = MemorySettings()
    topology: TopologySettings = TopologySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the signature is pydantic's)
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment win over the file, whose content comes as arguments."""
        return _Variables(settings_cls), init_settings

    @property
    def tracking_uri(self) -> str:
        """The MLflow tracking URI, never ambient."""
        return self.tracking.uri or f"sqlite:///{(self.runs / 'mlflow.db').resolve()}"

    @property
    def artifact_root(self) -> Path | None:
        """The folder of MLflow artifacts; None leaves it to a tracking server."""
        if self.tracking.artifacts is None and self.tracking_uri.startswith(("http:", "https:")):
            return None
        return (self.tracking.artifacts or self.runs / "mlartifacts").resolve()

    def deciding(self) -> dict[str, object]:
        """Return the settings that change what a retraining yields, as JSON-able values."""
        return self.model_dump(mode="json", include={"evaluation", "gate", "training"})


def load_settings(config: Path | None = None) -> PipelineSettings:
    """Return the settings of a TOML file (or the defaults) with the environment on top.

    Raises:
        FormatError: the file cannot be read or is no TOML.
        ArgumentError: settings are unknown or out of range; all are listed.
    """
    given: Mapping[str, Any] = {}  # Any: TOML holds what it likes until it is validated
    if config is not None:
        try:
            given = tomllib.loads(config.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise FormatError(f"cannot read the settings '{config}': {error}") from error
    try:
        return PipelineSettings(**given)
    except SettingsError as error:
        raise ArgumentError(f"a variable of the environment cannot be used: {error}") from error
    except ValidationError as error:
        where = "the settings" if config is None else f"the settings '{config}'"
        faults = [_fault(fault["loc"], fault["type"], fault["msg"]) for fault in error.errors()]
        raise ArgumentError(f"{where} cannot be used", faults=faults) from error


def _fault(place: tuple[int | str, ...], kind: str, message: str) -> str:
    key = ".".join(str(part) for part in place)
    return (
        f"{key}: no such setting"
        if kind == "extra_forbidden"
        else f"{key}: {message.removeprefix('Value error, ')}"
    )

"""This module defines what crosses the edge: the bodies of requests and answers, as msgspec structs.

The structs validate while they decode, which costs a few microseconds, and give the OpenAPI schemas.
"""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from serving.resource_schemas import Candidates, MemoryAnswer, PlacementAnswer, TopologyAnswer

LONGEST_NAME = 65536  # characters, as the job table allows; longer fields are damage, not names
_NOTHING = (None,) * 13  # of a workload
LARGEST_NUMBER = 1e15  # beyond any machine or any walltime; larger values are damage
NO_NUL = r"^[^\x00]*$"  # the texts that every store can keep: PostgreSQL has no U+0000

Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
Number = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Moment = Annotated[datetime, Meta(tz=True)] | float
Identifier = Text | int


class RequestFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a scheduler knows of a job at submission; names and units are those of the job table."""

    job_id: Identifier | None = None
    attempt: Count = 0
    cluster: Text | None = None
    user: Text | None = None
    account: Text | None = None
    queue: Text | None = None
    qos: Text | None = None
    gpu_type: Text | None = None
    job_name: Text | None = None
    requested_gpus: Number | None = None
    requested_nodes: Number | None = None
    requested_cpus: Number | None = None
    requested_memory_mib: Number | None = None
    walltime_s: Number | None = None
    array_job_id: Identifier | None = None
    array_task_index: Number | None = None
    dependency: Text | None = None
    submitted_at: Moment | None = None
    framework: Text | None = None
    task: Text | None = None
    model_family: Text | None = None
    parameter_count: Number | None = None
    precision: Text | None = None
    optimizer: Text | None = None
    batch_size: Number | None = None
    sequence_length: Number | None = None
    image_size: Number | None = None
    parallelism: Text | None = None
    gradient_checkpointing: bool | None = None
    lora_rank: Number | None = None
    command: Text | None = None

    @property
    def has_workload(self) -> bool:
        """Whether it says anything of what the job computes."""
        said = (
            self.framework, self.task, self.model_family, self.parameter_count, self.precision,
            self.optimizer, self.batch_size, self.sequence_length, self.image_size, self.parallelism,
            self.gradient_checkpointing, self.lora_rank, self.command,
        )  # fmt: skip
        return said != _NOTHING


class Job(RequestFields, kw_only=True, forbid_unknown_fields=True):
    """A job to forecast.

    ``submitted_at`` is RFC 3339 or epoch seconds (default: now). With ``elapsed_s`` the answer says what
    remains of a running job; with ``ages_s`` how likely the job runs longer than each age. With
    ``memory_risk``, ``command`` (the text of the submit line or script) or any column from ``framework`` to
    ``lora_rank`` it has the peak memory per GPU, with ``candidates`` their ranking. ``batch_size`` is that
    over all GPUs.
    """

    elapsed_s: Number | None = None
    ages_s: Annotated[list[Number], Meta(max_length=200)] | None = None
    memory_risk: Annotated[float, Meta(gt=0, lt=1)] | None = None
    candidates: Candidates | None = None

    @property
    def wants_memory(self) -> bool:
        """Whether the answer tells the peak memory per GPU."""
        asked = self.memory_risk is not None or self.has_workload
        return asked and (self.requested_gpus is None or self.requested_gpus > 0)


class JobBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """Several jobs to forecast in one request."""

    jobs: list[Job]


class PredictionBody(Job, kw_only=True, forbid_unknown_fields=True):
    """A job or a batch of undecoded jobs: the one shape that the hot route decodes."""

    jobs: list[Raw] | UnsetType = UNSET


class Support(Struct, kw_only=True, frozen=True):
    """What the forecast rests on: how many finished jobs, and what they share with this one."""

    level: str
    count: int


class ModelIdentity(Struct, kw_only=True, frozen=True):
    """Which model answered, to the byte."""

    name: str
    version: str
    digest: str
    feature_spec: str
    calibration_id: str


class Remaining(Struct, kw_only=True, frozen=True):
    """What remains of a job that has run for ``elapsed_s``."""

    elapsed_s: float
    quantiles_s: dict[str, float]


class SurvivalPoint(Struct, kw_only=True, frozen=True):
    """Probability that the job runs longer than ``age_s``."""

    age_s: float
    probability: float


class Prediction(Struct, kw_only=True):
    """Forecast of one job; ``fallback`` says why not the full model answered, null = it did."""

    status: Literal[200] = 200
    job_id: str | None
    quantiles_s: dict[str, float]
    mean_s: float
    limit_s: float | None
    fallback: str | None
    support: Support
    model: ModelIdentity
    remaining: Remaining | UnsetType = UNSET
    survival: list[SurvivalPoint] | UnsetType = UNSET
    vram: MemoryAnswer | UnsetType = UNSET
    placements: list[PlacementAnswer] | UnsetType = UNSET
    topology: TopologyAnswer | UnsetType = UNSET


class FaultView(Struct, kw_only=True, frozen=True):
    """One fault of a request; ``pointer`` is a JSON pointer into the body."""

    pointer: str
    code: str
    detail: str


class ProblemView(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An error as of RFC 9457, with a stable ``code`` and every fault at once."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str = ""
    request_id: str = ""
    errors: list[FaultView] = []


class FailedItem(Struct, kw_only=True):
    """An item of a batch that could not be answered, in the place of its answer."""

    status: int
    job_id: str | None
    problem: ProblemView


class PredictionBatch(Struct, kw_only=True):
    """Answers in the order of the jobs; ``failed`` counts the items whose status is not 200."""

    predictions: list[Prediction | FailedItem]
    failed: int


class OutcomeEvent(RequestFields, kw_only=True, forbid_unknown_fields=True):
    """Something that happened to a job.

    ``submitted`` announces it (with ``submitted_at``), ``started`` needs ``started_at``, ``finished``
    needs ``ended_at`` and ``state``. Of a job that was never announced, give ``submitted_at`` always.
    """

    event: Literal["submitted", "started", "finished"] = "finished"
    job_id: Identifier
    started_at: Moment | None = None
    ended_at: Moment | None = None
    elapsed_s: Number | None = None
    state: Text | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**32)] | None = None
    peak_vram_mib: Number | None = None
    peak_host_memory_mib: Number | None = None
    gpu_utilisation_ratio: Annotated[float, Meta(ge=0, le=1)] | None = None
    node_list: Text | None = None
    allocated_nodes: Number | None = None
    allocated_cpus: Number | None = None
    allocated_gpus: Number | None = None


class OutcomeBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """Several events in one request, in the order in which they happened."""

    outcomes: list[OutcomeEvent]


class OutcomeEnvelope(Struct, kw_only=True):
    """The undecoded twin of OutcomeBatch: tells a batch from one event."""

    outcomes: list[Raw] | UnsetType = UNSET


class Receipt(Struct, kw_only=True, frozen=True):
    """Proof that an event is on disk: ``recorded`` now, or a ``duplicate`` of one recorded before."""

    status: Literal[200] = 200
    result: Literal["recorded", "duplicate"]
    event: str
    cluster: str | None
    job_id: str
    attempt: int


class ReceiptBatch(Struct, kw_only=True):
    """Receipts in the order of the events; ``failed`` counts the items whose status is not 200."""

    outcomes: list[Receipt | FailedItem]
    failed: int


def as_text(value: str | int | None) -> str | None:
    """Return an identifier as text; schedulers write numbers as numbers."""
    return value if value is None or isinstance(value, str) else str(value)


def as_epoch_s(value: datetime | float) -> float:
    """Return a moment as epoch seconds."""
    return value.timestamp() if isinstance(value, datetime) else value


def field_names(struct: type[Struct]) -> tuple[str, ...]:
    """Return the names that a body of this type may hold."""
    return tuple(field.encode_name for field in msgspec.structs.fields(struct))

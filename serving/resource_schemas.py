"""This module defines the parts of bodies that are about GPU memory and placements."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Name = Annotated[str, Meta(min_length=1, max_length=256)]
GpuCount = Annotated[int, Meta(ge=0, le=4096)]
GpuIndex = Annotated[int, Meta(ge=0, le=4095)]
MOST_CANDIDATES = 200
MOST_NODES = 4096


class Candidate(Struct, kw_only=True, forbid_unknown_fields=True):
    """GPUs that the job could get.

    ``gpus_per_node`` counts them on each node; ``hosts`` and ``gpu_indices`` name nodes and GPUs in the same
    order where they are fixed. ``shared_levels`` says how many levels of the network the nodes have in
    common, where no cluster profile tells it of the hosts. Default ``gpu_type``: that of the job.
    """

    gpus_per_node: Annotated[list[GpuCount], Meta(min_length=1, max_length=MOST_NODES)]
    gpu_type: Name | None = None
    hosts: Annotated[list[Name], Meta(max_length=MOST_NODES)] | None = None
    gpu_indices: Annotated[list[list[GpuIndex]], Meta(max_length=MOST_NODES)] | None = None
    shared_levels: Annotated[int, Meta(ge=0, le=32)] | None = None


Candidates = Annotated[list[Candidate], Meta(min_length=1, max_length=MOST_CANDIDATES)]


class BundleIdentity(Struct, kw_only=True, frozen=True):
    """Which bundle answered, to the byte."""

    name: str
    version: str
    digest: str
    feature_spec: str


class GpuFit(Struct, kw_only=True, frozen=True):
    """Whether the upper bound fits into one class of GPU, and how likely the job runs out of memory there."""

    gpu_class: str
    memory_mib: float
    oom_probability: float
    fits: bool


class MemoryAnswer(Struct, kw_only=True):
    """Peak memory on each GPU.

    ``upper_mib`` is exceeded with probability ``risk``, as far as the ``support`` groups of runs behind it
    tell; ``few_groups`` says that they are too few and the bound is wide on purpose. ``regime`` says what
    the forecast rests on, best first: seen-signature, full-spec, poor-spec, cold; or, where no model is
    published, analytical (the formula alone) and prior (nothing). ``model`` is null then.
    """

    p50_mib: float
    upper_mib: float
    risk: float
    kind: str
    regime: str
    support: int
    few_groups: bool
    floor_mib: float
    analytical_mib: float | None
    breakdown_mib: dict[str, float]
    fits_on: list[GpuFit]
    model: BundleIdentity | None


class ReasonView(Struct, kw_only=True, frozen=True):
    """A stable code and its sentence."""

    code: str
    sentence: str


class LinkView(Struct, kw_only=True, frozen=True):
    """The link that bounds the communication; ``step_comm_s`` is null where the traffic is not known."""

    link: str
    between: tuple[str, str]
    step_comm_s: float | None


class AffinityView(Struct, kw_only=True, frozen=True):
    """Where the processes on one node should run: GPUs, cores, and variables for them.

    ``cpu_bind`` is what ``taskset -c`` takes, ``slurm_cpu_bind`` what ``srun --cpu-bind`` takes with a task
    per GPU; both are "" where the cores are not known.
    """

    host: str | None
    gpus: list[int]
    cpu_bind: str
    slurm_cpu_bind: str
    environment: dict[str, str]
    sentence: str


class PlacementAnswer(Struct, kw_only=True):
    """One candidate; ``candidate`` is its place in the request.

    ``score`` is its throughput over that of the best candidate. ``interval`` is the 90 % interval of its
    throughput over the best that could turn out. ``quantiles_s`` is how long the job would run there. Of an
    ``excluded`` candidate, which the job cannot use, these are null.
    """

    candidate: int
    gpu_type: str
    gpus_per_node: list[int]
    hosts: list[str]
    nodes_spanned: int
    score: float | None = None
    interval: tuple[float, float] | None = None
    expected_slowdown: float | None = None
    limiting_link: LinkView | None = None
    evidence: str | None = None
    evidence_count: int = 0
    reason: ReasonView | None = None
    quantiles_s: dict[str, float] | None = None
    affinity: list[AffinityView] = []
    excluded: ReasonView | None = None


class LevelView(Struct, kw_only=True, frozen=True):
    """The loosest level of the network that costs little; ``level`` "" = any placement will do."""

    level: str
    policy: Literal["any", "preferred", "required"]
    loss: float
    loss_beyond: float
    kueue: dict[str, str]
    slurm: list[str]


class TopologyAnswer(Struct, kw_only=True):
    """What holds for all candidates; without history the order is a rule, not a forecast."""

    no_history: bool
    level: LevelView | None
    model: BundleIdentity | None

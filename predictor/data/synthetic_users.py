"""This module draws the users of a synthetic cluster and the job templates each of them comes back to."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from predictor.data.synthetic_spec import WorkloadSpec

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

QOS_NAMES = ("low", "normal", "high")
CLASS_NAMES = ("background", "experiment", "production")
GPUS_PER_NODE = 8
CPUS_PER_NODE = 64
_MIB_PER_BYTE = 1.0 / 1_048_576.0
_REQUEST_UNITS_S = np.array([1800.0, 3600.0, 14_400.0, 43_200.0, 86_400.0])
_REQUEST_UNIT_SHARES = np.array([0.15, 0.35, 0.15, 0.2, 0.15])


class NameStyle(IntEnum):
    """How a user varies the name of a job from run to run."""

    CONSTANT = 0
    COUNTER = 1  # train_llama_0012
    LEARNING_RATE = 2  # sweep-lr3e-4-seed7
    TIMESTAMP = 3  # resnet50_20260112_0930
    VERSION = 4  # diffusion.v2.17


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of work that many users do, each in their own way."""

    name: str
    style: NameStyle
    task: str
    median_s: float
    gpus: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    framework: str = ""
    model_family: str = ""
    parameter_count: float = 0.0
    bytes_per_parameter: float = 16.0  # weights, gradients and two optimizer moments in mixed precision
    sample_vram_mib: float = 0.0
    batch_sizes: tuple[int, ...] = (1,)
    epochs: tuple[int, ...] = (1,)
    sequence_length: float = np.nan
    image_size: float = np.nan
    precision: str = ""


FAMILIES = (
    Family(name="train_llama", style=NameStyle.COUNTER, task="finetuning", median_s=14_000.0,
           gpus=(4, 8, 8, 16), framework="pytorch", model_family="llama", parameter_count=8e9,
           sample_vram_mib=2600.0, batch_sizes=(16, 32, 64), epochs=(1, 2, 3),
           sequence_length=4096.0, precision="bf16"),
    Family(name="sweep", style=NameStyle.LEARNING_RATE, task="training", median_s=3600.0, gpus=(1, 1, 1, 2),
           framework="pytorch", model_family="vit", parameter_count=86e6, sample_vram_mib=110.0,
           batch_sizes=(64, 128, 256), epochs=(10, 20, 30), image_size=224.0, precision="fp16"),
    Family(name="resnet50", style=NameStyle.TIMESTAMP, task="training", median_s=9000.0, gpus=(1, 2, 4),
           framework="tensorflow", model_family="resnet", parameter_count=25.6e6, sample_vram_mib=90.0,
           batch_sizes=(128, 256, 512), epochs=(30, 60, 90), image_size=224.0, precision="fp32"),
    Family(name="pretrain-gpt", style=NameStyle.COUNTER, task="pretraining", median_s=40_000.0,
           gpus=(8, 16, 32), framework="jax", model_family="gpt", parameter_count=1.3e9,
           sample_vram_mib=1900.0, batch_sizes=(128, 256), epochs=(1,),
           sequence_length=2048.0, precision="bf16"),
    Family(name="eval_ckpt", style=NameStyle.COUNTER, task="evaluation", median_s=1200.0, gpus=(1, 1, 2),
           framework="pytorch", model_family="llama", parameter_count=8e9, bytes_per_parameter=2.0,
           sample_vram_mib=300.0, batch_sizes=(4, 8), sequence_length=4096.0, precision="bf16"),
    Family(name="diffusion", style=NameStyle.VERSION, task="training", median_s=20_000.0, gpus=(2, 4, 8),
           framework="pytorch", model_family="stable-diffusion", parameter_count=860e6,
           sample_vram_mib=1400.0,
           batch_sizes=(16, 32, 64), epochs=(5, 10, 20), image_size=512.0, precision="fp16"),
    Family(name="infer-batch", style=NameStyle.TIMESTAMP, task="inference", median_s=2400.0, gpus=(1,),
           framework="pytorch", model_family="bert", parameter_count=340e6, bytes_per_parameter=2.0,
           sample_vram_mib=25.0, batch_sizes=(64, 128, 512), sequence_length=512.0, precision="fp16"),
    Family(name="preprocess", style=NameStyle.TIMESTAMP, task="", median_s=1500.0, cpus=(4, 8, 16, 32)),
    Family(name="md_run", style=NameStyle.COUNTER, task="", median_s=30_000.0, cpus=(32, 64, 128)),
    Family(name="openfoam", style=NameStyle.VERSION, task="", median_s=18_000.0, cpus=(64, 128, 256)),
    Family(name="rscript", style=NameStyle.COUNTER, task="", median_s=600.0, cpus=(1, 1, 2, 4)),
    Family(name="notebook", style=NameStyle.CONSTANT, task="", median_s=7200.0, cpus=(2, 4)),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """U users and their T templates; the templates of one user are neighbours.

    Attributes:
        arrival_s: shape (U,), when each user comes, seconds after the begin of the log, ascending.
        activity: shape (U,), relative rate of submissions.
        account, qos: shape (U,), number of the account and place in ``QOS_NAMES``.
        first_template, template_count: shape (U,), which templates are the user's.
        family: shape (T,), place in ``FAMILIES``.
        gpus, cpus, nodes: shape (T,), request over all nodes.
        gpu_type: shape (T,), preferred type, place in the spec's list; -1 for CPU work.
        batch_size, reference_epochs: shape (T,), habitual values.
        log_location, log_scale, tail_index, fast_weight, memory_weight: shape (T,), as in
            ``SyntheticTruth``, on the reference GPU type, before drift.
        drift: shape (T, weeks + 2), what to add to the log location at the begin of each week.
        memory_use_mib, memory_request_mib: shape (T,), host memory of one node, median peak and request.
        vram_mib: shape (T,), median peak of one GPU, before the cap of its type.
        over_request: shape (T,), requested over typical duration.
        request_unit_s: shape (T,), requests are rounded up to it; ``inf`` = the queue's maximum,
            NaN = no limit is asked for.
    """

    arrival_s: Floats
    activity: Floats
    account: Ints
    qos: Ints
    first_template: Ints
    template_count: Ints
    family: Ints
    gpus: Floats
    cpus: Floats
    nodes: Floats
    gpu_type: Ints
    batch_size: Floats
    reference_epochs: Floats
    log_location: Floats
    log_scale: Floats
    tail_index: Floats
    fast_weight: Floats
    memory_weight: Floats
    drift: Floats
    memory_use_mib: Floats
    memory_request_mib: Floats
    vram_mib: Floats
    over_request: Floats
    request_unit_s: Floats


def draw_population(spec: WorkloadSpec, rng: np.random.Generator) -> Population:
    """Draw the users and the templates of a workload."""
    users = spec.users
    late = rng.random(users) < spec.newcomer_share
    late[0] = False  # somebody is there from the begin
    arrival_s = np.sort(np.where(late, rng.random(users) * spec.span_s, 0.0))
    count = 1 + rng.poisson(spec.templates_per_user - 1.0, users)
    templates = int(count.sum())
    family = _draw_families(spec, rng, templates)
    gpus = _pick(rng, [FAMILIES[number].gpus or (0,) for number in family])
    cpus = np.where(gpus > 0, 8.0 * gpus, _pick(rng, [FAMILIES[number].cpus or (0,) for number in family]))
    weights = np.array([kind.weight for kind in spec.gpu_types])
    batch_size = _pick(rng, [FAMILIES[number].batch_sizes for number in family])
    epochs = _pick(rng, [FAMILIES[number].epochs for number in family])
    nodes = np.ceil(np.maximum(gpus / GPUS_PER_NODE, np.where(gpus > 0, 0.0, cpus / CPUS_PER_NODE)))
    memory_use_mib = (1024.0 + 900.0 * cpus / nodes) * rng.lognormal(0.0, 0.6, templates)
    memory_request_mib = memory_use_mib * rng.uniform(1.1, 5.0, templates)
    log_median = np.log([FAMILIES[number].median_s for number in family])
    vram_mib = _median_vram_mib(family, np.maximum(gpus, 1.0), batch_size)
    unit_s = rng.choice(_REQUEST_UNITS_S, size=templates, p=_REQUEST_UNIT_SHARES)
    habit = rng.random(templates)
    unit_s = np.where(habit > 0.94, np.inf, unit_s)
    steps = rng.normal(0.0, spec.drift_strength, (templates, int(spec.span_s // 604_800) + 2))
    steps[:, 0] = 0.0
    return Population(
        arrival_s=arrival_s,
        activity=rng.lognormal(0.0, 1.1, users),
        account=rng.integers(0, max(1, users // 6), users),
        qos=rng.choice(len(QOS_NAMES), size=users, p=[0.2, 0.65, 0.15]),
        first_template=np.cumsum(count) - count,
        template_count=count,
        family=family,
        gpus=gpus,
        cpus=cpus,
        nodes=nodes,
        gpu_type=np.where(gpus > 0, rng.choice(len(weights), size=templates, p=weights / weights.sum()), -1),
        batch_size=batch_size,
        reference_epochs=epochs,
        log_location=log_median + rng.normal(0.0, 0.9, templates),
        log_scale=np.clip(rng.lognormal(np.log(0.35), 0.6, templates), 0.08, 1.4),
        tail_index=rng.uniform(1.3, 2.5, templates),
        fast_weight=_draw_rates(rng, spec.failure_rate, templates),
        memory_weight=_draw_rates(rng, spec.out_of_memory_rate, templates),
        drift=np.cumsum(steps, axis=1),
        memory_use_mib=memory_use_mib,
        memory_request_mib=1024.0 * np.exp2(np.ceil(np.log2(memory_request_mib / 1024.0))),
        vram_mib=vram_mib * rng.lognormal(0.0, 0.2, templates),
        over_request=1.05 + rng.lognormal(np.log(1.5), 0.9, templates),
        request_unit_s=np.where(habit < spec.unlimited_share, np.nan, unit_s),
    )  # fmt: skip


def _draw_families(spec: WorkloadSpec, rng: np.random.Generator, templates: int) -> Ints:
    gpu = np.array([number for number, family in enumerate(FAMILIES) if family.gpus])
    cpu = np.array([number for number, family in enumerate(FAMILIES) if not family.gpus])
    is_gpu = rng.random(templates) < spec.gpu_job_share
    return np.where(is_gpu, rng.choice(gpu, size=templates), rng.choice(cpu, size=templates))


def _pick(rng: np.random.Generator, menus: list[tuple[int, ...]]) -> Floats:
    places = rng.random(len(menus))
    choices = [menu[int(place * len(menu))] for menu, place in zip(menus, places, strict=True)]
    return np.array(choices, dtype=np.float64)


def _draw_rates(rng: np.random.Generator, mean: float, templates: int) -> Floats:
    return np.clip(
        mean * rng.standard_exponential(templates), 0.0, 0.45
    )  # most templates rarely fail, few often


def _median_vram_mib(family: Ints, gpus: Floats, batch_size: Floats) -> Floats:
    bytes_of = np.array([kind.parameter_count * kind.bytes_per_parameter for kind in FAMILIES])
    state_bytes, sample_mib = bytes_of[family], np.array([kind.sample_vram_mib for kind in FAMILIES])[family]
    return 1500.0 + state_bytes * _MIB_PER_BYTE / gpus + sample_mib * batch_size / gpus  # fully sharded

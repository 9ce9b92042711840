"""This module defines a scheduling policy: one validated, versioned value that configures the Coordinator.

The nine policies of the simulator (``presets``) differ in nothing but these values.
"""

from dataclasses import dataclass, field

from predictor.errors import ArgumentError
from predictor.scheduling.classes import DEFAULT_CLASSES, WorkloadClass
from predictor.scheduling.remaining import GEOMETRIC_MEAN, MEAN

ORDERS = ("submit", "size", "attained", "remaining", "gittins")
AGEINGS = ("none", "linear", "ratio")
SOURCES = ("limit", "estimate", "forecast")
CORRECTIONS = ("limit", "tsafrir", "conditional")
BACKFILL_ORDERS = ("queue", "shortest")
STATISTICS = {"mean": MEAN, "geometric_mean": GEOMETRIC_MEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who comes first.

    Attributes:
        by: ``submit`` (first come, first served), ``size`` (duration times width), or, where running jobs
            give way at every decision: ``attained`` (least served first), ``remaining`` (shortest remaining
            first), ``gittins``.
        source: which duration the size is made of.
        level: which part of a forecast: a quantile, ``mean`` or ``geometric_mean``.
        width_exponent: 0 = duration alone, 1 = duration times width.
        ageing: ``linear``: key = size - ageing_rate * wait; ``ratio``: key = size / (1 + wait/tau)^power.
        ageing_rate: seconds of size forgiven for each second of waiting.
        guard_s: jobs that have waited longer come first, oldest first; ``inf`` = never.
        guard_width_exponent: above 0, the guard of a job is guard_s / (width / total)^exponent.
        deadline_weight, deadline_horizon_s: within the horizon before its latest start, a job with a deadline
            is pulled forward by weight * (horizon - slack) seconds.
    """

    by: str = "size"
    source: str = "forecast"
    level: float | str = 0.5
    width_exponent: float = 0.0
    ageing: str = "linear"
    ageing_rate: float = 0.1
    ageing_tau_s: float = 3600.0
    ageing_power: float = 1.0
    guard_s: float = float("inf")
    guard_width_exponent: float = 0.0
    deadline_weight: float = 1.0
    deadline_horizon_s: float = 3600.0

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            _choice("order.by", self.by, ORDERS),
            _choice("order.source", self.source, SOURCES),
            _choice("order.ageing", self.ageing, AGEINGS),
            _least("order.ageing_rate", self.ageing_rate, 0.0),
            _above("order.ageing_tau_s", self.ageing_tau_s),
            _least("order.ageing_power", self.ageing_power, 0.0),
            _least("order.guard_s", self.guard_s, 0.0),
            _least("order.deadline_weight", self.deadline_weight, 0.0),
            _least("order.deadline_horizon_s", self.deadline_horizon_s, 0.0),
        ]
        if isinstance(self.level, str):
            faults.append(_choice("order.level", self.level, tuple(STATISTICS)))
        else:
            faults.append(_probability("order.level", self.level))
        return [fault for fault in faults if fault]

    @property
    def level_number(self) -> float:
        """The level as the compiled code takes it."""
        return STATISTICS[self.level] if isinstance(self.level, str) else self.level


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which durations reservations and backfilling count with.

    Attributes:
        source: ``limit`` (the user's), ``estimate`` (a point from outside) or ``forecast``.
        backfill_level: with a forecast: a job is backfilled if it ends before the promise with this probability.
        running_level: with a forecast: at which quantile of their remaining time running jobs are expected to end.
        correction: what is planned for a job that exceeds its plan: ``limit`` = the whole limit, ``tsafrir`` =
            a fixed sequence of increments, ``conditional`` = the forecast given the elapsed time.
        reforecast_always: the remaining time is forecast again at every pass, not only when exceeded.
    """

    source: str = "forecast"
    backfill_level: float = 0.75
    running_level: float = 0.5
    correction: str = "conditional"
    reforecast_always: bool = False

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            _choice("plan.source", self.source, SOURCES),
            _choice("plan.correction", self.correction, CORRECTIONS),
            _probability("plan.backfill_level", self.backfill_level),
            _probability("plan.running_level", self.running_level),
        ]
        return [fault for fault in faults if fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Who is promised a start, and who may go ahead of the promised.

    Attributes:
        heads: how many blocked jobs, in order, get a promised start.
        eldest: how many of those that wait longest get one besides.
        guarded: how many of those beyond the guard get one besides.
        backfill: whether others may start where they delay no promise.
        backfill_order: ``queue`` or ``shortest`` (planned duration first).
        depth: how many jobs, in order, one pass looks at.
        tolerance_s: a promise that moves by no more is not said to move.
        confidence: probability with which a promised latest start is to be kept.
    """

    heads: int = 1
    eldest: int = 0
    guarded: int = 1
    backfill: bool = True
    backfill_order: str = "queue"
    depth: int = 1024
    tolerance_s: float = 60.0
    confidence: float = 0.9

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            _choice("reserve.backfill_order", self.backfill_order, BACKFILL_ORDERS),
            _least("reserve.heads", self.heads, 0),
            _least("reserve.eldest", self.eldest, 0),
            _least("reserve.guarded", self.guarded, 0),
            _least("reserve.depth", self.depth, 1),
            _least("reserve.tolerance_s", self.tolerance_s, 0.0),
            _probability("reserve.confidence", self.confidence),
        ]
        return [fault for fault in faults if fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole policy.

    Attributes:
        version: raised by whoever changes it; decisions can be traced to it.
        default_class: class of jobs that name none.
    """

    name: str = "ours"
    version: int = 1
    order: Order = field(default_factory=Order)
    plan: Plan = field(default_factory=Plan)
    reserve: Reserve = field(default_factory=Reserve)
    classes: tuple[WorkloadClass, ...] = DEFAULT_CLASSES
    default_class: str = "experiment"

    def __post_init__(self) -> None:
        faults = [*self.order.faults(), *self.plan.faults(), *self.reserve.faults()]
        for each in self.classes:
            faults += each.faults()
        names = [each.name for each in self.classes]
        if len(set(names)) < len(names):
            faults.append("two classes have the same name")
        if self.default_class not in names:
            faults.append(f"default_class={self.default_class!r} is not one of {', '.join(names)}")
        if faults:
            raise ArgumentError(f"policy {self.name!r} cannot be used", faults=faults)

    def workload_class(self, name: str) -> int:
        """Return the index of a class by name ("" = the default), -1 = there is none."""
        wanted = name or self.default_class
        return next((k for k, each in enumerate(self.classes) if each.name == wanted), -1)


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    return "" if value in allowed else f"{name}={value!r} is not one of {', '.join(allowed)}"


def _probability(name: str, value: float) -> str:
    return "" if 0.0 < value < 1.0 else f"{name}={value} must lie strictly between 0 and 1"


def _least(name: str, value: float, least: float) -> str:
    return "" if value >= least else f"{name}={value} must be {least} or more"


def _above(name: str, value: float) -> str:
    return "" if value > 0 else f"{name}={value} must be above 0"

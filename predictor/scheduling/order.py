"""This module configures who comes first in the queue."""

from dataclasses import dataclass

from predictor.scheduling.checks import above, at_most, choice, least, probability
from predictor.scheduling.remaining import GEOMETRIC_MEAN, MEAN

ORDERS = ("submit", "size", "attained", "gittins")
AGEINGS = ("none", "linear", "ratio")
SOURCES = ("limit", "estimate", "forecast")
STATISTICS = {"mean": MEAN, "geometric_mean": GEOMETRIC_MEAN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who comes first.

    The defaults were chosen among random configurations on KTH-SP2, with and without noise in the forecasts,
    and parts of Atlas, Philly, Graham, Intrepid and RICC, as one that keeps both the mean and the tail.

    Attributes:
        by: ``submit`` (first come, first served), ``size`` (expected seconds left, times width), ``attained``
            (least served first, in steps of ``attained_step``), or ``gittins`` (see ``gittins``).
        source: which duration the size is made of.
        level: which part of a forecast: a quantile, ``mean`` or ``geometric_mean``.
        width_exponent: 0 = duration alone, 1 = duration times width.
        ageing: ``linear``: key = size - ageing_rate * wait; ``ratio``: key = size / (1 + wait/tau)^power.
        ageing_tau_s, ageing_power: of ``ratio``.
        ageing_rate: of ``linear``: seconds of size forgiven for each second of waiting.
        guard_s: jobs that have waited longer come first, oldest first; ``inf`` = never.
        guard_width_exponent: above 0, the guard of a job is guard_s / (width / total)^exponent.
        guard_most_s: no guard is longer, however narrow the job.
        guard_backlogs, guard_least_s: nor is it longer than guard_least_s and so many times what the cluster
            needed, at the job's submission, for all that was before it; ``inf`` = whatever was before it.
        attained_step: unit-seconds of service between two levels of ``attained``.
        deadline_weight, deadline_horizon_s: within the horizon before its latest start, a job with a deadline
            is pulled forward by weight * (horizon - slack) seconds.
    """

    by: str = "size"
    source: str = "forecast"
    level: float | str = 0.8
    width_exponent: float = 0.0
    ageing: str = "ratio"
    ageing_rate: float = 0.3
    ageing_tau_s: float = 28_800.0
    ageing_power: float = 1.0
    guard_s: float = 100_000.0
    guard_width_exponent: float = 0.5
    guard_most_s: float = 195_000.0
    guard_backlogs: float = 4.0
    guard_least_s: float = 7_200.0
    deadline_weight: float = 1.0
    deadline_horizon_s: float = 3600.0
    attained_step: float = 3600.0

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            choice("order.by", self.by, ORDERS),
            choice("order.source", self.source, SOURCES),
            choice("order.ageing", self.ageing, AGEINGS),
            least("order.ageing_rate", self.ageing_rate, 0.0),
            above("order.ageing_tau_s", self.ageing_tau_s),
            above("order.attained_step", self.attained_step),
            least("order.ageing_power", self.ageing_power, 0.0),
            at_most("order.ageing_power", self.ageing_power, 100.0),
            least("order.guard_s", self.guard_s, 0.0),
            above("order.guard_most_s", self.guard_most_s),
            least("order.guard_backlogs", self.guard_backlogs, 0.0),
            least("order.guard_least_s", self.guard_least_s, 0.0),
            least("order.deadline_weight", self.deadline_weight, 0.0),
            least("order.deadline_horizon_s", self.deadline_horizon_s, 0.0),
        ]
        if isinstance(self.level, str):
            faults.append(choice("order.level", self.level, tuple(STATISTICS)))
        else:
            faults.append(probability("order.level", self.level))
        return [fault for fault in faults if fault]

    @property
    def level_number(self) -> float:
        """The level as the compiled code takes it."""
        return STATISTICS[self.level] if isinstance(self.level, str) else self.level

"""This module configures what is planned for each job, who is promised a start, and who may go ahead."""

from dataclasses import dataclass

from predictor.scheduling.checks import above, at_most, choice, least, probability
from predictor.scheduling.order import SOURCES

CORRECTIONS = ("limit", "tsafrir", "conditional")
BACKFILL_ORDERS = ("queue", "shortest")
NODE_CHOICES = ("best-fit", "first-fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which durations reservations and backfilling count with.

    Attributes:
        source: ``limit`` (the user's), ``estimate`` (a point from outside) or ``forecast``.
        backfill_level: with a forecast: a job is backfilled if it ends before the promise with this
            probability.
        running_level: with a forecast: at which quantile of their remaining time running jobs are expected
            to end.
        guarded_level: with a forecast: the same probability for whoever goes ahead of a promised job that is
            beyond its guard.
        careful_after_guards, careful_after_backlogs: once that job has waited for so many times its guard,
            and for so many times what the cluster needs for all that is there, other guarded jobs that would
            go ahead of it count with a higher quantile, the higher the narrower they are beside it: many of
            them may, and each that errs delays it.
        strict_after_guards: once that job has waited for so many times its guard, all that would go ahead of
            it are counted with their whole limit, so that nobody can delay it any more; ``inf`` = never.
        correction: what is planned for a job that exceeds its plan: ``limit`` = the whole limit,
            ``tsafrir`` =
            a fixed sequence of increments, ``conditional`` = the forecast given the elapsed time.
        reforecast_always: the remaining time is forecast again at every pass, not only when exceeded.
    """

    source: str = "forecast"
    backfill_level: float = 0.5
    running_level: float = 0.9
    guarded_level: float = 0.85
    careful_after_guards: float = 6.0
    careful_after_backlogs: float = 2.0
    strict_after_guards: float = 30.0
    correction: str = "conditional"
    reforecast_always: bool = False

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            choice("plan.source", self.source, SOURCES),
            choice("plan.correction", self.correction, CORRECTIONS),
            probability("plan.backfill_level", self.backfill_level),
            probability("plan.running_level", self.running_level),
            above("plan.guarded_level", self.guarded_level),
            at_most("plan.guarded_level", self.guarded_level, 1.0),
            least("plan.careful_after_guards", self.careful_after_guards, 1.0),
            least("plan.careful_after_backlogs", self.careful_after_backlogs, 0.0),
            least("plan.strict_after_guards", self.strict_after_guards, 1.0),
        ]
        return [fault for fault in faults if fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Who is promised a start, and who may go ahead of the promised.

    Attributes:
        heads: how many blocked jobs, in order, get a promised start.
        eldest: how many of those that wait longest get one besides.
        guarded: how many beyond the guard get one; while they wait for it, nobody else does.
        backfill: whether others may start where they delay no promise.
        backfill_order: ``queue`` or ``shortest`` (planned duration first).
        node_choice: ``best-fit`` keeps empty nodes together; ``first-fit`` lets packing move no promise (see
            ``nodes``), which matters where many are promised a start.
        depth: how many jobs, in order, one pass looks at.
        tolerance_s: a promise that moves by no more is not said to move.
        confidence: probability with which a promised latest start is to be kept.
    """

    heads: int = 1
    eldest: int = 1
    guarded: int = 1
    backfill: bool = True
    backfill_order: str = "queue"
    node_choice: str = "best-fit"
    depth: int = 1024
    tolerance_s: float = 60.0
    confidence: float = 0.9

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = [
            choice("reserve.backfill_order", self.backfill_order, BACKFILL_ORDERS),
            least("reserve.heads", self.heads, 0),
            least("reserve.eldest", self.eldest, 0),
            least("reserve.guarded", self.guarded, 0),
            choice("reserve.node_choice", self.node_choice, NODE_CHOICES),
            least("reserve.depth", self.depth, 1),
            least("reserve.tolerance_s", self.tolerance_s, 0.0),
            probability("reserve.confidence", self.confidence),
        ]
        return [fault for fault in faults if fault]

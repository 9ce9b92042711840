"""This module defines a scheduling policy: one validated, versioned value that configures the Coordinator.

The policies that the simulator compares (``presets``) differ in nothing but these values.
"""

from dataclasses import dataclass, field

from predictor.errors import ArgumentError
from predictor.scheduling.classes import DEFAULT_CLASSES, WorkloadClass
from predictor.scheduling.fair_share import FairShare
from predictor.scheduling.headroom import Headroom
from predictor.scheduling.order import Order
from predictor.scheduling.placement import Placement
from predictor.scheduling.preemption import Preemption
from predictor.scheduling.quota import Quota
from predictor.scheduling.reservation import Plan, Reserve
from predictor.scheduling.siblings import Siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole policy.

    Attributes:
        name: what people call it.
        version: raised by whoever changes it; decisions can be traced to it.
        quotas: what teams own of pools, [] = everybody may use everything.
        classes: what is said once about every job of a kind.
        default_class: class of jobs that name none.
    """

    name: str = "ours"
    version: int = 1
    order: Order = field(default_factory=Order)
    plan: Plan = field(default_factory=Plan)
    reserve: Reserve = field(default_factory=Reserve)
    siblings: Siblings = field(default_factory=Siblings)
    placement: Placement = field(default_factory=Placement)
    preemption: Preemption = field(default_factory=Preemption)
    fair_share: FairShare = field(default_factory=FairShare)
    headroom: Headroom = field(default_factory=Headroom)
    quotas: tuple[Quota, ...] = ()
    classes: tuple[WorkloadClass, ...] = DEFAULT_CLASSES
    default_class: str = "experiment"

    def __post_init__(self) -> None:
        faults = [*self.order.faults(), *self.plan.faults(), *self.reserve.faults()]
        faults += self.siblings.faults()
        faults += [*self.preemption.faults(), *self.fair_share.faults(), *self.headroom.faults()]
        for each in self.classes:
            faults += each.faults()
        for quota in self.quotas:
            faults += quota.faults()
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
        for k, each in enumerate(self.classes):
            if each.name == wanted:
                return k
        return -1

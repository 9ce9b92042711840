"""This module sizes the units that are kept free for urgent arrivals, from when they came before.

The demand of urgent classes is remembered per hour of the week: for each of the last ``weeks`` weeks, how
many units arrived in that hour. Kept is the newsvendor's quantile of those weeks (Arrow, Harris, Marschak,
Optimal inventory policy, 1951): the smallest number of units that suffices with probability
``wait_cost / (wait_cost + idle_cost)``, so that one more would cost more idling than it saves waiting.
"""

from dataclasses import dataclass

import numpy as np

from predictor.scheduling.store import FloatArray

HOURS = 168
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """How much may be kept free for whom.

    Attributes:
        most_ratio: never more than this part of a pool; 0 = none is kept.
        tier: classes up to this tier are urgent: the rest is kept from the held units.
        wait_cost, idle_cost: what a missing unit and an idle unit cost, relative to each other.
        weeks: how many weeks are remembered.
    """

    most_ratio: float = 0.1
    tier: int = 0
    wait_cost: float = 4.0
    idle_cost: float = 1.0
    weeks: int = 8

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = []
        if not 0 <= self.most_ratio < 1:
            faults.append(f"headroom.most_ratio={self.most_ratio} must be 0 or more and below 1")
        if not (self.wait_cost > 0 and self.idle_cost > 0):
            faults.append("headroom.wait_cost and headroom.idle_cost must be above 0")
        if not 1 <= self.weeks <= 520:
            faults.append(f"headroom.weeks={self.weeks} must be 1 to 520")
        return faults

    @property
    def enough(self) -> float:
        """Probability with which the held units are to suffice."""
        return self.wait_cost / (self.wait_cost + self.idle_cost)


class UrgentDemand:
    """Units that urgent jobs asked for in each hour of the week and each remembered week.

    Attributes:
        units: shape (P, weeks, HOURS). week_of: shape (weeks,), which week each row holds, -1 = none.
    """

    def __init__(self, pools: int, weeks: int) -> None:
        self.units: FloatArray = np.zeros((pools, weeks, HOURS))
        self.week_of = np.full(weeks, -1, dtype=np.int64)
        self.any = False
        self._of = (-1, -1, 0.0)  # week, hour and probability that the last answer was for
        self._wanted: FloatArray = np.zeros(pools)

    def record(self, now_s: float, pools: int, width: int) -> None:
        """Remember an urgent arrival, for each pool of the bit set."""
        week, hour = _week_and_hour(now_s)
        self._turn_to(week)
        for pool in range(len(self.units)):
            if pools >> pool & 1:
                self.units[pool, week % len(self.week_of), hour] += width
        self.any = True

    def expected_units(self, now_s: float, rule: Headroom) -> FloatArray:
        """Return the units to hold in each pool now, before the part of the pool caps them, shape (P,)."""
        week, hour = _week_and_hour(now_s)
        of = (week, hour, rule.enough)
        if self._of != of:  # weeks that are over do not change: once an hour is enough
            self._turn_to(week)
            past = (self.week_of >= 0) & (self.week_of < week)
            self._wanted = np.zeros(len(self.units))
            if past.any():
                seen = self.units[:, past, hour]
                self._wanted = np.asarray(np.quantile(seen, rule.enough, axis=1, method="inverted_cdf"))
            self._of = of
        return self._wanted

    def remember(self, weeks: int) -> None:
        """Remember so many weeks from now on, the newest of those known among them."""
        if weeks == len(self.week_of):
            return
        units, known = self.units, self.week_of
        self.units = np.zeros((len(units), weeks, HOURS))
        self.week_of = np.full(weeks, -1, dtype=np.int64)
        for row in np.argsort(known)[-weeks:]:
            if known[row] >= 0:
                self.units[:, known[row] % weeks] = units[:, row]
                self.week_of[known[row] % weeks] = known[row]
        self._of = (-1, -1, 0.0)

    def copy(self) -> "UrgentDemand":
        """Return an independent copy."""
        other = UrgentDemand(*self.units.shape[:2])
        other.units, other.week_of, other.any = self.units.copy(), self.week_of.copy(), self.any
        return other

    def _turn_to(self, week: int) -> None:
        """Open the row of a week; weeks passed over without an urgent job count as zero demand."""
        newest = int(self.week_of.max())
        first = week if newest < 0 else max(newest + 1, week - len(self.week_of) + 1)
        for each in range(first, week + 1):
            row = each % len(self.week_of)
            self.units[:, row] = 0.0
            self.week_of[row] = each


def _week_and_hour(now_s: float) -> tuple[int, int]:
    hours = int(now_s // _HOUR_S)
    return hours // HOURS, hours % HOURS

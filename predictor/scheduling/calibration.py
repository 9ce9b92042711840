"""This module keeps promised latest starts at their confidence, by learning from those kept and broken.

The latest start is ``now + stretch * (plan at a high quantile - now)``. After each start the logarithm of
the stretch moves up by ``rate * confidence`` if the promise was broken and down by ``rate * (1 -
confidence)`` if it was kept, so that in the long run the stated part of promises is kept whatever the jobs
do (Gibbs, Candes, Adaptive conformal inference under distribution shift, 2021). The rate falls with the
promises judged, from a start where little is known (Angelopoulos, Barber, Bates, Online conformal prediction
with decaying step sizes, 2024), to a floor that still follows a change.
"""

import math

_RATE, _FIRST_RATE = 0.05, 0.5
_LEAST_LOG, _MOST_LOG = math.log(0.25), math.log(16.0)
_FIRST_LOG = math.log(2.5)  # cautious, until some promises have been judged
SHORTEST_S = 60.0  # a promise speaks of whole minutes


class PromiseCalibration:
    """The stretch of promised latest starts.

    Attributes:
        log_stretch: natural logarithm of it. kept, broken: promises judged so far.
    """

    def __init__(self) -> None:
        self.log_stretch = _FIRST_LOG
        self.kept = 0
        self.broken = 0

    def latest_start_s(self, now_s: float, planned_s: float) -> float:
        """Return the start to promise with confidence, from the plan at a high quantile."""
        return now_s + math.exp(self.log_stretch) * max(planned_s - now_s, SHORTEST_S)

    def judge(self, start_s: float, latest_s: float, confidence: float) -> None:
        """Learn from a start that had been promised."""
        rate = max(_RATE, _FIRST_RATE / math.sqrt(1.0 + self.kept + self.broken))
        if start_s <= latest_s:
            self.kept += 1
            step = -rate * (1.0 - confidence)
        else:
            self.broken += 1
            step = rate * confidence
        self.log_stretch = min(max(self.log_stretch + step, _LEAST_LOG), _MOST_LOG)

    def copy(self) -> "PromiseCalibration":
        """Return an independent copy."""
        other = PromiseCalibration()
        other.log_stretch, other.kept, other.broken = self.log_stretch, self.kept, self.broken
        return other

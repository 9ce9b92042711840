"""This module says which policies are compared, and what each of them is told of a job's duration."""

from dataclasses import dataclass

import numpy as np

from predictor.errors import ArgumentError
from predictor.scheduling.policy import Policy
from predictor.scheduling.presets import PRESETS, preset
from predictor.simulation.arrivals import Arrivals
from predictor.simulation.trace import FloatArray, Trace

NO_LIMIT_S = 1e9  # what a policy that plans with limits takes for none
_KNOWS = {
    "easy-pp": "recent",
    "sjf-oracle": "oracle",
    "srtf-oracle": "oracle",
    "qssf": "forecast mean",
    "ours": "forecast",
}
NAMES = tuple(PRESETS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy and what it knows.

    Attributes:
        knows: ``limit``, ``oracle`` (the true run time), ``recent`` (mean of the user's last two),
            ``forecast`` (the distribution), ``forecast mean`` (a point), or ``blend`` (see ``blend``).
        blend: of ``blend``: 0 = the true run time, 1 = the user's limit, between them geometrically.
    """

    name: str
    policy: Policy
    knows: str
    blend: float = 0.0

    @property
    def needs_forecasts(self) -> bool:
        """Whether it cannot be played without forecasts."""
        return self.knows.startswith("forecast")


def contenders(names: str) -> tuple[Contender, ...]:
    """Return policies by their names, separated by commas; ``all`` = every one.

    Raises:
        ArgumentError: names are not known, or there is none.
    """
    wanted = NAMES if names.strip() == "all" else tuple(filter(None, map(str.strip, names.split(","))))
    unknown = [name for name in wanted if name not in PRESETS]
    if unknown or not wanted:
        raise ArgumentError(
            f"--policy {names}: {', '.join(unknown) or 'none given'}; choose of {', '.join(NAMES)}, or all"
        )
    return tuple(
        Contender(name=name, policy=preset(name), knows=_KNOWS.get(name, "limit"))
        for name in dict.fromkeys(wanted)
    )


def arrivals_for(
    contender: Contender, trace: Trace, quantiles_s: FloatArray | None, means_s: FloatArray | None = None
) -> Arrivals:
    """Return what a policy is told of each job of a trace.

    Args:
        quantiles_s: shape (n, L), forecasts as of submission, NaN rows = none yet.
        means_s: shape (n,), expected durations of the same forecasts.

    Raises:
        ArgumentError: the policy needs forecasts and there are none.
    """
    if contender.needs_forecasts and quantiles_s is None:
        raise ArgumentError(f"policy {contender.name} needs forecasts; none were made")
    classes = frozenset(each.name for each in contender.policy.classes)
    if contender.knows == "forecast":
        return Arrivals(trace, quantiles_s=quantiles_s, classes=classes)
    limit_s = np.where(np.isfinite(trace.limit_s), trace.limit_s, NO_LIMIT_S)
    if contender.knows == "blend":
        points = np.exp((1 - contender.blend) * np.log(trace.work_s) + contender.blend * np.log(limit_s))
        levels = 23 if quantiles_s is None else quantiles_s.shape[1]
        return Arrivals(trace, quantiles_s=np.repeat(points[:, None], levels, axis=1), classes=classes)
    points = {"oracle": trace.work_s, "forecast mean": means_s}.get(contender.knows)
    return Arrivals(
        trace, limit_s=limit_s, estimate_s=points, recent=contender.knows == "recent", classes=classes
    )

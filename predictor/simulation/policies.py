"""This module says which policies are compared, and what each of them is told of a job's duration."""

from dataclasses import dataclass

import numpy as np

from predictor.contracts.forecast import LEVELS
from predictor.errors import ArgumentError
from predictor.scheduling.named_policy import is_file, named_policy
from predictor.scheduling.policy import Policy
from predictor.scheduling.presets import PRESETS
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
_FILE_KNOWS = {"forecast": "forecast", "estimate": "recent", "limit": "limit"}
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
    """Return policies by their names or TOML files, separated by commas; ``all`` = every name.

    A policy of a file is told of a job's duration what its plans are made of.

    Raises:
        ArgumentError: names are not known, there is none, or a policy has faults.
        FormatError: a file cannot be read.
    """
    wanted = NAMES if names.strip() == "all" else tuple(filter(None, map(str.strip, names.split(","))))
    unknown = [name for name in wanted if not is_file(name) and name.partition(":")[0] not in PRESETS]
    if unknown or not wanted:
        raise ArgumentError(
            f"--policy {names}: {', '.join(unknown) or 'none given'}; choose of {', '.join(NAMES)}, all, or"
            " name TOML files"
        )
    return tuple(_contender(name) for name in dict.fromkeys(wanted))


def _contender(name: str) -> Contender:
    policy = named_policy(name)
    knows = _FILE_KNOWS[policy.plan.source] if is_file(name) else _KNOWS.get(name.partition(":")[0], "limit")
    return Contender(name=name, policy=policy, knows=knows)


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
        between_s = np.exp((1 - contender.blend) * np.log(trace.work_s) + contender.blend * np.log(limit_s))
        return Arrivals(
            trace, quantiles_s=np.repeat(between_s[:, None], len(LEVELS), axis=1), classes=classes
        )
    points = {"oracle": trace.work_s, "forecast mean": means_s}.get(contender.knows)
    return Arrivals(
        trace, limit_s=limit_s, estimate_s=points, recent=contender.knows == "recent", classes=classes
    )

"""This module forecasts peak memory where nothing was learned yet: the formula, with a wide bound."""

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

from predictor.contracts.memory import DeviceFit, MemoryForecast, MemoryRequest, PeakKind
from predictor.errors import ArgumentError
from predictor.forecasting.memory.bound import GroupScores
from predictor.forecasting.memory.forecaster import MemoryForecaster, MemorySettings
from predictor.forecasting.memory.signature_history import SignatureHistory

# spread of ln(peak / formula): activations of vision models are up to a half off; without a spec all that
# is known is that cards hold from a few to a hundred GiB
SPEC_SPREAD_LOG, NO_SPEC_SPREAD_LOG = 0.4, 1.2


def prior_forecast(request: MemoryRequest, *, risk: float, devices: Mapping[str, float]) -> MemoryForecast:
    """Return the forecast of the formula alone; the error is taken as log-normal, and wide.

    Args:
        risk: chance of exceeding the upper bound.
        devices: MiB of one GPU by class.

    Raises:
        ArgumentError: a spec cannot be, or the risk is no probability.
    """
    if not 0.0 < risk < 1.0:
        raise ArgumentError(f"risk={risk} is no probability; pass a value between 0 and 1")
    nothing = GroupScores.none()
    formula = MemoryForecaster(
        kind=PeakKind.USED, settings=MemorySettings(), rich=None, poor=None, history=SignatureHistory(),
        history_scores=nothing, known_families=frozenset(),
    )  # fmt: skip
    [found] = formula.predict([request], risk=risk)
    normal = NormalDist()
    spread = SPEC_SPREAD_LOG if request.has_spec else NO_SPEC_SPREAD_LOG
    spread = math.hypot(spread, request.guess_log / normal.inv_cdf(0.95))
    upper_mib = found.p50_mib * math.exp(max(-normal.inv_cdf(risk), 0.0) * spread)
    fits = tuple(
        DeviceFit(
            name=name, capacity_mib=capacity, fits=upper_mib <= capacity,
            oom_probability=1.0 - normal.cdf(math.log(capacity / found.p50_mib) / spread),
        )
        for name, capacity in devices.items()
    )  # fmt: skip
    return replace(found, upper_mib=upper_mib, few_groups=True, devices=fits)

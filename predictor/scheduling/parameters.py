"""This module lays a policy out as a vector of numbers for the compiled passes."""

import numpy as np

from predictor.scheduling.policy import AGEINGS, BACKFILL_ORDERS, CORRECTIONS, ORDERS, SOURCES, Policy
from predictor.scheduling.store import FloatArray

ORDER_BY = 0
ORDER_SOURCE = 1
ORDER_LEVEL = 2
WIDTH_EXPONENT = 3
AGEING = 4
AGEING_RATE = 5
AGEING_TAU = 6
AGEING_POWER = 7
GUARD = 8
GUARD_EXPONENT = 9
DEADLINE_WEIGHT = 10
DEADLINE_HORIZON = 11
PLAN_SOURCE = 12
BACKFILL_LEVEL = 13
RUNNING_LEVEL = 14
CORRECTION = 15
REFORECAST = 16
HEADS = 17
ELDEST = 18
GUARDED = 19
BACKFILL = 20
SHORTEST_FIRST = 21
DEPTH = 22
TOLERANCE = 23
ONE_TIER = 24
LENGTH = 25

BY_SUBMIT, BY_SIZE = 0, 1
FROM_LIMIT, FROM_ESTIMATE, FROM_FORECAST = 0, 1, 2
NO_AGEING, LINEAR, RATIO = 0, 1, 2
TO_LIMIT, TSAFRIR, CONDITIONAL = 0, 1, 2


def parameters(policy: Policy) -> FloatArray:
    """Return the numbers of a policy, shape (LENGTH,)."""
    order, plan, reserve = policy.order, policy.plan, policy.reserve
    values = np.zeros(LENGTH)
    values[ORDER_BY] = ORDERS.index(order.by)
    values[ORDER_SOURCE] = SOURCES.index(order.source)
    values[ORDER_LEVEL] = order.level_number
    values[WIDTH_EXPONENT] = order.width_exponent
    values[AGEING] = AGEINGS.index(order.ageing)
    values[AGEING_RATE] = order.ageing_rate
    values[AGEING_TAU] = order.ageing_tau_s
    values[AGEING_POWER] = order.ageing_power
    values[GUARD] = order.guard_s
    values[GUARD_EXPONENT] = order.guard_width_exponent
    values[DEADLINE_WEIGHT] = order.deadline_weight
    values[DEADLINE_HORIZON] = order.deadline_horizon_s
    values[PLAN_SOURCE] = SOURCES.index(plan.source)
    values[BACKFILL_LEVEL] = plan.backfill_level
    values[RUNNING_LEVEL] = plan.running_level
    values[CORRECTION] = CORRECTIONS.index(plan.correction)
    values[REFORECAST] = plan.reforecast_always
    values[HEADS] = reserve.heads
    values[ELDEST] = reserve.eldest
    values[GUARDED] = reserve.guarded
    values[BACKFILL] = reserve.backfill
    values[SHORTEST_FIRST] = BACKFILL_ORDERS.index(reserve.backfill_order)
    values[DEPTH] = reserve.depth
    values[TOLERANCE] = reserve.tolerance_s
    values[ONE_TIER] = 1.0
    return values

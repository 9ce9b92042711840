"""This module lays a policy out as a vector of numbers for the compiled passes."""

import numpy as np

from predictor.scheduling import parameters as p
from predictor.scheduling.order import AGEINGS, ORDERS, SOURCES
from predictor.scheduling.policy import Policy
from predictor.scheduling.reservation import BACKFILL_ORDERS, CORRECTIONS, NODE_CHOICES
from predictor.scheduling.store import FloatArray


def parameter_vector(policy: Policy) -> FloatArray:
    """Return the numbers of a policy, shape (LENGTH,)."""
    order, plan, reserve = policy.order, policy.plan, policy.reserve
    values = np.zeros(p.LENGTH)
    values[p.ORDER_BY] = ORDERS.index(order.by)
    values[p.ORDER_SOURCE] = SOURCES.index(order.source)
    values[p.ORDER_LEVEL] = order.level_number
    values[p.WIDTH_EXPONENT] = order.width_exponent
    values[p.AGEING] = AGEINGS.index(order.ageing)
    values[p.AGEING_RATE] = order.ageing_rate
    values[p.AGEING_TAU] = order.ageing_tau_s
    values[p.AGEING_POWER] = order.ageing_power
    values[p.GUARD] = order.guard_s
    values[p.GUARD_MOST] = order.guard_most_s
    values[p.GUARD_BACKLOGS] = order.guard_backlogs
    values[p.GUARD_LEAST] = order.guard_least_s
    values[p.GUARD_EXPONENT] = order.guard_width_exponent
    values[p.DEADLINE_WEIGHT] = order.deadline_weight
    values[p.DEADLINE_HORIZON] = order.deadline_horizon_s
    values[p.PLAN_SOURCE] = SOURCES.index(plan.source)
    values[p.BACKFILL_LEVEL] = plan.backfill_level
    values[p.GUARDED_LEVEL] = plan.guarded_level
    values[p.CAREFUL_AFTER] = plan.careful_after_guards
    values[p.CAREFUL_BACKLOGS] = plan.careful_after_backlogs
    values[p.STRICT_AFTER] = plan.strict_after_guards
    values[p.RUNNING_LEVEL] = plan.running_level
    values[p.CORRECTION] = CORRECTIONS.index(plan.correction)
    values[p.REFORECAST] = plan.reforecast_always
    values[p.HEADS] = reserve.heads
    values[p.ELDEST] = reserve.eldest
    values[p.GUARDED] = reserve.guarded
    values[p.BACKFILL] = reserve.backfill
    values[p.SHORTEST_FIRST] = BACKFILL_ORDERS.index(reserve.backfill_order)
    values[p.FIRST_FIT] = NODE_CHOICES.index(reserve.node_choice)
    values[p.DEPTH] = reserve.depth
    values[p.TOLERANCE] = reserve.tolerance_s
    values[p.ATTAINED_STEP] = order.attained_step
    if plan.source == "forecast":  # what plans otherwise is compared as published
        values[p.SIBLING_CORRELATION] = policy.siblings.correlation
    values[p.SIBLING_REACH] = policy.siblings.reach
    values[p.SIBLING_FADING] = policy.siblings.fading
    values[p.SIBLING_BELIEF] = policy.siblings.belief
    return values

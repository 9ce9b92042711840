"""This module turns what a pass left with a job, a code and numbers, into the reason that people read."""

from predictor.contracts.reasons import Reason, ReasonCode
from predictor.scheduling import columns as c
from predictor.scheduling.store import JobStore


def start_reason(store: JobStore, slot: int) -> Reason:
    """Return why a job was started in the last pass."""
    needed, free, promises = store.floats[c.NUMBER_0 : c.NUMBER_3, slot].tolist()
    code = ReasonCode(int(store.ints[c.REASON, slot]))
    if code is ReasonCode.BACKFILLED:
        numbers = {"promises": promises, "plan_s": float(store.floats[c.NUMBER_3, slot]), "needed": needed}
        return Reason(code=code, numbers=numbers)
    return Reason(code=code, numbers={"needed": needed, "free": free})


def waiting_reason(store: JobStore, slot: int, used: int, most: int) -> Reason:
    """Return why a job waits, as of the last pass that looked at it.

    Args:
        used, most: units that its team holds and may hold, for the sentence about quotas.
    """
    first, second, third = store.floats[c.NUMBER_0 : c.NUMBER_3, slot].tolist()
    code = ReasonCode(int(store.ints[c.REASON, slot]))
    if code is ReasonCode.CAPACITY_SHORT:
        return Reason(code=code, numbers={"needed": first, "free": second})
    if code is ReasonCode.BEHIND_OTHERS:
        return Reason(code=code, numbers={"needed": first, "free": second, "ahead": third})
    if code is ReasonCode.WOULD_DELAY_PROMISE:
        return Reason(code=code, numbers={"needed": first, "plan_s": second, "promise_s": third})
    if code is ReasonCode.QUOTA_EXCEEDED:
        return Reason(code=code, numbers={"needed": first, "used": float(used), "limit": float(most)})
    if code is ReasonCode.BACKING_OFF:
        return Reason(code=code, numbers={"evictions": first, "until_s": second})
    if code is ReasonCode.HEADROOM_HELD:
        return Reason(code=code, numbers={"needed": first, "free": second, "held": third})
    if code is ReasonCode.FRAGMENTED:
        return Reason(code=code, numbers={"needed": first, "free": second})
    return Reason(code=ReasonCode.UNSEEN)

"""This module reads a Coordinator in pages: waiting and running jobs, promises, capacity, teams.

Reading changes nothing and costs as much as the page, not as the queue.
"""

import math

import numpy as np

from predictor.scheduling import columns as c
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.eta import Eta, expected_ends, forecast_starts
from predictor.scheduling.parameter_vector import parameter_vector
from predictor.scheduling.passes import nodes_of
from predictor.scheduling.priority import guard_s, ranks_and_keys
from predictor.scheduling.quota import UNLIMITED
from predictor.scheduling.reasons import waiting_reason
from predictor.scheduling.remaining import quantile_s, remaining_s
from predictor.scheduling.store import IntArray
from predictor.scheduling.view_rows import (
    CapacityRow,
    Explanation,
    Life,
    NodeRow,
    PromiseRow,
    QueuePage,
    QueueRow,
    RunningPage,
    RunningRow,
    TeamRow,
)

_RANKS_APART = 1e13  # seconds, more than any key
_LEVELS = {"q10": 0.1, "q50": 0.5, "q90": 0.9}
_STEPS_S = (900.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, 24 * 3600.0)


def queue_order(
    coordinator: Coordinator, most: int, *, now_s: float, pool: str = "", workload_class: str = ""
) -> tuple[int, IntArray]:
    """Return how many jobs wait (after filters), and the slots of the first of them in order at ``now_s``."""
    store = coordinator.state.store
    slots = store.waiting_slots
    ints = store.ints
    if pool:
        at = coordinator.state.capacity.index.get(pool, -1)
        slots = slots[(ints[c.POOLS, slots] >> at) & 1 == 1] if at >= 0 else slots[:0]
    if workload_class:
        which = coordinator.policy.workload_class(workload_class)
        slots = slots[ints[c.CLASS, slots] == which]
    state = coordinator.state
    numbers, widest = parameter_vector(coordinator.policy), float(state.capacity.total.max())
    ranks, keys = ranks_and_keys(store, slots, now_s, numbers, state.teams.share, widest)
    keys += _RANKS_APART * ranks
    count = min(most, len(slots))
    if count < len(slots):
        last = np.partition(keys, count - 1)[count - 1] if count else -np.inf
        before = np.flatnonzero(keys < last)
        equal = np.flatnonzero(keys == last)[: count - len(before)]  # of equal keys the first, on every page
        first = np.sort(np.concatenate([before, equal]))
        return len(slots), slots[first][np.argsort(keys[first], kind="stable")]
    return len(slots), slots[np.argsort(keys, kind="stable")]


def queue_page(
    coordinator: Coordinator,
    offset: int,
    limit: int,
    *,
    now_s: float,
    pool: str = "",
    workload_class: str = "",
) -> QueuePage:
    """Return a page of the waiting jobs."""
    total, order = queue_order(
        coordinator, offset + limit, now_s=now_s, pool=pool, workload_class=workload_class
    )
    rows = tuple(_queue_row(coordinator, slot, now_s) for slot in order[offset : offset + limit].tolist())
    return QueuePage(total=total, rows=rows)


def etas(coordinator: Coordinator, most: int, now_s: float) -> dict[str, Eta]:
    """Return the ETAs of the first waiting jobs by job id."""
    _, order = queue_order(coordinator, most, now_s=now_s)
    found = forecast_starts(coordinator.state, order, now_s)
    return dict(zip(coordinator.state.store.job_ids(order.tolist()), found, strict=True))


def running_page(coordinator: Coordinator, offset: int, limit: int, *, now_s: float) -> RunningPage:
    """Return a page of the running jobs."""
    store = coordinator.state.store
    slots = store.running_slots
    order = slots[np.argsort(store.floats[c.START, slots], kind="stable")][offset : offset + limit]
    rows = tuple(_running_row(coordinator, slot, now_s) for slot in order.tolist())
    return RunningPage(total=len(slots), rows=rows)


def promises(coordinator: Coordinator) -> tuple[PromiseRow, ...]:
    """Return the promised starts that stand, the earliest first."""
    store = coordinator.state.store
    slots = store.waiting_slots
    held = slots[~np.isnan(store.floats[c.PROMISE, slots])]
    rows = [
        PromiseRow(
            job_id=store.ids[slot], width=int(store.ints[c.WIDTH, slot]),
            pool=_pool_name(coordinator, int(store.ints[c.POOL, slot])),
            start_s=float(store.floats[c.PROMISE, slot]), latest_s=_latest(coordinator, slot),
        )
        for slot in held.tolist()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (row.start_s, row.job_id)))


def capacity(coordinator: Coordinator, now_s: float) -> tuple[CapacityRow, ...]:
    """Return what each pool offers, now and later."""
    state = coordinator.state
    store, held = state.store, state.capacity
    ends = [
        expected_ends(store.floats, store.log_quantiles, store.running, store.n_running, now_s, level)
        for level in (0.5, 0.9)
    ]
    where = store.ints[c.POOL, store.running_slots]
    widths = store.ints[c.WIDTH, store.running_slots]
    rows = []
    for at, pool in enumerate(held.pools):
        first, last = int(held.first[at]), int(held.first[at + 1])
        nodes = tuple(
            NodeRow(index=index, total=int(held.node_units[first + index]), full=pool.node_units[index],
                    free=max(int(held.node_free[first + index]), 0))
            for index in range(last - first)
        )  # fmt: skip
        free, total = max(int(held.free[at]), 0), int(held.total[at])
        steps = []
        for ahead_s in _STEPS_S:
            at_s = now_s + ahead_s
            middle, sure = (free + int(widths[(where == at) & (end <= at_s)].sum()) for end in ends)
            steps.append((at_s, min(middle, total), min(sure, total)))
        rows.append(CapacityRow(
            pool=pool.name, gpu_type=pool.gpu_type, total=total, free=free, down=max(pool.total - total, 0),
            full_total=pool.total, scarce=pool.scarce, nodes=nodes, profile=tuple(steps),
        ))  # fmt: skip
    return tuple(rows)


def teams(coordinator: Coordinator) -> tuple[TeamRow, ...]:
    """Return all teams but the whole site, by name."""
    state = coordinator.state
    counts = np.bincount(
        state.store.ints[c.TEAM, state.store.waiting_slots], minlength=len(state.teams.names)
    )
    weight_of = {each.team: each.weight for each in state.teams.rule.weights}
    weights = np.array([weight_of.get(name, 1.0) for name in state.teams.names])
    rows = []
    for team, name in enumerate(state.teams.names):
        if not name:
            continue
        siblings = state.teams.parents == state.teams.parents[team]
        usage = float(state.teams.usage[siblings].sum())
        part = float(state.teams.usage[team]) / usage if usage > 0 else 0.0
        due = float(weights[team] / weights[siblings].sum())
        own = state.teams.own[team]
        rows.append(TeamRow(
            team=name, usage_ratio=part / due, used=int(state.teams.used[team].sum()),
            waiting=int(counts[team]), quota=None if bool(np.any(own >= UNLIMITED)) else int(own.sum()),
        ))  # fmt: skip
    return tuple(sorted(rows, key=lambda row: row.team))


def life_of(coordinator: Coordinator, job_id: str) -> Life:
    """Return what a job has had so far.

    Raises:
        KeyError: no job of that id waits or runs.
    """
    store = coordinator.state.store
    slot = store.slot_of[job_id]
    return Life(
        submitted_s=float(store.floats[c.SUBMIT, slot]), started_s=float(store.floats[c.START, slot]),
        resumed_s=float(store.floats[c.BASE, slot]), is_first=not store.floats[c.SERVED, slot] > 0,
    )  # fmt: skip


def explain(coordinator: Coordinator, job_id: str, now_s: float) -> Explanation:
    """Return why a job is where it is, when it may start, and what would change that.

    Raises:
        KeyError: no job of that id waits or runs.
    """
    store = coordinator.state.store
    slot = store.slot_of[job_id]
    kind = coordinator.policy.classes[int(store.ints[c.CLASS, slot])]
    if store.ints[c.STATE, slot] != c.WAITING:
        runs = _running_row(coordinator, slot, now_s)
        return Explanation(
            job_id=job_id, state=coordinator.knows(job_id), position=None, workload_class=kind.name,
            factors={}, reason=None, promise=None, forecast=runs.remaining,
            would_change=(f"It runs in {runs.pool} since {now_s - runs.started_s:.0f} s.",),
        )  # fmt: skip
    _, order = queue_order(coordinator, store.n_queue, now_s=now_s)
    position = int(np.flatnonzero(order == slot)[0]) + 1
    ahead = forecast_starts(coordinator.state, order[:position], now_s)[-1]
    row = _queue_row(coordinator, slot, now_s)
    return Explanation(
        job_id=job_id, state="waiting", position=position, workload_class=kind.name, factors=row.factors,
        reason=row.reason, promise=row.promise, forecast=row.forecast,
        eta={"q10_s": ahead.q10_s, "q50_s": ahead.q50_s, "q90_s": ahead.q90_s},
        siblings=_told_by_siblings(coordinator, slot),
        would_change=_would_change(coordinator, slot, position, now_s),
    )  # fmt: skip


def _told_by_siblings(coordinator: Coordinator, slot: int) -> str:
    """Return how the forecast of a waiting job differs from the one given, "" = it does not."""
    store = coordinator.state.store
    limit_s = float(store.floats[c.LIMIT, slot])
    given_s = quantile_s(store.given_log_quantiles[slot], limit_s, 0.5)
    now_s = quantile_s(store.log_quantiles[slot], limit_s, 0.5)
    if given_s == now_s:
        return ""
    return (
        f"Jobs of the same user, team, width and limit, submitted about when it was, have ended or run on: "
        f"its median is {now_s:.0f} s by now, {given_s:.0f} s at submission."
    )


def _would_change(coordinator: Coordinator, slot: int, position: int, now_s: float) -> tuple[str, ...]:
    """Return what would bring a waiting job forward, the nearest first."""
    state = coordinator.state
    store, order = state.store, coordinator.policy.order
    width = int(store.ints[c.WIDTH, slot])
    texts = []
    free = max(
        (
            int(state.capacity.free[k])
            for k in range(len(state.capacity.pools))
            if (int(store.ints[c.POOLS, slot]) >> k) & 1
        ),
        default=0,
    )
    if width > free:
        texts.append(f"{width - free} more free units: it needs {width}, {max(free, 0)} are free")
        if free > 0:
            texts.append(f"asking for at most {free} units, which are free now")
    if position > 1:
        ahead = "one job comes" if position == 2 else f"{position - 1} jobs come"
        texts.append(f"{ahead} before it: what comes first starts, ends or is withdrawn")
    wait_s = now_s - float(store.floats[c.SUBMIT, slot])
    if math.isfinite(order.guard_s):
        widest = max(float(state.capacity.total.max()), 1.0)
        backlog_s = float(store.floats[c.BACKLOG, slot])
        left_s = guard_s(width, widest, backlog_s, parameter_vector(coordinator.policy)) - wait_s
        if left_s > 0:
            texts.append(f"waiting {left_s:.0f} s more: then it comes before all that are not guarded")
    better = [each.name for each in coordinator.policy.classes if each.tier < store.ints[c.TIER, slot]]
    if better:
        texts.append(f"a class of a lower tier: {', '.join(better)}")
    return tuple(texts)


def _queue_row(coordinator: Coordinator, slot: int, now_s: float) -> QueueRow:
    state = coordinator.state
    floats, ints, logs = state.store.floats, state.store.ints, state.store.log_quantiles[slot]
    job = state.specs[slot]
    assert job is not None  # noqa: S101  (a slot in the queue has its job; for the type checker)
    limit_s = float(floats[c.LIMIT, slot])
    held, most = _tightest_quota(coordinator, slot)
    start_s = float(floats[c.PROMISE, slot])
    parts, key = factors(coordinator, slot, now_s), float(floats[c.KEY, slot])
    return QueueRow(
        job_id=job.job_id, user=job.user, team=job.team, gpu_type=job.gpu_type, width=job.width,
        workload_class=coordinator.policy.classes[int(ints[c.CLASS, slot])].name, pool=job.pool,
        submitted_s=float(floats[c.SUBMIT, slot]), limit_s=limit_s, factors=parts,
        score=sum(parts.values()) if math.isnan(key) else key,
        reason=waiting_reason(state.store, slot, held, most),
        forecast={name: quantile_s(logs, limit_s, level) for name, level in _LEVELS.items()},
        promise=None if math.isnan(start_s) else (start_s, _latest(coordinator, slot)),
        requeues=int(ints[c.EVICTIONS, slot]),
    )  # fmt: skip


def _tightest_quota(coordinator: Coordinator, slot: int) -> tuple[int, int]:
    """Return what is held of the quota that leaves a job's team least, over its pools and teams above it."""
    teams, ints = coordinator.state.teams, coordinator.state.store.ints
    found = (UNLIMITED, 0, UNLIMITED)
    for pool in range(len(teams.pools)):
        team = int(ints[c.TEAM, slot]) if ints[c.POOLS, slot] >> pool & 1 else -1
        while team >= 0:
            used, most = int(teams.used[team, pool]), int(teams.most[team, pool])
            found = min(found, (most - used, used, most))
            team = int(teams.parents[team])
    return found[1], found[2]


def factors(coordinator: Coordinator, slot: int, now_s: float) -> dict[str, float]:
    """Return what makes the key of a waiting job, in seconds, by factor; they sum to the key at ``now_s``."""
    state, order = coordinator.state, coordinator.policy.order
    floats, ints = state.store.floats, state.store.ints
    wait_s = now_s - float(floats[c.SUBMIT, slot])
    if order.by == "submit":
        return {"submission": float(floats[c.SUBMIT, slot])}
    weight = float(floats[c.WEIGHT, slot])
    size = float(floats[c.SIZE, slot])
    share = float(state.teams.share[int(ints[c.TEAM, slot])])
    found = {"size": size * weight, "class": size - size * weight, "fair_share": size * (share - 1.0)}
    shared = size * share
    if order.ageing == "linear":
        found["ageing"] = -order.ageing_rate * wait_s
    elif order.ageing == "ratio":
        found["ageing"] = shared / (1.0 + wait_s / order.ageing_tau_s) ** order.ageing_power - shared
    deadline_s = float(floats[c.DEADLINE, slot])
    if not math.isnan(deadline_s):
        short_s = order.deadline_horizon_s - (deadline_s - now_s - float(floats[c.PLAN, slot]))
        found["deadline"] = -order.deadline_weight * max(short_s, 0.0)
    return found


def _running_row(coordinator: Coordinator, slot: int, now_s: float) -> RunningRow:
    state = coordinator.state
    floats, ints, logs = state.store.floats, state.store.ints, state.store.log_quantiles[slot]
    job = state.specs[slot]
    assert job is not None  # noqa: S101  (as above)
    started_s = float(floats[c.START, slot])
    elapsed_s = max(now_s - started_s + float(floats[c.BASE, slot]), 0.0)
    limit_s = float(floats[c.LIMIT, slot])
    return RunningRow(
        job_id=job.job_id, user=job.user, team=job.team, width=job.width, started_s=started_s,
        workload_class=coordinator.policy.classes[int(ints[c.CLASS, slot])].name,
        pool=_pool_name(coordinator, int(ints[c.POOL, slot])), nodes=nodes_of(state, slot),
        remaining={name: remaining_s(logs, limit_s, elapsed_s, level) for name, level in _LEVELS.items()},
        preemptible=bool(ints[c.PREEMPTIBLE, slot]),
    )  # fmt: skip


def _latest(coordinator: Coordinator, slot: int) -> float:
    floats = coordinator.state.store.floats
    latest_s, start_s = float(floats[c.LATEST, slot]), float(floats[c.PROMISE, slot])
    return start_s if math.isnan(latest_s) else latest_s


def _pool_name(coordinator: Coordinator, pool: int) -> str:
    return coordinator.pools[pool].name if pool >= 0 else ""

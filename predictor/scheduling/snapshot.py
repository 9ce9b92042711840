"""This module writes the whole state of a Coordinator as a JSON-able document, and restores it exactly.

What people look for (policy, pools, jobs as submitted) is plain; columns are base64 of little-endian numbers,
because the restored Coordinator must decide bit for bit as the one that was never stopped.
"""

import base64
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from predictor.contracts.event_codec import event_document, event_from_document
from predictor.contracts.events import JobSubmitted
from predictor.errors import FormatError
from predictor.scheduling import columns as c
from predictor.scheduling.capacity import Pool
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy_document import policy_document, policy_from_document
from predictor.scheduling.siblings import sibling_key
from predictor.scheduling.state import SchedulingState

FORMAT = 3


def snapshot(coordinator: Coordinator) -> dict[str, Any]:
    """Return policy and state as a JSON-able document."""
    state = coordinator.state
    return {
        "format": FORMAT,
        "now_s": _number(state.now_s),
        "policy": policy_document(coordinator.policy),
        "pools": [_pool_document(pool) for pool in state.capacity.pools],
        "jobs": [None if job is None else event_document(job) for job in state.specs],
        "columns": {name: _pack(values) for name, values in _arrays(state).items()},
        "free_slots": list(state.store.free_slots),
        "next_sequence": state.store.next_sequence,
        "teams": list(state.teams.names),
        "usage_at_s": _number(state.teams.usage_at_s),
        "share_at_s": _number(state.teams.share_at_s),
        "urgent_seen": state.demand.any,
        "evictions_s": list(state.evictions_s),
        "leaving": {str(slot): job_id for slot, job_id in state.leaving.items()},
        "evictors": {str(slot): sorted(ids) for slot, ids in state.evictors.items()},
        "promises": [state.promises.log_stretch, state.promises.kept, state.promises.broken],
    }


def state_of(document: Any) -> Any:  # Any: JSON
    """Return a snapshot by itself, also where the service tells beside it when it was taken."""
    return (
        document["state"] if isinstance(document, dict) and {"form", "state"} <= set(document) else document
    )


def restore(document: Mapping[str, Any]) -> Coordinator:
    """Return the Coordinator of a snapshot.

    Raises:
        FormatError: the document is not a snapshot of this format.
    """
    if document.get("format") != FORMAT:
        raise FormatError(f"format={document.get('format')!r} is not a snapshot; this reads format {FORMAT}")
    try:
        return _restore(document)
    except (KeyError, ValueError, TypeError) as error:
        raise FormatError(f"the snapshot is damaged: {type(error).__name__}: {error}") from error


def _restore(document: Mapping[str, Any]) -> Coordinator:
    policy = policy_from_document(document["policy"])
    coordinator = Coordinator(policy, [_pool(each) for each in document["pools"]])
    state, store = coordinator.state, coordinator.state.store
    for name in document["teams"]:
        state.teams.number(name)
    state.specs = [None if each is None else _job(each) for each in document["jobs"]]
    store.ids = ["" if job is None else job.job_id for job in state.specs]
    store.slot_of = {job.job_id: slot for slot, job in enumerate(state.specs) if job is not None}
    store.free_slots = list(document["free_slots"])
    store.next_sequence = document["next_sequence"]
    while store.floats.shape[1] < max(len(state.specs), 1):
        store.grow()
    columns = {name: _unpack(each) for name, each in document["columns"].items()}
    n = len(state.specs)
    store.floats[:, :n] = columns.pop("floats")
    ints = columns.pop("ints")
    store.ints[: len(ints), :n] = ints  # snapshots of before CONFIRMED have one row less
    store.log_quantiles[:n] = columns.pop("log_quantiles")
    store.given_log_quantiles[:n] = columns.pop("given_log_quantiles")
    for slot, job in enumerate(state.specs):
        if job is not None and store.ints[c.YOUNGER, slot] < 0:
            store.last_sibling[sibling_key(job)] = slot
    queue, running = columns.pop("queue"), columns.pop("running")
    store.queue[: len(queue)], store.n_queue = queue, len(queue)
    store.running[: len(running)], store.n_running = running, len(running)
    state.capacity.listed = columns.pop("listed")
    for name, values in _arrays(state).items():
        if name in columns:
            values[...] = columns[name]
    state.now_s = float(document["now_s"])
    state.teams.usage_at_s = float(document["usage_at_s"])
    state.teams.share_at_s = float(document["share_at_s"])
    state.demand.any = bool(document["urgent_seen"])
    state.evictions_s = [float(at) for at in document["evictions_s"]]
    state.leaving = {int(slot): str(job_id) for slot, job_id in document["leaving"].items()}
    state.evictors = {int(slot): set(ids) for slot, ids in document.get("evictors", {}).items()}
    stretch, kept, broken = document["promises"]
    state.promises.log_stretch, state.promises.kept, state.promises.broken = stretch, kept, broken
    return coordinator


def _arrays(state: SchedulingState) -> dict[str, np.ndarray[Any, Any]]:
    """Return every array of the state by name, cut to the slots in use."""
    store, capacity, teams, demand = state.store, state.capacity, state.teams, state.demand
    n = len(state.specs)
    return {
        "floats": store.floats[:, :n],
        "ints": store.ints[:, :n],
        "log_quantiles": store.log_quantiles[:n],
        "given_log_quantiles": store.given_log_quantiles[:n],
        "queue": store.waiting_slots,
        "running": store.running_slots,
        "free": capacity.free,
        "total": capacity.total,
        "node_free": capacity.node_free,
        "node_units": capacity.node_units,
        "listed": capacity.listed,
        "spare": capacity.spare,
        "used": teams.used,
        "usage": teams.usage,
        "share": teams.share,
        "demand": demand.units,
        "demand_weeks": demand.week_of,
    }


def _pool_document(pool: Pool) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(pool).items()}


def _pool(document: Mapping[str, Any]) -> Pool:
    lists = {each.name for each in fields(Pool) if str(each.type).startswith("tuple")}
    values: dict[str, Any] = {
        name: tuple(value) if name in lists else value for name, value in document.items()
    }
    return Pool(**values)


def _job(document: Mapping[str, Any]) -> JobSubmitted:
    job = event_from_document(document)
    if not isinstance(job, JobSubmitted):
        raise TypeError(f"{type(job).__name__} where a submission was expected")
    return job


def _number(value: float) -> float | str:
    return value if np.isfinite(value) else repr(value)


def _pack(values: np.ndarray[Any, Any]) -> list[Any]:
    packed = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"))
    return [packed.dtype.str, list(packed.shape), base64.b64encode(packed.tobytes()).decode("ascii")]


def _unpack(packed: list[Any]) -> np.ndarray[Any, Any]:
    kind, shape, text = packed
    return np.frombuffer(base64.b64decode(text), dtype=kind).reshape(shape).copy()

"""This module defines what the engine takes and gives: roles, steps, and what is recorded beside them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from predictor.contracts.decisions import Decision
from serving.live.hub import Change
from serving.store.event_log import Answer, AuditEntry, PolicyVersion


class Role(StrEnum):
    """What this instance may do."""

    STARTING = "starting"
    STANDBY = "standby"
    LEADING = "leading"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A step that is on disk: its sequence in the log, and what it led to."""

    sequence: int
    now_s: float
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is recorded beside the events of a step, all in one transaction."""

    actor: str = ""
    audits: tuple[AuditEntry, ...] = ()
    policy: PolicyVersion | None = None
    answer: Callable[[Applied], Answer] | None = None


NOTHING_BESIDE = Record()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """A step that watchers are not told of yet; ``changes`` None = they must fetch the state anew."""

    durable: "asyncio.Future[None]"
    sequence: int
    changes: list[Change] | None

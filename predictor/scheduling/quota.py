"""This module bounds how many units a team may hold in each pool, hierarchically, with borrowing.

A team's name is a path (``physics/lab3/alice``); what it holds counts for every team above it. Up to its
quota a team's units are its own; up to quota + borrow it may use what others leave idle, and what is
borrowed can be claimed back by a team that is within its own quota.
"""

from dataclasses import dataclass

from predictor.features.compiled import compiled
from predictor.scheduling.store import IntArray

UNLIMITED = 1 << 60


@compiled
def within_most(used: IntArray, most: IntArray, parents: IntArray, team: int, pool: int, width: int) -> bool:
    """Return whether a team, and every team above it, may hold so many more units of a pool.

    Args:
        used, most: shape (teams, P), units that each holds, and may hold. parents: shape (teams,), -1 = none.
    """
    while team >= 0:
        if used[team, pool] + width > most[team, pool]:
            return False
        team = parents[team]
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """How many units of a pool a team owns and may borrow.

    Attributes:
        pool: "" = each pool that has no quota of its own for that team.
        units: its own.
        borrow: how many more it may use while they are idle.
    """

    team: str
    units: int
    pool: str = ""
    borrow: int = 0

    def faults(self) -> list[str]:
        """Return what is wrong with it, [] = nothing."""
        faults = []
        if self.units < 0:
            faults.append(f"quota of {self.team!r}: units={self.units} must be 0 or more")
        if self.borrow < 0:
            faults.append(f"quota of {self.team!r}: borrow={self.borrow} must be 0 or more")
        return faults


def team_path(team: str) -> list[str]:
    """Return the names of a team and of all teams above it, outermost (the whole site, "") first."""
    parts = [part for part in team.split("/") if part]
    return ["", *("/".join(parts[: k + 1]) for k in range(len(parts)))]


def quota_of(quotas: tuple[Quota, ...], team: str, pool: str) -> Quota | None:
    """Return the quota that holds for a team in a pool; one that names the pool goes first."""
    general = None
    for quota in quotas:
        if quota.team == team and quota.pool == pool:
            return quota
        if quota.team == team and not quota.pool:
            general = quota
    return general

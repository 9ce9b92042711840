"""This module numbers teams and keeps what each holds, may hold and has used, its sub-teams included."""

import numpy as np

from predictor.scheduling.capacity import Pool
from predictor.scheduling.fair_share import FairShare, decayed_usage, share_factors
from predictor.scheduling.quota import UNLIMITED, Quota, quota_of, team_path
from predictor.scheduling.store import FloatArray, IntArray


class Teams:
    """The tree of teams; index 0 is the whole site, a parent precedes its children.

    Attributes:
        parents: shape (T,), -1 = none.
        used, own, most: shape (T, P), units held, owned, and allowed with borrowing.
        usage: shape (T,), decayed unit-seconds up to ``usage_at_s``. share: shape (T,), factors on sizes.
    """

    def __init__(self, pools: tuple[Pool, ...], quotas: tuple[Quota, ...], rule: FairShare) -> None:
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.pools, self.quotas, self.rule = pools, quotas, rule
        self.parents: IntArray = np.zeros(0, dtype=np.int64)
        self.used: IntArray = np.zeros((0, len(pools)), dtype=np.int64)
        self.own = self.used.copy()
        self.most = self.used.copy()
        self.usage: FloatArray = np.zeros(0)
        self.share: FloatArray = np.zeros(0)
        self.usage_at_s = -np.inf
        self.share_at_s = -np.inf
        self.number("")

    def number(self, team: str) -> int:
        """Return the index of a team, new or known."""
        known = self.index.get(team)
        if known is not None:
            return known
        parent = -1
        for name in team_path(team):
            if name not in self.index:
                self._add(name, parent)
            parent = self.index[name]
        self.index[team] = parent
        return parent

    def _add(self, name: str, parent: int) -> None:
        self.index[name] = len(self.names)
        self.names.append(name)
        self.parents = np.append(self.parents, parent)
        self.used = np.vstack([self.used, np.zeros((1, len(self.pools)), dtype=np.int64)])
        own, most = self._limits(name)
        self.own, self.most = np.vstack([self.own, own]), np.vstack([self.most, most])
        self.usage = np.append(self.usage, 0.0)
        self.share = np.append(self.share, 1.0)
        self.share_at_s = -np.inf

    def _limits(self, name: str) -> tuple[IntArray, IntArray]:
        found = [quota_of(self.quotas, name, pool.name) for pool in self.pools]
        own = [UNLIMITED if quota is None else quota.units for quota in found]
        most = [UNLIMITED if quota is None else quota.units + quota.borrow for quota in found]
        return np.array(own, dtype=np.int64), np.array(most, dtype=np.int64)

    def configure(self, quotas: tuple[Quota, ...], rule: FairShare) -> None:
        """Let other quotas and another rule of fair share hold from now on."""
        self.quotas, self.rule = quotas, rule
        for team, name in enumerate(self.names):
            self.own[team], self.most[team] = self._limits(name)
        self.share_at_s = -np.inf
        if rule.strength == 0:
            self.share[:] = 1.0

    def hold(self, team: int, pool: int, units: int) -> None:
        """Count units as held (or, negative, as given back) by a team and all above it."""
        while team >= 0:
            self.used[team, pool] += units
            team = int(self.parents[team])

    def borrowed(self, team: int, pool: int) -> int:
        """Return by how many units a team, or one above it, is beyond its own quota."""
        most = 0
        while team >= 0:
            most = max(most, int(self.used[team, pool] - self.own[team, pool]))
            team = int(self.parents[team])
        return most

    def within_own(self, team: int, pool: int, width: int) -> bool:
        """Return whether a team has a quota in which so many more units stay within its own."""
        owned = False
        while team >= 0:
            if self.used[team, pool] + width > self.own[team, pool]:
                return False
            owned = owned or self.own[team, pool] < UNLIMITED
            team = int(self.parents[team])
        return owned

    def advance(self, now_s: float) -> None:
        """Let usage accrue and decay up to now; must be called before what is held changes."""
        if len(self.names) == 1 or self.rule.strength == 0 or now_s <= self.usage_at_s:
            return
        if self.usage_at_s > -np.inf:
            held = self.used.sum(axis=1).astype(np.float64)
            passed_s = now_s - self.usage_at_s
            self.usage = decayed_usage(self.usage, held, passed_s, self.rule.half_life_s)
        self.usage_at_s = now_s
        if now_s >= self.share_at_s + self.rule.refresh_s:
            weight_of = {each.team: each.weight for each in self.rule.weights}
            weights = np.array([weight_of.get(name, 1.0) for name in self.names])
            self.share = share_factors(self.usage, self.parents, weights, self.rule)
            self.share_at_s = now_s

    def copy(self) -> "Teams":
        """Return an independent copy."""
        other = Teams.__new__(Teams)
        other.names, other.index = list(self.names), dict(self.index)
        other.pools, other.quotas, other.rule = self.pools, self.quotas, self.rule
        other.parents, other.used = self.parents.copy(), self.used.copy()
        other.own, other.most = self.own.copy(), self.most.copy()
        other.usage, other.share = self.usage.copy(), self.share.copy()
        other.usage_at_s, other.share_at_s = self.usage_at_s, self.share_at_s
        return other
